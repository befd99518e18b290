//! Turns the bytes of a manifest into a static pod: decoded, with identity and defaults, validated. No I/O.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::decode::{DecodeError, Decoded, Mistakes, decode_pod};
use super::identity;
use super::state::StaticPod;
use crate::pod::defaults::set_defaults;
use crate::pod::pod_ref;
use crate::pod::validation::{unsupported, validate_static};

/// Why a manifest is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file does not contain one pod.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The pod is invalid.
    #[error("{errors}")]
    Invalid {
        /// `namespace/name`, as far as known.
        pod: String,
        /// Its mistakes.
        errors: Mistakes,
    },
}

impl ManifestError {
    /// `namespace/name` of the pod, if the file could be decoded.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Decode(_) => None,
            Self::Invalid { pod, .. } => Some(pod),
        }
    }
}

/// Reads the static pod that `file`, with these bytes, defines on the node `node_name`. `seen` is when this content was first
/// read.
pub fn read_manifest(
    bytes: &[u8],
    file: &Path,
    node_name: &str,
    seen: Timestamp,
) -> Result<StaticPod, ManifestError> {
    let Decoded { mut pod, document, unknown } = decode_pod(bytes)?;
    identity::assign(&mut pod, file, node_name, seen);
    set_defaults(&mut pod);
    let errors = validate_static(&pod);
    if !errors.is_empty() || !unknown.is_empty() {
        let invalid = errors.into_iter().map(|error| (error.path.clone(), error.to_string()));
        let errors = Mistakes::locate(&document, unknown.into_iter().chain(invalid));
        return Err(ManifestError::Invalid { pod: pod_ref(&pod).to_string(), errors });
    }
    let unsupported = unsupported(&pod);
    Ok(StaticPod { pod: Arc::new(pod), file: file.to_owned(), unsupported })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{ManifestError, read_manifest};

    fn read(text: &str) -> Result<super::StaticPod, ManifestError> {
        read_manifest(text.as_bytes(), Path::new("/m/web.yaml"), "node1", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_manifest_becomes_a_complete_pod() {
        let read = read(
            "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: a, tty: true}],
             schedulingGates: [{name: g}]}}",
        )
        .unwrap();
        assert_eq!(read.pod.metadata.name.as_deref(), Some("web-node1"));
        assert_eq!(read.pod.spec.as_ref().unwrap().restart_policy.as_deref(), Some("Always"));
        assert_eq!(read.unsupported[0].path, "spec.schedulingGates");
    }

    #[test]
    fn an_invalid_pod_is_named_with_all_mistakes() {
        let error =
            read("{apiVersion: v1, kind: Pod, metadata: {name: Web}, spec: {containers: [{name: c}]}}")
                .unwrap_err();
        assert_eq!(error.pod(), Some("default/Web-node1"));
        let message = error.to_string();
        assert_eq!(message.lines().count(), 2, "{message}");
        assert!(message.ends_with("line 1: spec.containers[0].image: Required value"), "{message}");

        let error =
            read("{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: a}]}}").unwrap_err();
        assert_eq!(error.to_string(), "line 1: metadata.name: Required value");
    }

    #[test]
    fn unknown_fields_and_invalid_values_are_reported_together() {
        let error = read(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containerz: []\n  containers:\n  - {name: a_, image: i}\n",
        )
        .unwrap_err();
        let message = error.to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with("line 5: spec.containerz: unknown field"), "{message}");
        assert!(lines[1].starts_with("line 7: spec.containers[0].name: Invalid value"), "{message}");
    }

    /// The JSON pointers of all values in a value.
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, item)| places(item, &format!("{at}/{i}"), found));
            }
            Value::Object(fields) => {
                let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
                fields.iter().for_each(|(key, item)| places(item, &format!("{at}/{}", escaped(key)), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn hostile() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[a-z./@:0-9-]{0,300}".prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
            Just(json!([{}, {}])),
            Just(json!([null])),
        ]
    }

    proptest! {
        /// Whatever the fields contain, the result is a pod or an error, and no identifier that could leave a directory.
        #[test]
        fn hostile_values_in_any_field_do_no_harm(edits in proptest::collection::vec((any::<prop::sample::Index>(), hostile()), 1..4)) {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "namespace": "x", "uid": "u", "labels": {"a/b": "c"}, "annotations": {"k": "v"}},
                "spec": {"restartPolicy": "Never", "hostname": "h", "priorityClassName": "system-node-critical",
                    "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a"], "options": [{"name": "x"}]},
                    "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}],
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "securityContext": {"runAsUser": 1, "sysctls": [{"name": "a", "value": "b"}], "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}},
                    "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
                    "containers": [{"name": "c", "image": "reg:5/a@b:c", "command": ["a"], "ports": [{"containerPort": 1, "hostPort": 2, "name": "p"}],
                        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
                        "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
                        "livenessProbe": {"httpGet": {"port": "p"}},
                        "volumeMounts": [{"name": "v", "mountPath": "/", "subPath": "s"}]}]}});
            for (index, value) in edits {
                let mut found = Vec::new();
                places(&pod, "", &mut found);
                *pod.pointer_mut(&found[index.index(found.len())]).unwrap() = value;
            }
            if let Ok(read) = read(&pod.to_string()) {
                let metadata = &read.pod.metadata;
                for part in [&metadata.name, &metadata.namespace, &metadata.uid] {
                    let part = part.as_deref().unwrap();
                    prop_assert!(!part.is_empty() && !part.contains('/') && part != "..");
                }
            }
        }
    }
}
