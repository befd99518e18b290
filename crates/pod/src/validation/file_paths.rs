//! Paths of files in volumes.

use super::{Errors, FieldError, FieldPath, names, required};

/// Checks that the path of a file is set, and stays in the volume and out of the names that its updates use.
pub(super) fn check_path(file: &str, path: &FieldPath, errors: &mut Errors) {
    required(errors, path, file);
    if file.starts_with('/') {
        errors.push(FieldError::invalid(path, file, "must be a relative path"));
    }
    if names::has_backsteps(file) {
        errors.push(FieldError::invalid(path, file, "must not contain '..'"));
    }
    if file.starts_with("..") && !file.starts_with("../") {
        errors.push(FieldError::invalid(path, file, "must not start with '..'"));
    }
}
