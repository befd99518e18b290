//! Strips the prefixes that callers add to an error message. Pure.

/// Prefixes added by containerd, runc and hostlet: the start and, if a prefix has a variable part, its end.
const PREFIXES: [(&str, &str); 24] = [
    ("Error: ", ""),
    ("rpc error: code = ", " desc = "),
    ("Failed to create pod sandbox: ", ""),
    ("failed to start sandbox container task ", ": "),
    ("failed to start sandbox \"", ": "),
    ("failed to create containerd task: ", ""),
    ("failed to create containerd container: ", ""),
    ("failed to start containerd task \"", ": "),
    ("failed to create shim task: ", ""),
    ("OCI runtime create failed: ", ""),
    ("OCI runtime start failed: ", ""),
    ("runc create failed: ", ""),
    ("unable to start container process: ", ""),
    ("error during container init: ", ""),
    ("container init caused: ", ""),
    ("failed to generate container \"", " spec: "),
    ("failed to generate sandbox container spec: ", ""),
    ("failed to generate spec: ", ""),
    ("failed to pull and unpack image \"", "\": "),
    ("failed to resolve reference \"", "\": "),
    ("failed to resolve image: ", ""),
    ("failed to do request: ", ""),
    ("Error response from daemon: ", ""),
    ("Unable to attach or mount volumes: unmounted volumes=", "]: "),
];
/// Suffix added by containerd 1 to an unclassified error.
const UNCLASSIFIED: &str = ": unknown";

/// The innermost error message.
pub(in crate::explain) fn innermost_message(message: &str) -> &str {
    let mut words = message.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|(begin, end)| {
        let rest = words.strip_prefix(begin)?;
        let rest =
            rest.split_once(end).filter(|_| !end.is_empty()).map_or(rest, |(_, rest)| rest).trim_start();
        (!rest.is_empty()).then_some(rest)
    }) {
        words = rest;
    }
    words.strip_suffix(UNCLASSIFIED).unwrap_or(words)
}

#[cfg(test)]
mod tests {
    use super::innermost_message;

    #[test]
    fn prefixes_are_stripped_and_the_message_remains() {
        let exec = r#"exec: "nope": executable file not found in $PATH"#;
        for (message, own) in [
            (
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
                 failed: unable to start container process: exec: \"nope\": executable file not found in $PATH: unknown",
                exec,
            ),
            ("rpc error: code = Unknown desc = failed to start sandbox \"0123\": runc create failed: x", "x"),
            (
                "failed to pull and unpack image \"a/b:1\": failed to resolve reference \"a/b:1\": a/b:1: not found",
                "a/b:1: not found",
            ),
            (
                "failed to generate container \"01\" spec: failed to generate spec: no command specified",
                "no command specified",
            ),
            ("runc create failed: ", "runc create failed:"),
            ("rpc error: code = ", "rpc error: code ="),
            ("all else", "all else"),
        ] {
            assert_eq!(innermost_message(message), own);
        }
    }
}
