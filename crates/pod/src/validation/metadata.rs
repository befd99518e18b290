//! A pod's metadata: name, namespace, UID, labels, annotations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Errors, FieldError, FieldPath, each_invalid, names, required, text};

/// Maximum total size of annotation keys and values, in bytes.
pub(super) const ANNOTATIONS_MOST: usize = 256 * 1024;
/// Marks the mirror of a static pod. A manifest must not carry it.
const CONFIG_MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

pub(super) fn check(metadata: &ObjectMeta, errors: &mut Errors) {
    let path = FieldPath::root("metadata");
    let name = text(&metadata.name);
    if required(errors, &path.child("name"), name) {
        each_invalid(errors, &path.child("name"), name, names::dns_subdomain(name));
    }
    let namespace = text(&metadata.namespace);
    if required(errors, &path.child("namespace"), namespace) {
        each_invalid(errors, &path.child("namespace"), namespace, names::dns_label(namespace));
    }
    // The API server generates UIDs; one from a manifest could be anything, and it becomes part of paths.
    let uid = text(&metadata.uid);
    if !uid.is_empty() && !names::is_uid(uid) {
        let rule =
            "must consist of at most 63 letters, digits or '-', and start and end with a letter or digit";
        errors.push(FieldError::invalid(&path.child("uid"), uid, rule));
    }
    check_labels(metadata, &path.child("labels"), errors);
    check_annotations(metadata, &path.child("annotations"), errors);
}

fn check_labels(metadata: &ObjectMeta, path: &FieldPath, errors: &mut Errors) {
    for (key, value) in metadata.labels.iter().flatten() {
        each_invalid(errors, path, key, names::qualified_name(key));
        each_invalid(errors, path, value, names::label_value(value));
    }
}

fn check_annotations(metadata: &ObjectMeta, path: &FieldPath, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in metadata.annotations.iter().flatten() {
        // The prefix of an annotation's key may be upper case, unlike the prefix of a label's.
        each_invalid(errors, path, key, names::qualified_name(&key.to_lowercase()));
        size += key.len() + value.len();
        if key == CONFIG_MIRROR_ANNOTATION {
            let why = "this is the copy of a static pod that an API server holds; use the original manifest";
            errors.push(FieldError::forbidden(&path.key(key), why));
        }
    }
    if size > ANNOTATIONS_MOST {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MOST));
    }
}
