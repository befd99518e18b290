//! Decodes the bytes of a manifest file, YAML or JSON, into one v1 Pod, strictly. No defaulting, no validation, no I/O.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::types::one_line;
use crate::yaml::{self, Document, Flaw, Problem, parse_documents};

/// Maximum number of reported mistakes, and maximum bytes of each: a file may consist of nothing but mistakes.
const MAX_MISTAKES: usize = 100;
const MAX_MESSAGE: usize = 1000;
/// Maximum bytes of a quoted kind.
const MAX_KIND: usize = 100;

/// Why a file does not contain one pod. Every message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The file is not UTF-8.
    #[error("the file is not UTF-8 text (byte {0}); save it as UTF-8")]
    NotUtf8(usize),
    /// The file has no document.
    #[error("the file is empty; it should contain one v1 Pod")]
    Empty,
    /// The file is not YAML or JSON, or has a duplicate key.
    #[error("not YAML or JSON: {0}")]
    Syntax(String),
    /// The file has several documents.
    #[error("the file contains {0} documents; put each pod into its own file")]
    SeveralDocuments(usize),
    /// The document is a list of objects.
    #[error("the file contains a {0}; put each of its pods into its own file")]
    List(String),
    /// The document is an object, but not a pod.
    #[error("the file contains {found}, not a Pod of apiVersion v1; hostlet runs only pods from manifests")]
    OtherKind {
        /// What was found instead.
        found: String,
    },
    /// The document is a pod with wrong values.
    #[error("{0}")]
    Fields(Mistakes),
}

/// Mistakes in a manifest with their lines, in order. `Display` writes one line for each of the first ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<(usize, String)>);

impl Mistakes {
    /// Looks up the lines of mistakes, each given as the path of the field and a message.
    pub(super) fn locate(document: &Document, mistakes: impl Iterator<Item = (String, String)>) -> Self {
        let mut located: Vec<_> =
            mistakes.map(|(path, message)| (document.lines.line(&path).unwrap_or(1), message)).collect();
        located.sort_by_key(|(line, _)| *line);
        Self(located)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (line, message)) in self.0.iter().take(MAX_MISTAKES).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}line {line}: {}", one_line(message, MAX_MESSAGE))?;
        }
        match self.0.get(MAX_MISTAKES) {
            Some((line, _)) => {
                write!(f, "\nline {line}: {} more mistakes from here on", self.0.len() - MAX_MISTAKES)
            }
            None => Ok(()),
        }
    }
}

/// A decoded pod.
pub(super) struct Decoded {
    pub(super) pod: Pod,
    /// The document, with the lines of its fields.
    pub(super) document: Document,
    /// Paths of unknown fields, each with a message; they are not in `pod`.
    pub(super) unknown: Vec<(String, String)>,
}

/// Decodes the pod of a manifest. Unknown fields are returned along with the pod, so that validation errors can be reported
/// at the same time.
pub(super) fn decode_pod(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8(error.valid_up_to()))?;
    let mut documents = parse_documents(text).map_err(|errors| {
        let lines = errors.iter().map(|e| format!("line {} column {}: {e}", e.line, e.column));
        DecodeError::Syntax(lines.collect::<Vec<_>>().join("\n"))
    })?;
    documents.retain(|document| !document.value.is_null());
    let (document, others) = match documents.len() {
        0 => return Err(DecodeError::Empty),
        count => (documents.swap_remove(0), count - 1),
    };
    if others > 0 {
        return Err(DecodeError::SeveralDocuments(others + 1));
    }
    check_kind(&document.value)?;
    let (pod, flaws) = yaml::decode(&document.value);
    let flaws: Vec<_> = flaws.into_iter().map(message_of).collect();
    match pod {
        Some(pod) => Ok(Decoded { pod, document, unknown: flaws }),
        None => Err(DecodeError::Fields(Mistakes::locate(&document, flaws.into_iter()))),
    }
}

/// The path of a flaw, and a message about it.
fn message_of(Flaw { path, problem }: Flaw) -> (String, String) {
    let message = match problem {
        Problem::Unknown { nearest: Some(nearest) } => {
            format!("{path}: unknown field, did you mean {nearest:?}?")
        }
        Problem::Unknown { nearest: None } => format!("{path}: unknown field"),
        Problem::Wrong { message } => format!("{path}: {message}"),
    };
    (path, message)
}

fn check_kind(document: &Value) -> Result<(), DecodeError> {
    let other = |found: &str| Err(DecodeError::OtherKind { found: one_line(found, MAX_KIND) });
    let Value::Object(object) = document else {
        return match document {
            Value::Array(_) => Err(DecodeError::List("list".to_owned())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                other("a bare value")
            }
        };
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    match (text("apiVersion"), text("kind")) {
        (Some("v1"), Some("Pod")) => Ok(()),
        (_, Some(kind)) if kind.ends_with("List") => Err(DecodeError::List(one_line(kind, MAX_KIND))),
        (Some(version), Some(kind)) => other(&format!("a {kind} of apiVersion {version}")),
        (None, Some(_)) => other("an object without apiVersion"),
        (_, None) => other("an object without kind"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use proptest::prelude::*;

    use super::DecodeError;

    fn decode_pod(bytes: &[u8]) -> Result<Pod, DecodeError> {
        let decoded = super::decode_pod(bytes)?;
        match decoded.unknown.is_empty() {
            true => Ok(decoded.pod),
            false => Err(DecodeError::Fields(super::Mistakes::locate(
                &decoded.document,
                decoded.unknown.into_iter(),
            ))),
        }
    }

    const POD: &str =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: a}\n";

    #[test]
    fn yaml_and_json_are_decoded() {
        let yaml = decode_pod(POD.as_bytes()).unwrap();
        let json = decode_pod(
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"a"}]}}"#,
        )
        .unwrap();
        assert_eq!(yaml, json);
        assert_eq!(decode_pod(format!("---\n{POD}---\n").as_bytes()).unwrap(), yaml);
        let octal = POD.to_owned() + "  volumes: [{name: s, secret: {secretName: s, defaultMode: 0400}}]\n";
        let volumes = decode_pod(octal.as_bytes()).unwrap().spec.unwrap().volumes.unwrap();
        assert_eq!(volumes[0].secret.as_ref().unwrap().default_mode, Some(256));
    }

    #[test]
    fn other_content_is_rejected_with_the_remedy() {
        let error = |text: &str| decode_pod(text.as_bytes()).unwrap_err();
        for empty in ["", "\n", "# nothing\n", "---\n", "null"] {
            assert_eq!(error(empty), DecodeError::Empty, "{empty:?}");
        }
        assert_eq!(error(&format!("{POD}---\n{POD}")), DecodeError::SeveralDocuments(2));
        assert_eq!(error("apiVersion: v1\nkind: PodList\nitems: []"), DecodeError::List("PodList".into()));
        assert_eq!(error("[]"), DecodeError::List("list".into()));
        for other in [
            "5",
            "x",
            "{}",
            "kind: Pod",
            "apiVersion: apps/v1\nkind: Deployment",
            "apiVersion: v2\nkind: Pod",
        ] {
            assert!(matches!(error(other), DecodeError::OtherKind { .. }), "{other}");
        }
        assert_eq!(decode_pod(b"a: \xff"), Err(DecodeError::NotUtf8(3)));
        assert!(matches!(error("a: [1"), DecodeError::Syntax(_)));
    }

    #[test]
    fn a_duplicate_key_is_rejected_with_its_line() {
        let error =
            decode_pod(format!("{POD}  hostNetwork: true\n  hostNetwork: false\n").as_bytes()).unwrap_err();
        let DecodeError::Syntax(message) = error else { panic!("{error}") };
        assert!(message.contains("hostNetwork") && message.contains("8"), "{message}");
    }

    #[test]
    fn mistakes_are_listed_with_their_lines() {
        let text = format!("{POD}  hostNetwork: 1\n  zzz: {{}}\n  restartpolicy: Never\n");
        let error = decode_pod(text.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 7: spec.hostNetwork: found integer `1`, expected a boolean\n\
             line 8: spec.zzz: unknown field\n\
             line 9: spec.restartpolicy: unknown field, did you mean \"restartPolicy\"?"
        );
    }

    #[test]
    fn messages_stay_readable_for_hostile_files() {
        let error = |text: &str| decode_pod(text.as_bytes()).unwrap_err().to_string();
        let unknown: String = (0..1000).map(|n| format!("  z{n}: 1\n")).collect();
        let message = error(&format!("{POD}{unknown}"));
        assert_eq!(message.lines().count(), 101);
        assert!(message.ends_with("\nline 107: 900 more mistakes from here on"), "{message}");

        let message =
            error(&format!("{POD}  \"a\\nline 1: b\\e[2J\": 1\n  ? {}\n  : 1\n", "k".repeat(1 << 20)));
        assert_eq!(message.lines().count(), 2, "{message}");
        assert!(message.len() < 1500 && !message.contains('\u{1b}'), "{message}");
        assert!(error(&format!("apiVersion: v1\nkind: {}\n", "K".repeat(1 << 20))).len() < 300);
    }

    proptest! {
        #[test]
        fn hostile_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_pod(&bytes);
        }

        #[test]
        fn damaged_manifests_do_not_panic(at in 0_usize..90, byte in any::<u8>()) {
            let mut bytes = POD.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode_pod(&bytes);
        }
    }
}
