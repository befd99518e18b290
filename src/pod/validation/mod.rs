//! What the API server would refuse of a pod, checked here because alone on a host there is no API server, and what
//! hostlet does not serve yet. Every error is found at once; nothing is changed.

mod containers;
mod env;
mod error;
mod handlers;
mod metadata;
mod network;
mod references;
mod resources;
mod security;
mod spec;
#[cfg(test)]
mod tests;
mod unsupported;
mod volumes;

use k8s_openapi::api::core::v1::Pod;

pub use error::{FieldError, FieldErrorKind, FieldPath};
pub use unsupported::unsupported;

pub(crate) use crate::types::names;

/// Everything the API server would refuse of `pod`, which has its defaults already. Empty: the pod is valid.
pub fn validate(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Vec::new();
    metadata::check(&pod.metadata, &mut errors);
    let path = FieldPath::root("spec");
    match &pod.spec {
        Some(spec) => spec::check(spec, &path, &mut errors),
        None => errors.push(FieldError::required(&path, "")),
    }
    errors
}

/// Everything wrong with a pod from a manifest: beside what [`validate`] finds, references to objects that only an API
/// server has.
pub fn validate_static(pod: &Pod) -> Vec<FieldError> {
    let mut errors = validate(pod);
    if let Some(spec) = &pod.spec {
        references::check(spec, &FieldPath::root("spec"), &mut errors);
    }
    errors
}

/// Where the checks put what they find.
type Errors = Vec<FieldError>;

/// One error for each sentence about `value`.
fn each_invalid(errors: &mut Errors, path: &FieldPath, value: &str, sentences: Vec<String>) {
    errors.extend(sentences.into_iter().map(|sentence| FieldError::invalid(path, value, sentence)));
}

/// An unset or empty field passes: its default stands already, or it may be left out.
fn one_of(errors: &mut Errors, path: &FieldPath, value: Option<&str>, supported: &[&str]) {
    match value {
        None | Some("") => {}
        Some(value) if supported.contains(&value) => {}
        Some(value) => errors.push(FieldError::unsupported(path, value, supported)),
    }
}

/// A field that must not be empty. Answers whether it is there.
fn required(errors: &mut Errors, path: &FieldPath, value: &str) -> bool {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    !value.is_empty()
}

/// The lists of the Kubernetes types are optional; absent is empty.
fn list<T>(field: &Option<Vec<T>>) -> &[T] {
    field.as_deref().unwrap_or_default()
}

/// The texts of the Kubernetes types are optional; absent is empty.
fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}
