//! Parses text with one or more YAML or JSON documents into JSON values with the line number of each field. Duplicate fields
//! are errors, unless the caller tolerates them. Knows no schema, does no I/O, and never panics.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::scalar::Scalar;
use crate::one_line;

/// Maximum number of values with expanded aliases: far more than real files have, and few enough to be harmless.
const MAX_NODES: usize = 100_000;
/// Maximum nesting with expanded aliases, so that values may be processed recursively.
const MAX_DEPTH: usize = 100;
/// Maximum bytes of all values with expanded aliases, including copies for later aliases and the paths of all fields.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of reported errors, and maximum bytes of each message: a text may consist of nothing but errors.
const MAX_ERRORS: usize = 100;
const MAX_MESSAGE: usize = 500;

/// A parsed document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its value; null if it is empty.
    pub value: Value,
    /// The lines of its fields.
    pub lines: Lines,
    /// Fields that are set more than once, of which the last applies.
    pub duplicates: Vec<DocumentError>,
}

/// The line numbers of a document's fields, by paths like `a.b[0].c`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// The lines of a document with a single field, as a flag sets it: all on line 1.
    pub fn of_value(path: &str, value: &Value) -> Self {
        let children = value.as_object().into_iter().flatten().map(|(name, _)| format!("{path}.{name}"));
        Self(children.chain([path.to_owned()]).map(|path| (path, 1)).collect())
    }

    /// The line of the field at `path`, counted from 1.
    pub fn own_line(&self, path: &str) -> Option<usize> {
        self.0.get(path).copied()
    }

    /// The line of the field at `path`, counted from 1, or of the innermost enclosing field that has one.
    pub fn line(&self, path: &str) -> Option<usize> {
        enclosing(path).find_map(|path| self.own_line(path))
    }
}

/// `path` and the paths of its enclosing fields, from the inside out; the last one is the empty path of the document.
pub fn enclosing(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let end = if path.is_empty() { return None } else { path.rfind(['.', '[']) };
        Some(path.split_at(end.unwrap_or_default()).0)
    })
}

/// An error in a YAML or JSON text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1.
    pub column: usize,
    /// What is wrong there, without the position.
    pub message: String,
}

/// Parses all documents of `text`. Reports all duplicate fields and unusable values, and the first syntax error, where parsing
/// ends; of very many errors, the first ones.
pub fn parse_documents(text: &str) -> Result<Vec<Document>, Vec<DocumentError>> {
    let documents = parse_leniently(text)?;
    let duplicates = documents.iter().flat_map(|document| &document.duplicates);
    let duplicates: Vec<DocumentError> = duplicates.take(MAX_ERRORS).cloned().collect();
    if duplicates.is_empty() { Ok(documents) } else { Err(duplicates) }
}

/// The same, but documents with duplicate fields are no errors: each document has its own list of them.
pub fn parse_leniently(text: &str) -> Result<Vec<Document>, Vec<DocumentError>> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => {
                let (line, column) = (error.marker().line(), error.marker().col() + 1);
                let message = one_line(&error.info(), MAX_MESSAGE);
                builder.errors.push(DocumentError { line, column, message });
                break;
            }
        }
        if builder.overflowed {
            break;
        }
    }
    if builder.errors.is_empty() { Ok(builder.documents) } else { Err(builder.all_errors()) }
}

/// A collection that is being parsed.
enum Open {
    List { items: Vec<Value> },
    Object { fields: Map<String, Value>, key: Option<Key>, merged: HashSet<String> },
}

/// What the next value of an object is.
enum Key {
    /// The value of the field of this name.
    Field(String),
    /// An object, or a list of objects, whose fields are merged into this one (`<<`).
    Merge,
}

/// The namespace of YAML's own types, such as `int` of `!!int`.
const YAML_TYPES: &str = "tag:yaml.org,2002:";

/// The key that merges.
const MERGE: &str = "<<";

/// What may be merged.
const MERGED: &str = "only objects and lists of objects can be merged with <<";

/// A collection that is being parsed, and the state needed at its end.
struct Level {
    open: Open,
    /// Length of its path.
    path_len: usize,
    anchor: usize,
    /// Number of values parsed before it.
    nodes_before: usize,
}

/// A value with an anchor.
struct Anchored {
    value: Value,
    /// Number of values in it.
    nodes: usize,
    /// Bytes of text in it.
    bytes: usize,
}

/// Builds values from parser events, without recursion, so that nesting needs no stack.
#[derive(Default)]
struct Builder {
    documents: Vec<Document>,
    errors: Vec<DocumentError>,
    /// Duplicate fields of the document that is being parsed.
    duplicates: Vec<DocumentError>,
    levels: Vec<Level>,
    /// Path of the next value.
    path: String,
    lines: Lines,
    root: Option<Value>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    /// Bytes of text held.
    bytes: usize,
    overflowed: bool,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::DocumentStart(..) => {
                self.lines = Lines::default();
                self.root = None;
                self.anchors.clear();
            }
            Event::DocumentEnd => {
                let value = self.root.take().unwrap_or_default();
                let lines = std::mem::take(&mut self.lines);
                let duplicates = std::mem::take(&mut self.duplicates);
                self.documents.push(Document { value, lines, duplicates });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), span)
            }
            // Kubernetes' parser ignores tags of collections.
            Event::SequenceStart(_, anchor, _) => self.open(Open::List { items: Vec::new() }, anchor, span),
            Event::MappingStart(_, anchor, _) => {
                let object = Open::Object { fields: Map::new(), key: None, merged: HashSet::new() };
                self.open(object, anchor, span);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(name) => self.error(span, format!("there is no anchor &{name}")),
            // Comments and stream boundaries carry no values, nor do events of later versions of the parser.
            _ => {}
        }
    }

    fn error(&mut self, span: Span, message: String) {
        self.errors.push(error_at(span, &message));
        self.overflowed |= self.errors.len() >= MAX_ERRORS;
    }

    /// All errors found, with the duplicate fields among them, by line.
    fn all_errors(self) -> Vec<DocumentError> {
        let of_documents = self.documents.into_iter().flat_map(|document| document.duplicates);
        let mut errors: Vec<DocumentError> =
            self.errors.into_iter().chain(of_documents).chain(self.duplicates).collect();
        errors.sort_by_key(|error| (error.line, error.column));
        errors.truncate(MAX_ERRORS);
        errors
    }

    /// Counts `nodes` more values with `bytes` of text that nest `depth` deep; false once a limit is exceeded.
    fn reserve(&mut self, nodes: usize, bytes: usize, depth: usize, span: Span) -> bool {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.overflowed {
            return false;
        }
        if self.nodes > MAX_NODES {
            self.error(span, format!("the text has more than {MAX_NODES} values"));
        } else if self.bytes > MAX_BYTES {
            let most = MAX_BYTES >> 20;
            self.error(
                span,
                format!("the text has more than {most} MiB with its aliases and paths written out"),
            );
        } else if self.levels.len() + depth > MAX_DEPTH {
            self.error(span, format!("the values are nested more than {MAX_DEPTH} deep"));
        } else {
            return true;
        }
        self.overflowed = true;
        false
    }

    /// Stores a copy of a value for its aliases; false once a limit is exceeded.
    fn store_anchor(&mut self, anchor: usize, value: &Value, nodes: usize, span: Span) -> bool {
        let bytes = bytes(value);
        let fits = self.reserve(0, bytes, 0, span);
        if fits {
            self.anchors.insert(anchor, Anchored { value: value.clone(), nodes, bytes });
        }
        fits
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>, span: Span) {
        let is_plain = style == ScalarStyle::Plain && tag.is_none();
        let type_name = tag.and_then(|tag| tag.suffix_in_namespace(YAML_TYPES));
        if (is_plain || type_name.as_deref() == Some("merge")) && text == MERGE && self.is_key_next() {
            return self.enter_merge();
        }
        let scalar = match (tag, type_name) {
            (Some(tag), Some(type_name)) => Scalar::resolve_as(&type_name, text).unwrap_or_else(|| {
                self.error(span, format!("{text:?} is not what the tag {} says", tag.original()));
                Scalar::Null
            }),
            (None, None) if is_plain => Scalar::resolve(text),
            // Kubernetes' parser ignores tags of others.
            (_, None) | (None, Some(_)) => Scalar::Text(text.to_owned()),
        };
        if self.is_key_next() {
            let value = scalar.clone().into_value().unwrap_or_default();
            if anchor == 0 || self.store_anchor(anchor, &value, 1, span) {
                self.enter_key(scalar.into_key(), span);
            }
            return;
        }
        let value = scalar.into_value().unwrap_or_else(|| {
            self.error(span, format!("{text} is not supported; write a finite number"));
            Value::Null
        });
        if !self.reserve(1, text.len(), 0, span)
            || (anchor != 0 && !self.store_anchor(anchor, &value, 1, span))
        {
            return;
        }
        self.enter_item(span);
        self.put(value, span);
    }

    /// Whether the next value is the key of a field.
    fn is_key_next(&self) -> bool {
        matches!(self.levels.last(), Some(Level { open: Open::Object { key: None, .. }, .. }))
    }

    /// Whether the next value is merged into the object around it.
    fn is_merge_next(&self) -> bool {
        matches!(self.levels.last(), Some(Level { open: Open::Object { key: Some(Key::Merge), .. }, .. }))
    }

    fn alias(&mut self, anchor: usize, span: Span) {
        if self.is_key_next() {
            let name = match self.anchors.get(&anchor).map(|anchored| &anchored.value) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
                Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => None,
            };
            return self.enter_key(name, span);
        }
        // Only complete values are stored, so an alias inside its own anchor finds nothing.
        let Some(Anchored { value, nodes, bytes }) = self.anchors.get(&anchor) else {
            self.error(span, "an alias cannot be inside the value of its anchor".to_owned());
            self.enter_item(span);
            return self.put(Value::Null, span);
        };
        let (nodes, bytes, depth) = (*nodes, *bytes, depth(value));
        if self.is_merge_next() && !value.is_object() {
            // A list of objects is merged only where it is written.
            self.error(span, MERGED.to_owned());
            return self.put(Value::Object(Map::new()), span);
        }
        if self.reserve(nodes, bytes, depth, span) {
            let value = self.anchors.get(&anchor).map(|anchored| anchored.value.clone()).unwrap_or_default();
            self.enter_item(span);
            self.put(value, span);
        }
    }

    fn open(&mut self, open: Open, anchor: usize, span: Span) {
        if self.is_key_next() {
            self.enter_key(None, span);
        }
        let nodes_before = self.nodes;
        if !self.reserve(1, 0, 1, span) {
            return;
        }
        self.enter_item(span);
        self.levels.push(Level { open, path_len: self.path.len(), anchor, nodes_before });
    }

    fn close(&mut self, span: Span) {
        let Some(level) = self.levels.pop() else { return };
        let value = match level.open {
            Open::List { items } => Value::Array(items),
            Open::Object { fields, .. } => Value::Object(fields),
        };
        if level.anchor != 0
            && !self.store_anchor(level.anchor, &value, self.nodes - level.nodes_before, span)
        {
            return;
        }
        self.path.truncate(level.path_len);
        self.put(value, span);
    }

    /// Enters the field whose value comes next. Without a usable name, the value has a place nevertheless.
    fn enter_key(&mut self, name: Option<String>, span: Span) {
        let Some(name) = name else {
            self.error(span, "the name of a field must be text, a number or a boolean".to_owned());
            if let Some(Level { open: Open::Object { key, .. }, .. }) = self.levels.last_mut() {
                *key = Some(Key::Field(String::new()));
            }
            return;
        };
        self.enter_path(&name);
        let Some(Level { open: Open::Object { fields, key, merged }, .. }) = self.levels.last_mut() else {
            return;
        };
        // A field that was only merged is no duplicate.
        let is_duplicate = fields.contains_key(&name) && !merged.remove(&name);
        *key = Some(Key::Field(name));
        if !is_duplicate {
            return self.record_line(span);
        }
        let first = self.lines.line(&self.path).unwrap_or_default();
        if self.duplicates.len() < MAX_ERRORS {
            let message = format!("duplicate field {:?}, first set on line {first}", self.path);
            self.duplicates.push(error_at(span, &message));
        }
    }

    /// Appends the name of a field to the path.
    fn enter_path(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    /// The next value is merged.
    fn enter_merge(&mut self) {
        self.enter_path(MERGE);
        if let Some(Level { open: Open::Object { key, .. }, .. }) = self.levels.last_mut() {
            *key = Some(Key::Merge);
        }
    }

    /// Merges a value into the enclosing object, where it replaces what is there already; of a list, the first object that has a
    /// field decides.
    fn merge(&mut self, value: Value, span: Span) {
        let objects = match value {
            Value::Object(fields) => vec![fields],
            Value::Array(items) => {
                let objects = items.into_iter().rev().map(|item| match item {
                    Value::Object(fields) => Some(fields),
                    _ => None,
                });
                objects.collect::<Option<_>>().unwrap_or_else(|| {
                    self.error(span, MERGED.to_owned());
                    Vec::new()
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.error(span, MERGED.to_owned());
                Vec::new()
            }
        };
        let Some(level) = self.levels.last_mut() else { return };
        let path_len = level.path_len;
        let Open::Object { fields, key, merged } = &mut level.open else { return };
        *key = None;
        let mut names = Vec::new();
        for (name, value) in objects.into_iter().flatten() {
            if !fields.contains_key(&name) {
                merged.insert(name.clone());
            }
            names.push(name.clone());
            fields.insert(name, value);
        }
        self.path.truncate(path_len);
        // All at once, because no value comes between them that would check the limits.
        let bytes = names.iter().map(|name| path_len + 1 + name.len()).sum();
        if !self.reserve(0, bytes, 0, span) {
            return;
        }
        for name in names {
            self.enter_path(&name);
            self.lines.0.insert(self.path.clone(), span.start.line());
            self.path.truncate(path_len);
        }
    }

    /// Records the line of the field or list item at the current path. The next value checks the limits.
    fn record_line(&mut self, span: Span) {
        self.bytes = self.bytes.saturating_add(self.path.len());
        self.lines.0.insert(self.path.clone(), span.start.line());
    }

    /// Enters the list item or document that begins here.
    fn enter_item(&mut self, span: Span) {
        match self.levels.last() {
            None => {
                self.lines.0.insert(String::new(), span.start.line());
            }
            Some(Level { open: Open::List { items }, .. }) => {
                // Writing to a String cannot fail.
                let _ = write!(self.path, "[{}]", items.len());
                self.record_line(span);
            }
            Some(Level { open: Open::Object { .. }, .. }) => {}
        }
    }

    /// Puts a complete value into the enclosing collection. Of duplicate fields, the last stays.
    fn put(&mut self, value: Value, span: Span) {
        if self.is_merge_next() {
            return self.merge(value, span);
        }
        let Some(level) = self.levels.last_mut() else {
            self.root = Some(value);
            return;
        };
        match &mut level.open {
            Open::List { items } => items.push(value),
            Open::Object { fields, key, .. } => {
                if let Some(Key::Field(name)) = key.take() {
                    fields.insert(name, value);
                }
            }
        }
        self.path.truncate(level.path_len);
    }
}

fn error_at(span: Span, message: &str) -> DocumentError {
    let (line, column) = (span.start.line(), span.start.col() + 1);
    DocumentError { line, column, message: one_line(message, MAX_MESSAGE) }
}

/// Nesting depth of `value`.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Bytes of text in `value`.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
