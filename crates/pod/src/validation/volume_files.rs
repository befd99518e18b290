//! Files in volumes of ConfigMaps, Secrets, and fields of the pod: their keys, paths and modes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};

use super::file_paths::check_path;
use super::security::check_id;
use super::{Errors, FieldError, FieldPath, certificates, env, list, required, text};

/// The pod fields that a file may have; unlike the environment, all labels or annotations at once.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const MODES: std::ops::RangeInclusive<i32> = 0..=0o777;

/// Upstream's bounds of a token's life, in seconds.
const SHORTEST_TOKEN: i64 = 10 * 60;
const LONGEST_TOKEN: i64 = 1 << 32;

pub(super) fn check(volume: &Volume, path: &FieldPath, errors: &mut Errors) {
    if let Some(secret) = &volume.secret {
        let path = path.child("secret");
        required(errors, &path.child("secretName"), text(&secret.secret_name));
        check_mode(secret.default_mode, &path.child("defaultMode"), errors);
        check_id(secret.default_user, &path.child("defaultUser"), errors);
        check_items(list(&secret.items), &path, errors);
    }
    if let Some(config_map) = &volume.config_map {
        let path = path.child("configMap");
        required(errors, &path.child("name"), &config_map.name);
        check_mode(config_map.default_mode, &path.child("defaultMode"), errors);
        check_id(config_map.default_user, &path.child("defaultUser"), errors);
        check_items(list(&config_map.items), &path, errors);
    }
    if let Some(downward) = &volume.downward_api {
        let path = path.child("downwardAPI");
        check_mode(downward.default_mode, &path.child("defaultMode"), errors);
        check_id(downward.default_user, &path.child("defaultUser"), errors);
        check_fields(list(&downward.items), &path, errors);
    }
    if let Some(projected) = &volume.projected {
        check_projected(projected, &path.child("projected"), errors);
    }
}

fn check_projected(projected: &ProjectedVolumeSource, path: &FieldPath, errors: &mut Errors) {
    check_mode(projected.default_mode, &path.child("defaultMode"), errors);
    check_id(projected.default_user, &path.child("defaultUser"), errors);
    let mut taken = BTreeSet::new();
    for (index, source) in list(&projected.sources).iter().enumerate() {
        let source_path = path.child("sources").index(index);
        check_source(source, &source_path, errors);
        for file in paths(source).into_iter().filter(|file| !file.is_empty()) {
            if !taken.insert(file) {
                errors.push(FieldError::invalid(path, file, "conflicting duplicate paths"));
            }
        }
    }
}

fn check_source(source: &VolumeProjection, path: &FieldPath, errors: &mut Errors) {
    if let Some(secret) = &source.secret {
        let path = path.child("secret");
        required(errors, &path.child("name"), &secret.name);
        check_items(list(&secret.items), &path, errors);
    }
    if let Some(config_map) = &source.config_map {
        let path = path.child("configMap");
        required(errors, &path.child("name"), &config_map.name);
        check_items(list(&config_map.items), &path, errors);
    }
    if let Some(downward) = &source.downward_api {
        check_fields(list(&downward.items), &path.child("downwardAPI"), errors);
    }
    if let Some(token) = &source.service_account_token {
        check_token(token, &path.child("serviceAccountToken"), errors);
    }
    if let Some(bundles) = &source.cluster_trust_bundle {
        certificates::check_bundles(bundles, &path.child("clusterTrustBundle"), errors);
    }
    if let Some(certificate) = &source.pod_certificate {
        certificates::check_certificate(certificate, &path.child("podCertificate"), errors);
    }
    let named = [
        source.secret.is_some(),
        source.config_map.is_some(),
        source.downward_api.is_some(),
        source.service_account_token.is_some(),
        source.cluster_trust_bundle.is_some(),
        source.pod_certificate.is_some(),
    ];
    if named.into_iter().filter(|set| *set).count() > 1 {
        errors.push(FieldError::forbidden(path, "may not specify more than 1 volume type per source"));
    }
}

/// The paths of a source's files, which no other source may have.
fn paths(source: &VolumeProjection) -> Vec<&str> {
    let secret = source.secret.iter().flat_map(|secret| list(&secret.items));
    let config_map = source.config_map.iter().flat_map(|config_map| list(&config_map.items));
    let keys = secret.chain(config_map).map(|item| item.path.as_str());
    let fields = source.downward_api.iter().flat_map(|downward| list(&downward.items));
    let bundles = source.cluster_trust_bundle.iter().map(|bundles| bundles.path.as_str());
    let certificate = source.pod_certificate.iter().flat_map(certificates::files).map(|(_, file)| file);
    keys.chain(fields.map(|item| item.path.as_str())).chain(bundles).chain(certificate).collect()
}

fn check_token(token: &ServiceAccountTokenProjection, path: &FieldPath, errors: &mut Errors) {
    let seconds_path = path.child("expirationSeconds");
    if let Some(seconds) = token.expiration_seconds.filter(|seconds| *seconds < SHORTEST_TOKEN) {
        let rule = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(&seconds_path, seconds, rule));
    }
    if let Some(seconds) = token.expiration_seconds.filter(|seconds| *seconds > LONGEST_TOKEN) {
        let rule = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(&seconds_path, seconds, rule));
    }
    check_path(&token.path, &path.child("path"), errors);
    check_id(token.user, &path.child("user"), errors);
}

fn check_items(items: &[KeyToPath], path: &FieldPath, errors: &mut Errors) {
    for (index, item) in items.iter().enumerate() {
        let path = path.child("items").index(index);
        required(errors, &path.child("key"), &item.key);
        check_path(&item.path, &path.child("path"), errors);
        check_mode(item.mode, &path.child("mode"), errors);
        check_id(item.user, &path.child("user"), errors);
    }
}

/// Checks files of pod fields. Like upstream, errors do not say which item is meant.
fn check_fields(items: &[DownwardAPIVolumeFile], path: &FieldPath, errors: &mut Errors) {
    for item in items {
        check_path(&item.path, &path.child("path"), errors);
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), resource) => {
                env::check_field(field, &FIELDS, &path.child("fieldRef"), errors);
                if resource.is_some() {
                    let rule = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errors.push(FieldError::invalid(path, "resource", rule));
                }
            }
            (None, Some(resource)) => {
                let path = path.child("resourceFieldRef");
                if required(errors, &path.child("containerName"), text(&resource.container_name)) {
                    env::check_resource(resource, &path, errors);
                }
            }
            (None, None) => {
                let why = "one of fieldRef and resourceFieldRef is required";
                errors.push(FieldError::required(path, why));
            }
        }
        check_mode(item.mode, &path.child("mode"), errors);
        check_id(item.user, &path.child("user"), errors);
    }
}

fn check_mode(mode: Option<i32>, path: &FieldPath, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !MODES.contains(mode)) {
        let rule = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(path, mode, rule));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn errors(kind: &str, source: Value) -> Vec<String> {
        let mut errors = Vec::new();
        let volume: Volume = serde_json::from_value(json!({"name": "v", (kind): source})).unwrap();
        check(&volume, &FieldPath::root("v"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn assert_errors(kind: &str, source: Value, expected: &[&str]) {
        let found = errors(kind, source);
        let are = found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
        assert!(are, "{found:#?}");
    }

    #[test]
    fn files_stay_in_the_volume_and_have_modes_of_nine_bits() {
        let item = |path: &str, mode: i32| json!({"key": "k", "path": path, "mode": mode});
        let good = json!([item("a", 0), item("a/..b/c", 0o777), item(".hidden", 0o400)]);
        assert_errors("configMap", json!({"name": "c", "defaultMode": 0o644, "items": good}), &[]);
        let items = json!([item("/a", 0), item("a/../b", 0), item("..data", 0), item("", 0), item("a", 0o1777), {"key": "", "path": "a"}]);
        let expected = [
            "v.secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            "v.secret.items[0].path: Invalid value: \"/a\": must be a relative path",
            "v.secret.items[1].path: Invalid value: \"a/../b\": must not contain '..'",
            "v.secret.items[2].path: Invalid value: \"..data\": must not start with '..'",
            "v.secret.items[3].path: Required value",
            "v.secret.items[4].mode: Invalid value: 1023",
            "v.secret.items[5].key: Required value",
        ];
        assert_errors("secret", json!({"secretName": "s", "defaultMode": 0o1000, "items": items}), &expected);
    }

    #[test]
    fn a_file_of_a_field_has_one_that_volumes_support() {
        let field = |path: &str| json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": path}});
        let resource = |container: Value, resource: &str, divisor: &str| json!({"path": "p", "resourceFieldRef": {"containerName": container, "resource": resource, "divisor": divisor}});
        let good = [
            field("metadata.labels"),
            field("metadata.annotations['a']"),
            resource(json!("c"), "limits.cpu", "1m"),
            resource(json!("c"), "requests.hugepages-2Mi", "1Mi"),
            resource(json!("c"), "limits.memory", "0"),
        ];
        assert_errors("downwardAPI", json!({"items": good}), &[]);
        let bad = [
            field("status.podIP"),
            resource(Value::Null, "limits.cpu", "0"),
            resource(json!("c"), "limits.gpu", "0"),
            resource(json!("c"), "limits.cpu", "2"),
            json!({"path": "p"}),
        ];
        let expected = [
            "v.downwardAPI.fieldRef.fieldPath: Unsupported value: \"status.podIP\"",
            "v.downwardAPI.resourceFieldRef.containerName: Required value",
            "v.downwardAPI.resourceFieldRef.resource: Unsupported value: \"limits.gpu\"",
            "v.downwardAPI.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported",
            "v.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
        ];
        assert_errors("downwardAPI", json!({"items": bad}), &expected);
    }

    #[test]
    fn sources_of_a_projected_volume_have_one_kind_and_do_not_overlap() {
        let key = json!({"name": "c", "items": [{"key": "k", "path": "a"}]});
        let field =
            json!({"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]});
        let token = |seconds: i64| json!({"path": "token", "expirationSeconds": seconds});
        let sources = json!([{"configMap": key}, {"serviceAccountToken": token(600)}]);
        assert_errors("projected", json!({"sources": sources}), &[]);
        let sources = json!([{"configMap": key, "secret": {"name": "s"}}, {"downwardAPI": field},
            {"serviceAccountToken": token(599)}, {"serviceAccountToken": token((1 << 32) + 1)}]);
        let expected = [
            "v.projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
            "v.projected: Invalid value: \"a\": conflicting duplicate paths",
            "v.projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less",
            "v.projected.sources[3].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger",
        ];
        assert_errors("projected", json!({"sources": sources}), &expected);
    }
}
