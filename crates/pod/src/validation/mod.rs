//! Validation of static pods as by the API server, and of fields that hostlet does not support yet. Reports all errors at
//! once; changes nothing.

mod affinity;
mod certificates;
mod containers;
mod env;
mod error;
mod file_paths;
mod handlers;
mod metadata;
mod network;
mod references;
mod resources;
mod security;
mod spec;
#[cfg(test)]
mod tests;
pub mod unsupported;
mod volume_files;
mod volumes;

use k8s_openapi::api::core::v1::Pod;

pub use error::{FieldError, FieldErrorKind, FieldPath};
pub use references::ObjectReferences;
pub use unsupported::{unsupported, unsupported_ephemeral};

use hostlet_base::names;

/// All errors that the API server would report for `pod`, which must have its defaults; empty if it is valid.
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

/// All errors of a static pod: everything that [`validate`] reports, and references to API objects that there are not.
pub fn validate_static(pod: &Pod, objects: ObjectReferences) -> Vec<FieldError> {
    let mut errors = validate(pod);
    if let Some(spec) = &pod.spec {
        references::check(spec, objects, &FieldPath::root("spec"), &mut errors);
    }
    errors
}

/// The collected errors.
type Errors = Vec<FieldError>;

/// Adds an error for each message about `value`.
fn each_invalid(errors: &mut Errors, path: &FieldPath, value: &str, sentences: Vec<String>) {
    errors.extend(sentences.into_iter().map(|sentence| FieldError::invalid(path, value, sentence)));
}

/// Checks that the value, unless unset or empty, is one of the supported ones.
fn one_of(errors: &mut Errors, path: &FieldPath, value: Option<&str>, supported: &[&str]) {
    match value {
        None | Some("") => {}
        Some(value) if supported.contains(&value) => {}
        Some(value) => errors.push(FieldError::unsupported(path, value, supported)),
    }
}

/// Checks that a field is not empty; returns whether it is set.
fn required(errors: &mut Errors, path: &FieldPath, value: &str) -> bool {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    !value.is_empty()
}

/// An optional list; empty if absent.
fn list<T>(field: &Option<Vec<T>>) -> &[T] {
    field.as_deref().unwrap_or_default()
}

/// An optional text; empty if absent.
fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}
