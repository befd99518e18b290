//! What is wrong with one field of a pod, worded as the API server words it, and the path that names the field.

use std::fmt;

use serde::Serialize;

/// Where a field stands, as the API server writes it: `spec.containers[1].ports[0].containerPort`.
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

/// The ways a field can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Must be set, and is not.
    Required,
    /// Is set to something malformed or out of range.
    Invalid,
    /// Must be unique in its list, and is not.
    Duplicate,
    /// Is not one of the values that exist.
    Unsupported,
    /// Must not be set here.
    Forbidden,
    /// Names something that is not there.
    NotFound,
    /// Holds more than is allowed.
    TooLong,
    /// Is valid, and asks for something hostlet does not do.
    NotServed,
}

/// One thing wrong with one field. `Display` gives the API server's sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// The field: `spec.containers[0].image`.
    pub path: String,
    /// What kind of mistake it is.
    pub kind: FieldErrorKind,
    /// The sentence after the path: `Required value`, `Invalid value: 70000: must be between 1 and 65535`.
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

    /// The field's value is malformed or out of range.
    pub fn invalid(path: &FieldPath, value: impl Serialize, detail: impl fmt::Display) -> Self {
        Self::new(path, FieldErrorKind::Invalid, format!("Invalid value: {}: {detail}", shown(value)))
    }

    /// The value stands in the list already.
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

    /// The value names something that is not there.
    pub fn not_found(path: &FieldPath, value: impl Serialize) -> Self {
        Self::new(path, FieldErrorKind::NotFound, format!("Not found: {}", shown(value)))
    }

    /// The field is valid, but hostlet does not act on it. `sentence` says what does not happen.
    pub fn not_served(path: &FieldPath, sentence: impl fmt::Display) -> Self {
        Self::new(path, FieldErrorKind::NotServed, format!("Not supported by hostlet yet: {sentence}"))
    }

    /// The text is longer than `most` bytes.
    pub fn too_long(path: &FieldPath, most: usize) -> Self {
        let message = format!("Too long: may not be more than {most} bytes");
        Self::new(path, FieldErrorKind::TooLong, message)
    }

    /// The list has `count` items, more than `most`.
    pub fn too_many(path: &FieldPath, count: usize, most: usize) -> Self {
        let message = format!("Too many: {count}: must have at most {most} items");
        Self::new(path, FieldErrorKind::TooLong, message)
    }
}

/// A value as it is shown to people: JSON, cut where it is too long to read.
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
    fn sentences_are_the_api_servers() {
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
    fn long_values_are_cut_between_characters() {
        let path = FieldPath::root("spec");
        let error = FieldError::invalid(&path, "é".repeat(10_000), "too much").to_string();
        assert!(error.chars().count() < 400 && error.contains("..."), "{error}");
    }
}
