//! Remedies for an unusable manifest. The message itself names the line and field.

/// A part of the message, and the remedy.
const RULES: &[(&str, &str)] = &[
    ("is already defined by", "rename the pod or the object in one of the two manifests, or remove one"),
    ("chmod 600", "run that command: a Secret is only taken from a file that only root can read and change"),
    (
        "has no effect: this node has an API server",
        "create the object in the cluster, and remove it from the manifest",
    ),
    ("has the same uid", "remove metadata.uid from one of the two manifests"),
    ("target of the symbolic link does not exist", "create the target of the link, or remove the link"),
    ("only regular files are read", "move it out of the manifest directory"),
    ("larger than", "check that it is the right file: no manifest is that large"),
    (
        "cannot read the file",
        "check that root can read the file, and that its disk has no errors (journalctl -k)",
    ),
    ("cannot list the manifests", "check that root can read the directory staticPodPath"),
    (
        "unknown field",
        "correct the name of the field, and check that it is in the right place (see kubectl explain pod.spec)",
    ),
    ("not YAML or JSON", "correct the text at that place: indentation, quotes, colons and brackets"),
    ("UTF-8", "save the file as UTF-8"),
    (
        "it cannot be fetched",
        "check that this host can reach the server of staticPodURL, and which proxy hostlet's environment names",
    ),
    ("the answer is empty", "serve a v1 PodList; one without items defines no pod"),
    ("one Pod or PodList of apiVersion v1", "correct staticPodURL, or what its server answers"),
    ("has the same name or uid", "change name or uid of one of the two pods"),
    ("the file is empty", "write a pod into it, or remove the file"),
    ("into its own file", "put each pod into its own file"),
    (
        "not a Pod of apiVersion v1",
        "write the pod itself as a manifest of kind Pod: the contents of spec.template, with a name",
    ),
    ("a static pod may not", "remove that field: a static pod cannot refer to objects of the cluster"),
];

/// The remedy for a manifest's problem.
pub(in crate::explain) fn manifest_remedy(message: &str) -> String {
    let known = RULES.iter().find(|(words, _)| message.contains(words)).map(|(_, remedy)| *remedy);
    format!(
        "{}; the manifest is read again as soon as it changes",
        known.unwrap_or("correct the fields that the message names")
    )
}
