//! A container's environment: names, and exactly one source per variable.

use hostlet_base::Quantity;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector, PodSpec, ResourceFieldSelector,
};

use super::{Errors, FieldError, FieldPath, each_invalid, list, names, required, text};

/// The pod fields that a variable may refer to. Single labels and annotations are given as `metadata.labels['key']`.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources of a container that a variable or a file may have, besides huge pages of any size.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

/// The units of amounts in bytes.
const DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn check(container: &Container, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    for (index, variable) in list(&container.env).iter().enumerate() {
        check_variable(variable, spec, &path.child("env").index(index), errors);
    }
    for (index, source) in list(&container.env_from).iter().enumerate() {
        let path = path.child("envFrom").index(index);
        let prefix = text(&source.prefix);
        if !prefix.is_empty() {
            each_invalid(errors, &path.child("prefix"), prefix, names::env_name(prefix));
        }
        if let Some(config_map) = &source.config_map_ref {
            required(errors, &path.child("configMapRef").child("name"), &config_map.name);
        }
        if let Some(secret) = &source.secret_ref {
            required(errors, &path.child("secretRef").child("name"), &secret.name);
        }
        if source.config_map_ref.is_some() == source.secret_ref.is_some() {
            let rule = "must specify exactly one of: `configMapRef` or `secretRef`";
            errors.push(FieldError::invalid(&path, "", rule));
        }
    }
}

fn check_variable(variable: &EnvVar, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if required(errors, &path.child("name"), &variable.name) {
        each_invalid(errors, &path.child("name"), &variable.name, names::env_name(&variable.name));
    }
    let Some(source) = &variable.value_from else { return };
    let path = path.child("valueFrom");
    if !text(&variable.value).is_empty() {
        errors.push(FieldError::invalid(&path, "", "may not be specified when `value` is not empty"));
    }
    let named = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match named.into_iter().filter(|set| *set).count() {
        0 => errors.push(FieldError::invalid(
            &path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )),
        1 => check_source(source, spec, &path, errors),
        _ => errors.push(FieldError::invalid(&path, "", "may not have more than one field specified at a time")),
    }
}

fn check_source(source: &EnvVarSource, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if let Some(field) = &source.field_ref {
        check_field(field, &FIELDS, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = &source.resource_field_ref {
        check_resource(resource, &path.child("resourceFieldRef"), errors);
    }
    if let Some(key) = &source.config_map_key_ref {
        let path = path.child("configMapKeyRef");
        required(errors, &path.child("name"), &key.name);
        required(errors, &path.child("key"), &key.key);
    }
    if let Some(key) = &source.secret_key_ref {
        let path = path.child("secretKeyRef");
        required(errors, &path.child("name"), &key.name);
        required(errors, &path.child("key"), &key.key);
    }
    if let Some(key) = &source.file_key_ref {
        let path = path.child("fileKeyRef");
        check_file(key, spec, &path, errors);
    }
}

fn check_file(file: &FileKeySelector, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let (key_path, volume_path) = (path.child("key"), path.child("volumeName"));
    if required(errors, &key_path, &file.key) {
        each_invalid(errors, &key_path, &file.key, names::env_name(&file.key));
    }
    if required(errors, &volume_path, &file.volume_name) {
        each_invalid(errors, &volume_path, &file.volume_name, names::dns_label(&file.volume_name));
        match list(&spec.volumes).iter().find(|volume| volume.name == file.volume_name) {
            None => errors.push(FieldError::not_found(&volume_path, &file.volume_name)),
            Some(volume) if volume.empty_dir.is_none() => {
                let rule = "referenced volume must be of type emptyDir";
                errors.push(FieldError::invalid(&volume_path, &file.volume_name, rule));
            }
            Some(_) => {}
        }
    }
    if required(errors, &path.child("path"), &file.path) && names::has_backsteps(&file.path) {
        errors.push(FieldError::invalid(&path.child("path"), &file.path, "must not contain '..'"));
    }
}

/// Checks a reference to a field of the pod: one of `fields`, or a single label or annotation.
pub(super) fn check_field(
    field: &ObjectFieldSelector,
    fields: &[&str],
    path: &FieldPath,
    errors: &mut Errors,
) {
    let version = text(&field.api_version);
    if version != "v1" {
        errors.push(FieldError::invalid(&path.child("apiVersion"), version, "must be v1"));
    }
    let field_path = field.field_path.as_str();
    let path = path.child("fieldPath");
    if !required(errors, &path, field_path) {
        return;
    }
    match subscript(field_path) {
        Some(("metadata.labels", key)) => each_invalid(errors, &path, field_path, names::qualified_name(key)),
        Some(("metadata.annotations", key)) => {
            each_invalid(errors, &path, field_path, names::qualified_name(&key.to_lowercase()));
        }
        Some(_) => {
            errors.push(FieldError::invalid(&path, field_path, "does not support subscript"));
        }
        None if fields.contains(&field_path) => {}
        None => errors.push(FieldError::unsupported(&path, field_path, fields)),
    }
}

/// Checks a reference to the requests or limits of a container.
pub(super) fn check_resource(selector: &ResourceFieldSelector, path: &FieldPath, errors: &mut Errors) {
    let (resource, resource_path) = (selector.resource.as_str(), path.child("resource"));
    let is_huge_pages = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if required(errors, &resource_path, resource) && !RESOURCES.contains(&resource) && !is_huge_pages {
        errors.push(FieldError::unsupported(&resource_path, resource, &RESOURCES));
    }
    let divisor = selector.divisor.as_ref().and_then(|divisor| Quantity::parse(&divisor.0).ok());
    let Some(divisor) = divisor.filter(|divisor| *divisor != Quantity::count(0)) else { return };
    let (divisors, what): (&[&str], _) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&DIVISORS, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&DIVISORS, "local ephemeral storage"),
        _ if is_huge_pages => (&DIVISORS, "hugepages"),
        _ => return,
    };
    if !divisors.contains(&divisor.to_string().as_str()) {
        let listed = if what == "cpu" { "1m and 1".to_owned() } else { divisors.join(", ") };
        let rule = format!("only divisor's values {listed} are supported with the {what} resource");
        errors.push(FieldError::invalid(&path.child("divisor"), resource, rule));
    }
}

/// Splits `metadata.labels['key']` into the map and the key.
fn subscript(field_path: &str) -> Option<(&str, &str)> {
    field_path.strip_suffix("']")?.split_once("['")
}
