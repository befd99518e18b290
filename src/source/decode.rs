//! The bytes of one manifest file to one v1 Pod: YAML or JSON, strictly. No defaulting, no validation, no I/O.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::strict::{self, Flaw};
use crate::config::{Document, parse_documents};
use crate::types::one_line;

/// How many mistakes of one manifest are told, and how many bytes each may take: a file may be made of nothing else.
const MISTAKES_TOLD: usize = 100;
const SENTENCE_MOST: usize = 1000;
/// How many bytes of its kind a file's refusal repeats.
const KIND_MOST: usize = 100;

/// Why the bytes of a file are not one pod. Every message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The file is not text.
    #[error("the file is not UTF-8 text (byte {0}); save it as UTF-8")]
    NotUtf8(usize),
    /// The file holds no document.
    #[error("the file is empty; it should hold one v1 Pod")]
    Empty,
    /// The file is neither YAML nor JSON, or names a key twice.
    #[error("not YAML or JSON: {0}")]
    Syntax(String),
    /// The file holds more than one document.
    #[error("the file holds {0} documents; put each pod into a file of its own")]
    SeveralDocuments(usize),
    /// The document is a list of objects.
    #[error("the file holds a {0}; put each pod of it into a file of its own")]
    List(String),
    /// The document is an object, but not a pod.
    #[error("the file holds {found}, not a Pod of apiVersion v1; hostlet runs only pods from manifests")]
    OtherKind {
        /// What it is, as far as it says.
        found: String,
    },
    /// The document is a pod with values of the wrong type.
    #[error("{0}")]
    Fields(Mistakes),
}

/// Mistakes in a manifest, each with the line it stands on, from the top. `Display` gives one line for each; of very many,
/// for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<(usize, String)>);

impl Mistakes {
    /// Looks up the line of each mistake, given as the path of its field and the whole sentence about it.
    pub(super) fn locate(document: &Document, mistakes: impl Iterator<Item = (String, String)>) -> Self {
        let mut located: Vec<_> =
            mistakes.map(|(path, sentence)| (document.lines.line(&path).unwrap_or(1), sentence)).collect();
        located.sort_by_key(|(line, _)| *line);
        Self(located)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (line, sentence)) in self.0.iter().take(MISTAKES_TOLD).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}line {line}: {}", one_line(sentence, SENTENCE_MOST))?;
        }
        match self.0.get(MISTAKES_TOLD) {
            Some((line, _)) => {
                write!(f, "\nline {line}: {} more mistakes from here on", self.0.len() - MISTAKES_TOLD)
            }
            None => Ok(()),
        }
    }
}

/// The pod of a manifest, as far as the type system goes.
pub(super) struct Decoded {
    pub(super) pod: Pod,
    /// Where each field stands.
    pub(super) document: Document,
    /// Fields a pod does not have, each with a sentence; they are not in `pod`.
    pub(super) unknown: Vec<(String, String)>,
}

/// Reads the one pod a manifest file holds. Unknown fields are told beside the pod, so that whoever mends them learns of
/// its other mistakes at the same time.
pub(super) fn decode_pod(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8(error.valid_up_to()))?;
    let mut documents = parse_documents(text).map_err(|errors| {
        let told = errors.iter().map(|e| format!("line {} column {}: {e}", e.line, e.column));
        DecodeError::Syntax(told.collect::<Vec<_>>().join("\n"))
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
    let (pod, flaws) = strict::decode(&document.value);
    let sentence = |flaw: Flaw| (flaw.path.clone(), format!("{}: {}", flaw.path, flaw.message));
    let unknown: Vec<_> = flaws.into_iter().map(sentence).collect();
    match pod {
        Some(pod) => Ok(Decoded { pod, document, unknown }),
        None => Err(DecodeError::Fields(Mistakes::locate(&document, unknown.into_iter()))),
    }
}

fn check_kind(document: &Value) -> Result<(), DecodeError> {
    let other = |found: &str| Err(DecodeError::OtherKind { found: one_line(found, KIND_MOST) });
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
        (_, Some(kind)) if kind.ends_with("List") => Err(DecodeError::List(one_line(kind, KIND_MOST))),
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
    fn yaml_and_json_are_read() {
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
    fn what_is_not_one_pod_is_refused_with_the_remedy() {
        let refused = |text: &str| decode_pod(text.as_bytes()).unwrap_err();
        for empty in ["", "\n", "# nothing\n", "---\n", "null"] {
            assert_eq!(refused(empty), DecodeError::Empty, "{empty:?}");
        }
        assert_eq!(refused(&format!("{POD}---\n{POD}")), DecodeError::SeveralDocuments(2));
        assert_eq!(refused("apiVersion: v1\nkind: PodList\nitems: []"), DecodeError::List("PodList".into()));
        assert_eq!(refused("[]"), DecodeError::List("list".into()));
        for other in [
            "5",
            "x",
            "{}",
            "kind: Pod",
            "apiVersion: apps/v1\nkind: Deployment",
            "apiVersion: v2\nkind: Pod",
        ] {
            assert!(matches!(refused(other), DecodeError::OtherKind { .. }), "{other}");
        }
        assert_eq!(decode_pod(b"a: \xff"), Err(DecodeError::NotUtf8(3)));
        assert!(matches!(refused("a: [1"), DecodeError::Syntax(_)));
    }

    #[test]
    fn a_key_given_twice_is_refused_with_its_line() {
        let error =
            decode_pod(format!("{POD}  hostNetwork: true\n  hostNetwork: false\n").as_bytes()).unwrap_err();
        let DecodeError::Syntax(message) = error else { panic!("{error}") };
        assert!(message.contains("hostNetwork") && message.contains("8"), "{message}");
    }

    #[test]
    fn fields_that_do_not_fit_are_listed_with_their_lines() {
        let text = format!("{POD}  hostNetwork: 1\n  zzz: {{}}\n  restartpolicy: Never\n");
        let error = decode_pod(text.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 7: spec.hostNetwork: invalid type: integer `1`, expected a boolean\n\
             line 8: spec.zzz: unknown field\n\
             line 9: spec.restartpolicy: unknown field, did you mean \"restartPolicy\"?"
        );
    }

    #[test]
    fn messages_stay_readable_whatever_is_in_the_file() {
        let told = |text: &str| decode_pod(text.as_bytes()).unwrap_err().to_string();
        let unknown: String = (0..1000).map(|n| format!("  z{n}: 1\n")).collect();
        let message = told(&format!("{POD}{unknown}"));
        assert_eq!(message.lines().count(), 101);
        assert!(message.ends_with("\nline 107: 900 more mistakes from here on"), "{message}");

        let message =
            told(&format!("{POD}  \"a\\nline 1: b\\e[2J\": 1\n  ? {}\n  : 1\n", "k".repeat(1 << 20)));
        assert_eq!(message.lines().count(), 2, "{message}");
        assert!(message.len() < 1500 && !message.contains('\u{1b}'), "{message}");
        assert!(told(&format!("apiVersion: v1\nkind: {}\n", "K".repeat(1 << 20))).len() < 300);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_pod(&bytes);
        }

        #[test]
        fn damaged_manifests_are_answered(at in 0_usize..90, byte in any::<u8>()) {
            let mut bytes = POD.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode_pod(&bytes);
        }
    }
}
