//! Trust anchors and certificates in projected volumes. The API server checks them in the same way.

use k8s_openapi::api::core::v1::{ClusterTrustBundleProjection, PodCertificateProjection};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::file_paths::check_path;
use super::metadata::ANNOTATIONS_MOST;
use super::security::check_id;
use super::{Errors, FieldError, FieldPath, each_invalid, list, names, required, text};

/// The kinds of keys.
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

/// Upstream's bounds of a certificate's life, in seconds.
const SHORTEST: i32 = 3600;
const LONGEST: i32 = 91 * 24 * 3600;
/// The longest that a signer of Kubernetes itself issues.
const LONGEST_OF_KUBERNETES: i32 = 24 * 3600;

/// Maximum length of the domain of a signer.
const MAX_DOMAIN: usize = 253;

pub(super) fn check_bundles(source: &ClusterTrustBundleProjection, path: &FieldPath, errors: &mut Errors) {
    match (&source.name, &source.signer_name) {
        (Some(_), Some(_)) => {
            let rule = "only one of name and signerName may be used";
            errors.push(FieldError::invalid(path, "clusterTrustBundle", rule));
        }
        (Some(name), None) => {
            let path_of_name = path.child("name");
            if name.is_empty() {
                errors.push(FieldError::required(&path_of_name, "must be a valid object name"));
            }
            check_bundle_name(name, &path_of_name, errors);
            if source.label_selector.is_some() {
                let rule = "labelSelector must be unset if name is specified";
                errors.push(FieldError::invalid(&path.child("labelSelector"), "labelSelector", rule));
            }
        }
        (None, Some(signer)) => {
            check_signer(signer, &path.child("signerName"), errors);
            if let Some(selector) = &source.label_selector {
                check_selector(selector, &path.child("labelSelector"), errors);
            }
        }
        (None, None) => {
            errors.push(FieldError::required(path, "either name or signerName must be specified"));
        }
    }
    check_id(source.user, &path.child("user"), errors);
    check_path(&source.path, &path.child("path"), errors);
}

/// A bundle of a signer has the signer's name before the last colon of its own.
fn check_bundle_name(name: &str, path: &FieldPath, errors: &mut Errors) {
    let own = name.rsplit_once(':').map_or(name, |(_, own)| own);
    for sentence in names::dns_subdomain(own) {
        let rule = format!("not a valid clustertrustbundlename: {sentence}");
        errors.push(FieldError::invalid(path, name, rule));
    }
}

pub(super) fn check_certificate(source: &PodCertificateProjection, path: &FieldPath, errors: &mut Errors) {
    check_signer(&source.signer_name, &path.child("signerName"), errors);
    check_annotations(source, &path.child("userAnnotations"), errors);
    check_id(source.user, &path.child("user"), errors);
    if !KEY_TYPES.contains(&source.key_type.as_str()) {
        errors.push(FieldError::unsupported(&path.child("keyType"), &source.key_type, &KEY_TYPES));
    }
    if let Some(seconds) = source.max_expiration_seconds {
        let path = path.child("maxExpirationSeconds");
        let longest = if is_of_kubernetes(&source.signer_name) { LONGEST_OF_KUBERNETES } else { LONGEST };
        if seconds < SHORTEST {
            let rule = "if provided, maxExpirationSeconds must be >= 3600";
            errors.push(FieldError::invalid(&path, seconds, rule));
        }
        if seconds > longest {
            let rule = format!("if provided, maxExpirationSeconds must be <= {longest}");
            errors.push(FieldError::invalid(&path, seconds, rule));
        }
    }
    let mut is_written = false;
    for (field, file) in files(source).into_iter().filter(|(_, file)| !file.is_empty()) {
        is_written = true;
        check_path(file, &path.child(field), errors);
    }
    if !is_written {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(FieldError::required(path, why));
    }
}

/// The fields with the paths of a certificate's files.
pub(super) fn files(source: &PodCertificateProjection) -> [(&'static str, &str); 3] {
    [
        ("credentialBundlePath", text(&source.credential_bundle_path)),
        ("keyPath", text(&source.key_path)),
        ("certificateChainPath", text(&source.certificate_chain_path)),
    ]
}

fn check_annotations(source: &PodCertificateProjection, path: &FieldPath, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in source.user_annotations.iter().flatten() {
        size += key.len() + value.len();
        if !key.contains('/') {
            let rule = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(path, key, rule));
        }
        each_invalid(errors, path, key, names::qualified_name(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_MOST {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MOST));
    }
}

fn is_of_kubernetes(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// Checks the name of a signer: a domain and a path, such as `example.com/signer-name`.
fn check_signer(signer: &str, path: &FieldPath, errors: &mut Errors) {
    if !required(errors, path, signer) {
        return;
    }
    let parts: Vec<&str> = signer.split('/').collect();
    let [domain, name] = parts[..] else {
        let rule = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, signer, rule));
        return;
    };
    if domain.len() > MAX_DOMAIN {
        errors.push(FieldError::too_long(path, MAX_DOMAIN));
    }
    check_labels(domain, names::dns_label, path, errors);
    if !domain.contains('.') {
        let rule = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, rule));
    }
    check_labels(name, names::dns_subdomain, path, errors);
}

/// Reports the first part between dots that is invalid.
fn check_labels(value: &str, check: fn(&str) -> Vec<String>, path: &FieldPath, errors: &mut Errors) {
    let invalid = value.split('.').map(|part| (part, check(part))).find(|(_, found)| !found.is_empty());
    for (part, sentence) in invalid.iter().flat_map(|(part, found)| found.iter().map(move |one| (part, one)))
    {
        errors.push(FieldError::invalid(path, value, format!("validating label {part:?}: {sentence}")));
    }
}

fn check_selector(selector: &LabelSelector, path: &FieldPath, errors: &mut Errors) {
    for (key, value) in selector.match_labels.iter().flatten() {
        let path = path.child("matchLabels");
        each_invalid(errors, &path, key, names::qualified_name(key));
        each_invalid(errors, &path, value, names::label_value(value));
    }
    for (index, requirement) in list(&selector.match_expressions).iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values = list(&requirement.values);
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&path.child("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&path.child("values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let path = path.child("operator");
                errors.push(FieldError::invalid(&path, other, "not a valid selector operator"));
            }
        }
        each_invalid(errors, &path.child("key"), &requirement.key, names::qualified_name(&requirement.key));
        for value in values {
            each_invalid(errors, &path.child("values"), value, names::label_value(value));
        }
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
