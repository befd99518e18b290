//! What hostlet says about a pod. Pure.

use std::fmt;

use hostlet_pod::AdmittedPod;
use hostlet_pod::defaults::set_defaults;
use hostlet_pod::validation::{unsupported, validate};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// Whether hostlet admits a pod.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It does.
    Admitted,
    /// It does not, and only because of fields that are counted apart.
    Apart(Vec<String>),
    /// It does not, because of these fields, which it does not support.
    Rejected(Vec<String>),
    /// hostlet considers it invalid. If the API server does not, one of the two is wrong.
    Invalid(Vec<String>),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted => f.write_str("admitted"),
            Self::Apart(errors) => write!(f, "apart: {}", errors.join("; ")),
            Self::Rejected(errors) => write!(f, "rejected: {}", errors.join("; ")),
            Self::Invalid(errors) => write!(f, "invalid: {}", errors.join("; ")),
        }
    }
}

/// Options for another operating system, which hostlet ignores as the stock kubelet does.
const WINDOWS_OPTIONS: &str = "windowsOptions";

/// Judges a pod as written, before the API server's defaults.
pub(crate) fn judge(written: &Value) -> Verdict {
    let mut pod: Pod = match serde_json::from_value(written.clone()) {
        Ok(pod) => pod,
        Err(error) => return Verdict::Invalid(vec![error.to_string()]),
    };
    let mut errors = unknown_fields(written, &pod);
    set_defaults(&mut pod);
    // The API server has more priority classes than a host alone.
    let invalid = validate(&pod).into_iter().filter(|error| error.path != "spec.priorityClassName");
    errors.extend(invalid.map(|error| error.to_string()));
    if !errors.is_empty() {
        return Verdict::Invalid(errors);
    }
    let unsupported = unsupported(&pod);
    if has_field(written, WINDOWS_OPTIONS) {
        return Verdict::Apart(vec![WINDOWS_OPTIONS.to_owned()]);
    }
    if unsupported.is_empty() {
        // Parsing never fails; it must not panic either.
        AdmittedPod::new(pod);
        return Verdict::Admitted;
    }
    Verdict::Rejected(unsupported.iter().map(ToString::to_string).collect())
}

fn has_field(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(field, value)| field == name || has_field(value, name)),
        Value::Array(items) => items.iter().any(|item| has_field(item, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The paths of fields that a pod lost when it was decoded: a mistake in the document, or a field that hostlet does not know.
fn unknown_fields(written: &Value, pod: &Pod) -> Vec<String> {
    let mut lost = Vec::new();
    match serde_json::to_value(pod) {
        Ok(read) => add_lost(written, &read, "", &mut lost),
        Err(error) => lost.push(error.to_string()),
    }
    lost
}

fn add_lost(written: &Value, read: &Value, path: &str, lost: &mut Vec<String>) {
    match (written, read) {
        (Value::Object(fields), Value::Object(others)) => {
            for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                match others.get(field) {
                    Some(other) => add_lost(value, other, &path, lost),
                    None => lost.push(format!("{path}: unknown field")),
                }
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                add_lost(item, other, &format!("{path}[{index}]"), lost);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(volume: Value) -> Verdict {
        judge(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"priorityClassName": "mine", "containers": [{"name": "c", "image": "i"}], "volumes": [volume]},
        }))
    }

    #[test]
    fn a_pod_is_admitted_counted_apart_rejected_or_invalid() {
        assert_eq!(with(json!({"name": "v", "emptyDir": {}})), Verdict::Admitted);
        assert_eq!(with(json!({"name": "v", "csi": {"driver": "d"}})), Verdict::Admitted);
        let claims = judge(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
            },
        }));
        assert_eq!(claims, Verdict::Admitted);
        let iscsi = json!({"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 0});
        assert!(matches!(with(json!({"name": "v", "iscsi": iscsi})), Verdict::Rejected(_)));
        assert!(matches!(with(json!({"name": "V", "emptyDir": {}})), Verdict::Invalid(_)));
        let unknown = with(json!({"name": "v", "emptyDir": {"sizelimit": "1Mi"}}));
        assert_eq!(
            unknown,
            Verdict::Invalid(vec!["spec.volumes[0].emptyDir.sizelimit: unknown field".to_owned()])
        );
    }
}
