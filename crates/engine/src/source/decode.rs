//! Decodes the bytes of a manifest file, YAML or JSON, strictly: a v1 Pod, and the ConfigMaps, Secrets, PersistentVolumes, claims and
//! CSIDriver objects beside it. No defaulting, no validation, no I/O.

use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::storage::v1::CSIDriver;
use serde::de::DeserializeOwned;
use serde_json::Value;

use hostlet_base::one_line;
use hostlet_base::yaml::{self, Document, Flaw, Problem, parse_documents};

/// Maximum number of reported mistakes, and maximum bytes of each: a file may consist of nothing but mistakes.
const MAX_MISTAKES: usize = 100;
const MAX_MESSAGE: usize = 1000;
/// Maximum bytes of a quoted kind.
const MAX_KIND: usize = 100;

/// Why a file is no manifest. Every message says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The manifest is not UTF-8.
    #[error("not UTF-8 text (byte {0}); save it as UTF-8")]
    NotUtf8(usize),
    /// The file has no document.
    #[error("the file is empty; it should contain a v1 Pod")]
    Empty,
    /// The manifest is not YAML or JSON, or has a duplicate key.
    #[error("not YAML or JSON: {0}")]
    Syntax(String),
    /// The file has several pods.
    #[error("the file contains {0} pods; put each pod into its own file")]
    SeveralPods(usize),
    /// The document is a list of objects.
    #[error(
        "the file contains a {0}; put each of its objects into a document of its own, and each pod into its own file"
    )]
    List(String),
    /// A document is another object.
    #[error(
        "the file contains {found}, not a Pod of apiVersion v1; manifests define pods, and on a host without an API server \
         ConfigMaps, Secrets, PersistentVolumes, PersistentVolumeClaims and CSIDriver objects"
    )]
    OtherKind {
        /// What was found instead.
        found: String,
    },
    /// The answer of a URL has something else.
    #[error("the answer contains {found}; it has to be one Pod or PodList of apiVersion v1")]
    NoPods {
        /// What was found instead.
        found: String,
    },
    /// A document has wrong values.
    #[error("{0}")]
    Fields(Mistakes),
}

/// Mistakes in a manifest with their lines, in order. `Display` writes one line for each of the first ones.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<(usize, String)>);

impl Mistakes {
    /// Looks up the lines of mistakes, each given as the path of the field and a message.
    pub(super) fn locate(document: &Document, mistakes: impl Iterator<Item = (String, String)>) -> Self {
        let mut located: Vec<_> =
            mistakes.map(|(path, message)| (document.lines.line(&path).unwrap_or(1), message)).collect();
        located.sort_by_key(|(line, _)| *line);
        Self(located)
    }

    /// Adds the mistakes of another document.
    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
        self.0.sort_by_key(|(line, _)| *line);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

/// A decoded object.
pub(super) struct Decoded<T> {
    pub(super) object: T,
    /// The document, with the lines of its fields.
    pub(super) document: Document,
    /// Paths of unknown fields, each with a message; they are not in `object`.
    pub(super) unknown: Vec<(String, String)>,
}

/// An object beside pods.
pub(super) enum DecodedObject {
    ConfigMap(Decoded<ConfigMap>),
    Secret(Decoded<Secret>),
    // Boxed: volumes and claims are several times as large as the others.
    Volume(Box<Decoded<PersistentVolume>>),
    Claim(Box<Decoded<PersistentVolumeClaim>>),
    CsiDriver(Decoded<CSIDriver>),
}

impl DecodedObject {
    /// Why the object has no effect on a node with an API server.
    pub(super) fn ignored(&self) -> String {
        let (kind, name, document) = match self {
            Self::ConfigMap(decoded) => ("ConfigMap", &decoded.object.metadata.name, &decoded.document),
            Self::Secret(decoded) => ("Secret", &decoded.object.metadata.name, &decoded.document),
            Self::Volume(decoded) => ("PersistentVolume", &decoded.object.metadata.name, &decoded.document),
            Self::Claim(decoded) => {
                ("PersistentVolumeClaim", &decoded.object.metadata.name, &decoded.document)
            }
            Self::CsiDriver(decoded) => ("CSIDriver", &decoded.object.metadata.name, &decoded.document),
        };
        let line = document.lines.line("kind").unwrap_or(1);
        let name = one_line(name.as_deref().unwrap_or_default(), MAX_KIND);
        format!(
            "line {line}: the {kind} {name:?} has no effect: this node has an API server; create it there, and remove it here"
        )
    }
}

/// The documents of a manifest.
#[derive(Default)]
pub(super) struct Documents {
    pub(super) pod: Option<Decoded<Pod>>,
    pub(super) objects: Vec<DecodedObject>,
}

/// The kinds of documents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    ConfigMap,
    Secret,
    Volume,
    Claim,
    CsiDriver,
}

/// Decodes a manifest. Unknown fields are returned along with the objects, so that validation errors can be reported at the same
/// time.
pub(super) fn decode_manifest(bytes: &[u8]) -> Result<Documents, DecodeError> {
    let documents = documents_of(bytes)?;
    if documents.is_empty() {
        return Err(DecodeError::Empty);
    }
    let kinds = documents.iter().map(|document| kind_of(&document.value)).collect::<Result<Vec<_>, _>>()?;
    let pods = kinds.iter().filter(|kind| **kind == Kind::Pod).count();
    if pods > 1 {
        return Err(DecodeError::SeveralPods(pods));
    }
    let mut decoded = Documents::default();
    for (kind, document) in kinds.into_iter().zip(documents) {
        match kind {
            Kind::Pod => decoded.pod = Some(decode(document)?),
            Kind::ConfigMap => decoded.objects.push(DecodedObject::ConfigMap(decode(document)?)),
            Kind::Secret => decoded.objects.push(DecodedObject::Secret(decode_with(document, redacted)?)),
            Kind::Volume => decoded.objects.push(DecodedObject::Volume(Box::new(decode(document)?))),
            Kind::Claim => decoded.objects.push(DecodedObject::Claim(Box::new(decode(document)?))),
            Kind::CsiDriver => decoded.objects.push(DecodedObject::CsiDriver(decode(document)?)),
        }
    }
    Ok(decoded)
}

/// The documents that are not empty.
fn documents_of(bytes: &[u8]) -> Result<Vec<Document>, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8(error.valid_up_to()))?;
    let mut documents = parse_documents(text).map_err(|errors| {
        let lines = errors.iter().map(|e| format!("line {} column {}: {e}", e.line, e.column));
        DecodeError::Syntax(lines.collect::<Vec<_>>().join("\n"))
    })?;
    documents.retain(|document| !document.value.is_null());
    Ok(documents)
}

/// Pods that a URL serves.
pub(super) struct DecodedPods {
    /// Each with the path of its place: empty for a single pod, else `items[0]`.
    pub(super) pods: Vec<(String, Pod)>,
    pub(super) document: Document,
    /// Paths of unknown fields, each with a message.
    pub(super) unknown: Vec<(String, String)>,
}

/// Decodes the answer of a URL: a Pod, or a PodList.
pub(super) fn decode_pods(bytes: &[u8]) -> Result<DecodedPods, DecodeError> {
    let other = |found: String| Err(DecodeError::NoPods { found });
    let mut documents = documents_of(bytes)?;
    let count = documents.len();
    let (1, Some(document)) = (count, documents.pop()) else { return other(format!("{count} documents")) };
    let Some(PodValues { pods: values, mut unknown, mut has_wrong }) = pods_in(&document.value) else {
        let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or("no object with a kind");
        return other(one_line(kind, MAX_KIND));
    };
    let mut pods = Vec::new();
    for (place, value) in values {
        let (pod, flaws) = yaml::decode::<Pod>(value);
        unknown.extend(flaws.into_iter().map(message_of).map(|mistake| within(&place, mistake)));
        match pod {
            Some(pod) => pods.push((place, pod)),
            None => has_wrong = true,
        }
    }
    if has_wrong {
        return Err(DecodeError::Fields(Mistakes::locate(&document, unknown.into_iter())));
    }
    Ok(DecodedPods { pods, document, unknown })
}

/// The pods of an answer before they are decoded, and the mistakes of a list itself.
#[derive(Default)]
struct PodValues<'a> {
    pods: Vec<(String, &'a Value)>,
    unknown: Vec<(String, String)>,
    has_wrong: bool,
}

/// The pods of a v1 Pod or PodList; `None` for something else.
fn pods_in(value: &Value) -> Option<PodValues<'_>> {
    let object = value.as_object()?;
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    match (text("apiVersion"), text("kind")) {
        (Some("v1"), Some("Pod")) => {
            Some(PodValues { pods: vec![(String::new(), value)], ..PodValues::default() })
        }
        (Some("v1"), Some("PodList")) => {
            let mut values = PodValues::default();
            for (field, value) in object {
                match (field.as_str(), value) {
                    ("apiVersion" | "kind" | "metadata", _) | ("items", Value::Null) => {}
                    ("items", Value::Array(items)) => {
                        let places =
                            items.iter().enumerate().map(|(at, item)| (format!("items[{at}]"), item));
                        values.pods.extend(places);
                    }
                    ("items", _) => {
                        values.unknown.push((field.clone(), "items: must be a list".to_owned()));
                        values.has_wrong = true;
                    }
                    (unknown, _) => {
                        values.unknown.push((field.clone(), format!("{unknown}: unknown field")));
                    }
                }
            }
            Some(values)
        }
        _ => None,
    }
}

/// The path and message of a mistake within an object at this place of the document.
pub(super) fn within(place: &str, (path, message): (String, String)) -> (String, String) {
    if place.is_empty() { (path, message) } else { (format!("{place}.{path}"), format!("{place}.{message}")) }
}

fn decode<T: DeserializeOwned>(document: Document) -> Result<Decoded<T>, DecodeError> {
    decode_with(document, |flaw| flaw)
}

fn decode_with<T: DeserializeOwned>(
    document: Document,
    shown: impl Fn(Flaw) -> Flaw,
) -> Result<Decoded<T>, DecodeError> {
    let (object, flaws) = yaml::decode(&document.value);
    let flaws: Vec<_> = flaws.into_iter().map(|flaw| message_of(shown(flaw))).collect();
    match object {
        Some(object) => Ok(Decoded { object, document, unknown: flaws }),
        None => Err(DecodeError::Fields(Mistakes::locate(&document, flaws.into_iter()))),
    }
}

/// The flaw without a secret value: messages are logged.
fn redacted(flaw: Flaw) -> Flaw {
    let remedy = match flaw.path.as_str() {
        "data" | "stringData" => "must be a map of keys and values",
        path if path.starts_with("data") => {
            "is not base64; encode the value, or move it to stringData as a text"
        }
        path if path.starts_with("stringData") => "is not a text; put the value in quotes",
        _ => return flaw,
    };
    match flaw.problem {
        Problem::Wrong { .. } => {
            Flaw { path: flaw.path, problem: Problem::Wrong { message: remedy.to_owned() } }
        }
        Problem::Unknown { .. } => flaw,
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

fn kind_of(document: &Value) -> Result<Kind, DecodeError> {
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
        (Some("v1"), Some("Pod")) => Ok(Kind::Pod),
        (Some("v1"), Some("ConfigMap")) => Ok(Kind::ConfigMap),
        (Some("v1"), Some("Secret")) => Ok(Kind::Secret),
        (Some("v1"), Some("PersistentVolume")) => Ok(Kind::Volume),
        (Some("v1"), Some("PersistentVolumeClaim")) => Ok(Kind::Claim),
        (Some("storage.k8s.io/v1"), Some("CSIDriver")) => Ok(Kind::CsiDriver),
        (_, Some(kind)) if kind.ends_with("List") => Err(DecodeError::List(one_line(kind, MAX_KIND))),
        (Some(version), Some(kind)) => other(&format!("a {kind} of apiVersion {version}")),
        (None, Some(_)) => other("an object without apiVersion"),
        (_, None) => other("an object without kind"),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
