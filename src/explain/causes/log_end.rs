//! What the last words of a program mean that failed: the few that every newcomer meets.

/// Words in lower case, all of which are there; and what to do.
const RULES: &[(&[&str], &str)] = &[
    (
        &["address already in use"],
        "another program has the port it listens on: with hostNetwork all pods and the host share their ports (ss -ltnp tells \
         who has it), else another container of the pod; change the port of one of them",
    ),
    (
        &["read-only file system"],
        "it writes where it may not: mount an emptyDir there, or remove readOnlyRootFilesystem or readOnly of the volume",
    ),
    (
        &["exec format error"],
        "its program is not made for this machine (uname -m), or is a script that does not begin with a line such as \
         #!/bin/sh: use an image for this machine, or correct the script",
    ),
    (
        &["exec ", "no such file or directory"],
        "the interpreter that its program names is not in its image, or the script has line ends of Windows: correct the first \
         line of the script, or use another image",
    ),
    (
        &["operation not permitted"],
        "it does what only root may, or a container may not: see runAsUser, and add the capability it needs to \
         securityContext.capabilities",
    ),
    (
        &["permission denied"],
        "its user may not do that: see runAsUser and fsGroup, and who owns the files in its image and volumes",
    ),
    (
        &["no space left on device"],
        "a disk of this host, or a volume with a size limit, is full: df -h tells which",
    ),
    (
        &["could not resolve host"],
        "a name is not known to DNS: see dnsPolicy of the pod and the host's /etc/resolv.conf",
    ),
    (
        &["name resolution"],
        "a name is not known to DNS: see dnsPolicy of the pod and the host's /etc/resolv.conf",
    ),
    (
        &["no such host"],
        "a name is not known to DNS: see dnsPolicy of the pod and the host's /etc/resolv.conf",
    ),
    (
        &["connection refused"],
        "what it connects to does not listen: see that the other service runs, and its address in the container's env and args",
    ),
];

/// What to do about a program that ended with these words.
pub(in crate::explain) fn of_log_end(words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    let fits = |wanted: &[&str]| wanted.iter().all(|word| words.contains(word));
    RULES.iter().find(|(wanted, _)| fits(wanted)).map(|(_, remedy)| *remedy)
}
