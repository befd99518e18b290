//! Files and flags as layers: each is decoded by itself, strictly or leniently, and has the locations of its fields. Reads no
//! files and applies no defaults.

use std::path::Path;

use hostlet_base::yaml::{Document, DocumentError, Flaw, Lines, Problem, decode, enclosing, parse_leniently};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{ConfigError, ConfigWarning, Place};
use super::files::TextFile;
use super::flag_table::FieldFlag;
use super::flag_value::{self, FlagKind};
use super::hostlet::{self, HostletConfiguration};
use super::merge::{field, merge, nested, without_nulls};
use super::wire::{self, KubeletConfiguration};
use super::{served, spelling};

/// Maximum number of reported errors per document.
const MAX_FLAWS: usize = 100;

/// Fields that hold a path. In a file, relative paths are relative to the file's directory (upstream:
/// `KubeletConfigurationPathRefs`).
const PATH_FIELDS: &[&str] = &[
    "staticPodPath",
    "authentication.x509.clientCAFile",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "resolvConf",
    "volumePluginDir",
];

const HOSTLET_FIELDS: &[&str] = &[
    "adoptForeignPods",
    "apiVersion",
    "evictionStallFull",
    "evictionStallSome",
    "imagePreloadDir",
    "kernelConditions",
    "kind",
    "maxConcurrentStarts",
    "offlineObjects",
    "publishResourceSlices",
    "socket",
    "streamsNeedGetOnly",
];

/// The part of one document that one file or flag sets.
#[derive(Debug)]
struct Layer {
    /// The file or flag, without a line.
    at: Place,
    lines: Lines,
    value: Value,
    /// Whether a map in it replaces the one in lower layers instead of being merged.
    replaces: bool,
}

impl Layer {
    fn place(&self, path: &str) -> Place {
        at_line(&self.at, self.lines.line(path))
    }
}

fn at_line(at: &Place, line: Option<usize>) -> Place {
    match at {
        Place::File { path, .. } => Place::File { path: path.clone(), line },
        Place::Flag(_) | Place::Merged => at.clone(),
    }
}

/// All layers of one document, in ascending precedence.
#[derive(Debug, Default)]
pub(super) struct Layers(Vec<Layer>);

impl Layers {
    /// The merged document.
    pub(super) fn merged(&self) -> Value {
        let mut merged = Value::Object(serde_json::Map::new());
        for layer in &self.0 {
            if layer.replaces {
                merge(&mut merged, emptied(&layer.value));
            }
            merge(&mut merged, layer.value.clone());
        }
        merged
    }

    /// Where the effective value of the field at `path` is set; `None` if no layer sets it.
    pub(super) fn setter(&self, path: &str) -> Option<Place> {
        // What an alias stands for has no lines of its own.
        let sets =
            |layer: &&Layer| layer.lines.own_line(path).is_some() || field(&layer.value, path).is_some();
        let last = self.0.iter().rev().find(sets)?;
        Some(last.place(path))
    }

    /// The location of the value at `path`: of the field itself, or of the innermost enclosing field that is set.
    pub(super) fn place(&self, path: &str) -> Place {
        let around = enclosing(path).take_while(|path| !path.is_empty());
        around.into_iter().find_map(|path| self.setter(path)).unwrap_or(Place::Merged)
    }
}

/// The same objects, with null for all maps and scalars in them.
fn emptied(value: &Value) -> Value {
    fn at(path: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) if path.is_empty() || served::is_object(path) => fields
                .iter()
                .map(|(name, value)| {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    (name.clone(), at(&path, value))
                })
                .collect(),
            _ => Value::Null,
        }
    }
    at("", value)
}

/// The layers by document.
#[derive(Debug, Default)]
pub(super) struct Stack {
    /// Layers of KubeletConfiguration.
    pub(super) kubelet: Layers,
    /// Layers of HostletConfiguration.
    pub(super) hostlet: Layers,
}

/// The kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentKind {
    Kubelet,
    Hostlet,
}

/// What unknown and duplicate fields of a KubeletConfiguration are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoding {
    /// Errors.
    Strict,
    /// Warnings, as for the kubelet, which decodes its file leniently if it cannot decode it strictly.
    Lenient,
    /// Unknown ones are warnings, duplicate ones errors, as in the kubelet's drop-ins, which it merges without knowing their fields.
    DropIn,
}

impl Stack {
    /// Adds a file as a layer on top. Reports all of its errors, otherwise what it tolerates.
    pub(super) fn add_file(
        &mut self,
        file: &TextFile,
        decoding: Decoding,
    ) -> Result<Vec<ConfigWarning>, Vec<ConfigError>> {
        let at = Place::File { path: file.path.clone(), line: None };
        let syntax = |error: DocumentError| ConfigError::Syntax {
            at: at_line(&at, Some(error.line)),
            column: error.column,
            message: error.message,
        };
        let documents = parse_leniently(&file.text)
            .map_err(|errors| errors.into_iter().map(syntax).collect::<Vec<_>>())?;
        let documents: Vec<Document> =
            documents.into_iter().filter(|document| !document.value.is_null()).collect();
        if documents.is_empty() {
            return Err(vec![ConfigError::Empty(file.path.clone())]);
        }
        let (mut errors, mut tolerated) = (Vec::new(), Vec::new());
        let mut seen = Vec::new();
        for document in documents {
            let at_document = at_line(&at, document.lines.line(""));
            let kind = match kind_of(&document) {
                Ok(kind) if !seen.contains(&kind) => kind,
                Ok(_) => {
                    let message = "the file already has a document of this kind; merge the two".to_owned();
                    errors.push(ConfigError::Document { at: at_document, message });
                    continue;
                }
                Err((path, message)) => {
                    errors
                        .push(ConfigError::Document { at: at_line(&at, document.lines.line(path)), message });
                    continue;
                }
            };
            seen.push(kind);
            let Document { mut value, lines, duplicates } = document;
            let (may_repeat, may_be_unknown) = match (kind, decoding) {
                (DocumentKind::Kubelet, Decoding::Lenient) => (true, true),
                (DocumentKind::Kubelet, Decoding::DropIn) => (false, true),
                (DocumentKind::Kubelet, Decoding::Strict) | (DocumentKind::Hostlet, _) => (false, false),
            };
            let duplicates = duplicates.into_iter();
            if may_repeat {
                tolerated.extend(duplicates.map(|duplicate| ConfigWarning {
                    at: at_line(&at, Some(duplicate.line)),
                    path: None,
                    message: format!("{}; this one applies", duplicate.message),
                }));
            } else {
                errors.extend(duplicates.map(syntax));
            }
            if let Some(directory) = file.path.parent() {
                resolve_paths(&mut value, directory);
            }
            let layer = Layer { at: at.clone(), lines, value, replaces: false };
            for error in check(&layer, kind) {
                match error {
                    ConfigError::UnknownField { at, path, nearest } if may_be_unknown => {
                        tolerated.push(unknown_field(at, path, nearest));
                    }
                    error => errors.push(error),
                }
            }
            match kind {
                DocumentKind::Kubelet => self.kubelet.0.push(layer),
                DocumentKind::Hostlet => self.hostlet.0.push(layer),
            }
        }
        if errors.is_empty() { Ok(tolerated) } else { Err(errors) }
    }

    /// Adds the value of a flag as a layer on top. Maps replace those below, except that feature gates are merged.
    pub(super) fn add_flag(
        &mut self,
        flag: &'static FieldFlag,
        texts: &[String],
    ) -> Result<(), Vec<ConfigError>> {
        let at = Place::Flag(flag.name.to_owned());
        let value = flag_value::value(flag.kind, texts).map_err(|error| {
            let (path, message) = (flag.path.to_owned(), error.to_string());
            vec![ConfigError::WrongValue { at: at.clone(), path, message }]
        })?;
        let Some(value) = value else { return Ok(()) };
        let lines = Lines::of_value(flag.path, &value);
        let replaces = flag.kind != FlagKind::Gates;
        let layer = Layer { at, lines, value: nested(flag.path, value), replaces };
        let errors = check(&layer, DocumentKind::Kubelet);
        self.kubelet.0.push(layer);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// The kind of a document; or the path of the offending field, and what is wrong.
fn kind_of(document: &Document) -> Result<DocumentKind, (&'static str, String)> {
    let expected = format!(
        "expected apiVersion {:?} with kind {:?}, or apiVersion {:?} with kind {:?}",
        wire::API_VERSION,
        wire::KIND,
        hostlet::API_VERSION,
        hostlet::KIND
    );
    if !document.value.is_object() {
        return Err(("", format!("found no object; {expected}")));
    }
    let text = |name: &str| document.value.get(name).and_then(Value::as_str);
    match (text("apiVersion"), text("kind")) {
        (Some(wire::API_VERSION), Some(wire::KIND)) => Ok(DocumentKind::Kubelet),
        (Some(hostlet::API_VERSION), Some(hostlet::KIND)) => Ok(DocumentKind::Hostlet),
        (None, _) => Err(("", format!("apiVersion is missing; {expected}"))),
        (_, None) => Err(("", format!("kind is missing; {expected}"))),
        (Some(version), Some(kind)) => {
            let path = if [wire::KIND, hostlet::KIND].contains(&kind) { "apiVersion" } else { "kind" };
            Err((path, format!("found apiVersion {version:?} with kind {kind:?}; {expected}")))
        }
    }
}

fn unknown_field(at: Place, path: String, nearest: Option<String>) -> ConfigWarning {
    let hint = nearest.map(|nearest| format!(" (did you mean {nearest:?}?)")).unwrap_or_default();
    let message = format!("hostlet does not know this field, so it has no effect{hint}");
    ConfigWarning { at, path: Some(path), message }
}

fn resolve_paths(value: &mut Value, directory: &Path) {
    for field in PATH_FIELDS {
        let target = field.split('.').try_fold(&mut *value, |value, name| value.get_mut(name));
        if let Some(Value::String(path)) = target
            && !path.is_empty()
            && Path::new(path.as_str()).is_relative()
        {
            *path = directory.join(path.as_str()).to_string_lossy().into_owned();
        }
    }
}

/// All errors in a layer.
fn check(layer: &Layer, kind: DocumentKind) -> Vec<ConfigError> {
    let value = without_nulls(layer.value.clone());
    match kind {
        DocumentKind::Kubelet => flaws::<KubeletConfiguration>(layer, &value, &served::all_paths()),
        DocumentKind::Hostlet => flaws::<HostletConfiguration>(layer, &value, HOSTLET_FIELDS),
    }
}

fn flaws<T: DeserializeOwned>(layer: &Layer, value: &Value, known: &[&str]) -> Vec<ConfigError> {
    let error = |Flaw { path, problem }| match problem {
        Problem::Unknown { .. } => ConfigError::UnknownField {
            at: layer.place(&path),
            nearest: spelling::nearest_path(&path, known),
            path,
        },
        Problem::Wrong { message } => ConfigError::WrongValue { at: layer.place(&path), path, message },
    };
    decode::<T>(value).1.into_iter().take(MAX_FLAWS).map(error).collect()
}
