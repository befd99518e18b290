//! Parses text with one or more YAML or JSON documents into JSON values with the line number of each field. Duplicate fields
//! are errors. Knows no schema, does no I/O, and never panics.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::scalar;
use crate::types::one_line;

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
pub(crate) struct Document {
    /// Its value; null if it is empty.
    pub(crate) value: Value,
    /// The lines of its fields.
    pub(crate) lines: Lines,
}

/// The line numbers of a document's fields, by paths like `a.b[0].c`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// The lines of a document with a single field, as a flag sets it: all on line 1.
    pub(crate) fn of_value(path: &str, value: &Value) -> Self {
        let children = value.as_object().into_iter().flatten().map(|(name, _)| format!("{path}.{name}"));
        Self(children.chain([path.to_owned()]).map(|path| (path, 1)).collect())
    }

    /// The line of the field at `path`, counted from 1.
    pub(crate) fn own_line(&self, path: &str) -> Option<usize> {
        self.0.get(path).copied()
    }

    /// The line of the field at `path`, counted from 1, or of the innermost enclosing field that has one.
    pub(crate) fn line(&self, path: &str) -> Option<usize> {
        enclosing(path).find_map(|path| self.own_line(path))
    }
}

/// `path` and the paths of its enclosing fields, from the inside out; the last one is the empty path of the document.
pub(crate) fn enclosing(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let end = if path.is_empty() { return None } else { path.rfind(['.', '[']) };
        Some(path.split_at(end.unwrap_or_default()).0)
    })
}

/// An error in a YAML or JSON text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DocumentError {
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// Column, counted from 1.
    pub(crate) column: usize,
    /// The error.
    pub(crate) message: String,
}

/// Parses all documents of `text`. Reports all duplicate fields and unusable values, and the first syntax error, where parsing
/// ends; of very many errors, the first ones.
pub(crate) fn parse_documents(text: &str) -> Result<Vec<Document>, Vec<DocumentError>> {
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
    if builder.errors.is_empty() { Ok(builder.documents) } else { Err(builder.errors) }
}

/// A collection that is being parsed.
enum Open {
    List { items: Vec<Value> },
    Object { fields: Map<String, Value>, key: Option<String> },
}

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
                self.documents.push(Document { value, lines: std::mem::take(&mut self.lines) });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), span);
                self.open(Open::List { items: Vec::new() }, anchor, span);
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), span);
                self.open(Open::Object { fields: Map::new(), key: None }, anchor, span);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(name) => self.error(span, format!("there is no anchor &{name}")),
            // Comments and stream boundaries carry no values, nor do events of later versions of the parser.
            _ => {}
        }
    }

    fn error(&mut self, span: Span, message: String) {
        let (line, column) = (span.start.line(), span.start.col() + 1);
        self.errors.push(DocumentError { line, column, message: one_line(&message, MAX_MESSAGE) });
        self.overflowed |= self.errors.len() >= MAX_ERRORS;
    }

    fn check_tag(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
            self.error(span, format!("the tag {} is not supported; remove it", tag.original()));
        }
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
        if let Some(Level { open: Open::Object { fields, key: key @ None }, .. }) = self.levels.last_mut() {
            *key = Some(text.to_owned());
            let duplicate = fields.contains_key(text);
            return self.enter_field(text, duplicate, span);
        }
        self.check_tag(tag, span);
        let plain = style == ScalarStyle::Plain && tag.is_none_or(|tag| !tag.is_yaml_core_schema_tag("str"));
        let value = if plain { scalar::resolve(text) } else { Some(Value::String(text.to_owned())) };
        let value = value.unwrap_or_else(|| {
            self.error(span, format!("{text} is not supported; write a finite number"));
            Value::Null
        });
        if !self.reserve(1, text.len(), 0, span)
            || (anchor != 0 && !self.store_anchor(anchor, &value, 1, span))
        {
            return;
        }
        self.enter_item(span);
        self.put(value);
    }

    fn alias(&mut self, anchor: usize, span: Span) {
        if let Some(Level { open: Open::Object { key: None, .. }, .. }) = self.levels.last() {
            // The parser still sends the value of this key.
            self.error(span, "an alias cannot be the name of a field".to_owned());
            return self.skip_key();
        }
        // Only complete values are stored, so an alias inside its own anchor finds nothing.
        let Some(Anchored { value, nodes, bytes }) = self.anchors.get(&anchor) else {
            self.error(span, "an alias cannot be inside the value of its anchor".to_owned());
            self.enter_item(span);
            return self.put(Value::Null);
        };
        let (nodes, bytes, depth) = (*nodes, *bytes, depth(value));
        if self.reserve(nodes, bytes, depth, span) {
            let value = self.anchors.get(&anchor).map(|anchored| anchored.value.clone()).unwrap_or_default();
            self.enter_item(span);
            self.put(value);
        }
    }

    fn open(&mut self, open: Open, anchor: usize, span: Span) {
        if let Some(Level { open: Open::Object { key: None, .. }, .. }) = self.levels.last() {
            self.error(span, "the name of a field must be plain text".to_owned());
            self.skip_key();
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
        self.put(value);
    }

    /// Enters the field whose value comes next.
    fn enter_field(&mut self, name: &str, duplicate: bool, span: Span) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        if duplicate {
            let first = self.lines.line(&self.path).unwrap_or_default();
            self.error(span, format!("duplicate field {:?}, first set on line {first}", self.path));
        } else {
            self.record_line(span);
        }
    }

    /// Records the line of the field or list item at the current path. The next value checks the limits.
    fn record_line(&mut self, span: Span) {
        self.bytes = self.bytes.saturating_add(self.path.len());
        self.lines.0.insert(self.path.clone(), span.start.line());
    }

    /// Replaces an unusable key, so that its value has a place.
    fn skip_key(&mut self) {
        if let Some(Level { open: Open::Object { key, .. }, .. }) = self.levels.last_mut() {
            *key = Some(String::new());
        }
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

    /// Puts a complete value into the enclosing collection. Of duplicate fields, the first stays.
    fn put(&mut self, value: Value) {
        let Some(level) = self.levels.last_mut() else {
            self.root = Some(value);
            return;
        };
        match &mut level.open {
            Open::List { items } => items.push(value),
            Open::Object { fields, key } => {
                fields.entry(key.take().unwrap_or_default()).or_insert(value);
            }
        }
        self.path.truncate(level.path_len);
    }
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
