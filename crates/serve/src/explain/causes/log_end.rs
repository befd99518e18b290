//! Common errors in the last log line of a failed program.

/// Lower-case words that must all occur, and the remedy.
const RULES: &[(&[&str], &str)] = &[
    (
        &["address already in use"],
        "another program has the port it listens on: with hostNetwork all pods and the host share ports (ss \
         -ltnp shows who has it), otherwise another container of the pod; change one of the ports",
    ),
    (
        &["read-only file system"],
        "it writes to a read-only file system: mount an emptyDir there, or remove readOnlyRootFilesystem or the \
         volume's readOnly",
    ),
    (
        &["exec format error"],
        "its program is built for another architecture (uname -m), or is a script without an interpreter line \
         such as #!/bin/sh: use an image for this architecture, or correct the script",
    ),
    (
        &["exec ", "no such file or directory"],
        "the interpreter of its script is not in its image, or the script has Windows line endings: correct the \
         first \
         line of the script, or use another image",
    ),
    (
        &["operation not permitted"],
        "it needs root or a privilege that containers do not have: check runAsUser, and add the capability it \
         needs to \
         securityContext.capabilities",
    ),
    (
        &["permission denied"],
        "its user lacks the permission: check runAsUser and fsGroup, and the owners of files in its image and \
         volumes",
    ),
    (
        &["no space left on device"],
        "a disk of this host, or a volume with a size limit, is full: df -h shows which",
    ),
    (
        &["could not resolve host"],
        "a name cannot be resolved: check the pod's dnsPolicy and the host's /etc/resolv.conf",
    ),
    (
        &["name resolution"],
        "a name cannot be resolved: check the pod's dnsPolicy and the host's /etc/resolv.conf",
    ),
    (
        &["no such host"],
        "a name cannot be resolved: check the pod's dnsPolicy and the host's /etc/resolv.conf",
    ),
    (
        &["connection refused"],
        "the service that it connects to does not listen: check that the service runs, and its address in the \
         container's env and args",
    ),
];

/// The remedy for a program whose output ends with this text.
pub(in crate::explain) fn of_log_end(words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    let fits = |words_of_rule: &[&str]| words_of_rule.iter().all(|word| words.contains(word));
    RULES.iter().find(|(rule, _)| fits(rule)).map(|(_, remedy)| *remedy)
}
