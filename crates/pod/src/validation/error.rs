//! Validation errors of single fields, in the API server's words, and the paths of fields.

use std::fmt;

use serde::Serialize;

/// The path of a field as the API server formats it: `spec.containers[1].ports[0].containerPort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// A field of the object itself.
    pub fn root(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// A field of the object at this path.
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// An element of the list at this path.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of the map at this path.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kinds of validation errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A required field is not set.
    Required,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not unique in its list.
    Duplicate,
    /// The value is not one of the supported ones.
    Unsupported,
    /// The field must not be set here.
    Forbidden,
    /// The value refers to something that does not exist.
    NotFound,
    /// The value is too long or has too many items.
    TooLong,
    /// The field is valid, but hostlet does not support it.
    NotServed,
}

/// One error of one field. `Display` formats it as the API server does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// The path of the field: `spec.containers[0].image`.
    pub path: String,
    /// Decides how the message begins, as upstream.
    pub kind: FieldErrorKind,
    /// The message after the path: `Required value`, `Invalid value: 70000: must be between 1 and 65535`.
    pub message: String,
}

impl FieldError {
    fn new(path: &FieldPath, kind: FieldErrorKind, message: String) -> Self {
        Self { path: path.to_string(), kind, message }
    }

    /// The field must be set. `detail` may be empty.
    pub fn required(path: &FieldPath, detail: &str) -> Self {
        let message = match detail {
            "" => "Required value".to_owned(),
            detail => format!("Required value: {detail}"),
        };
        Self::new(path, FieldErrorKind::Required, message)
    }

    /// The value is malformed or out of range.
    pub fn invalid(path: &FieldPath, value: impl Serialize, detail: impl fmt::Display) -> Self {
        Self::new(path, FieldErrorKind::Invalid, format!("Invalid value: {}: {detail}", shown(value)))
    }

    /// The value is in the list already.
    pub fn duplicate(path: &FieldPath, value: impl Serialize) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, format!("Duplicate value: {}", shown(value)))
    }

    /// The value is none of `supported`.
    pub fn unsupported(path: &FieldPath, value: impl Serialize, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {}: supported values: {supported}", shown(value));
        Self::new(path, FieldErrorKind::Unsupported, message)
    }

    /// The field must not be set here.
    pub fn forbidden(path: &FieldPath, detail: impl fmt::Display) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, format!("Forbidden: {detail}"))
    }

    /// The value refers to something that does not exist.
    pub fn not_found(path: &FieldPath, value: impl Serialize) -> Self {
        Self::new(path, FieldErrorKind::NotFound, format!("Not found: {}", shown(value)))
    }

    /// The field is valid, but hostlet does not support it. `sentence` says what does not happen.
    pub(crate) fn not_served(path: &FieldPath, sentence: impl fmt::Display) -> Self {
        Self::new(path, FieldErrorKind::NotServed, format!("Not supported by hostlet yet: {sentence}"))
    }

    /// The text is longer than `most` bytes.
    pub fn too_long(path: &FieldPath, most: usize) -> Self {
        let message = format!("Too long: may not be more than {most} bytes");
        Self::new(path, FieldErrorKind::TooLong, message)
    }

    /// The list has `count` items, more than `most`.
    pub(crate) fn too_many(path: &FieldPath, count: usize, most: usize) -> Self {
        let message = format!("Too many: {count}: must have at most {most} items");
        Self::new(path, FieldErrorKind::TooLong, message)
    }
}

/// A value for display: JSON, truncated if it is long.
fn shown(value: impl Serialize) -> String {
    const MOST: usize = 256;
    let text = serde_json::to_string(&value).unwrap_or_else(|_| "?".to_owned());
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldError, FieldPath};

    #[test]
    fn messages_equal_the_api_servers() {
        let port = FieldPath::root("spec")
            .child("containers")
            .index(1)
            .child("ports")
            .index(0)
            .child("containerPort");
        assert_eq!(
            FieldError::invalid(&port, 70000, "must be between 1 and 65535").to_string(),
            "spec.containers[1].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535"
        );
        let name = FieldPath::root("metadata").child("name");
        assert_eq!(FieldError::required(&name, "").to_string(), "metadata.name: Required value");
        assert_eq!(FieldError::duplicate(&name, "a").to_string(), r#"metadata.name: Duplicate value: "a""#);
        assert_eq!(
            FieldError::unsupported(&name, "x", &["A", "B"]).to_string(),
            r#"metadata.name: Unsupported value: "x": supported values: "A", "B""#
        );
        assert_eq!(
            FieldError::forbidden(&name.key("cpu"), "not here").to_string(),
            "metadata.name[cpu]: Forbidden: not here"
        );
    }

    #[test]
    fn long_values_are_truncated_between_characters() {
        let path = FieldPath::root("spec");
        let error = FieldError::invalid(&path, "é".repeat(10_000), "too much").to_string();
        assert!(error.chars().count() < 400 && error.contains("..."), "{error}");
    }
}
