//! What to do about a manifest that cannot be used: what is wrong with it, its own message says, by line and field.

/// Words of the message, and what to do.
const RULES: &[(&str, &str)] = &[
    ("is already defined by", "rename the pod in one of the two manifests, or remove one"),
    ("has the same uid", "remove metadata.uid from one of the two manifests"),
    ("target of the symbolic link does not exist", "make what the link points to, or remove the link"),
    ("only regular files are read", "move it out of the directory of manifests"),
    ("larger than", "see that it is the file you meant: no manifest is that large"),
    (
        "cannot read the file",
        "see that root may read the file, and that its disk is in order (journalctl -k)",
    ),
    ("cannot list the manifests", "see that the directory staticPodPath can be read by root"),
    (
        "unknown field",
        "correct the name of the field, and see that it stands below the right one (kubectl explain pod.spec tells where)",
    ),
    ("not YAML or JSON", "correct the text at that place: indentation, quotes, colons and brackets"),
    ("UTF-8", "save the file as UTF-8"),
    ("the file is empty", "write a pod into it, or remove the file"),
    ("into a file of its own", "put each pod into a file of its own"),
    (
        "hostlet runs only pods",
        "write the pod itself as a manifest of kind Pod: what stands in spec.template, with a name",
    ),
    (
        "a static pod may not",
        "remove that field: a pod from a manifest stands alone, without objects of a cluster",
    ),
];

/// What a newcomer does about it. All mistakes are in the message.
pub(in crate::explain) fn manifest_remedy(message: &str) -> String {
    let known = RULES.iter().find(|(words, _)| message.contains(words)).map(|(_, remedy)| *remedy);
    format!(
        "{}; the manifest is read again as soon as it changes",
        known.unwrap_or("correct the fields that the message names")
    )
}
