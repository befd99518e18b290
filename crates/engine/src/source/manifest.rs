//! Turns the bytes of a manifest into a static pod and the objects beside it: decoded, with identity and defaults, validated. No I/O.

use std::sync::Arc;

use hostlet_pod::ManifestOrigin;
use hostlet_pod::defaults::set_defaults;
use hostlet_pod::objects::FileObject;
use hostlet_pod::pod_ref;
use hostlet_pod::validation::{FieldError, ObjectReferences, unsupported, validate_static};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::context::ManifestContext;
use super::decode::{DecodeError, Decoded, Documents, Mistakes, decode_manifest};
use super::file_objects::file_object;
use super::identity::{Identity, PodSource};
use super::state::StaticPod;

/// Why a manifest is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file contains something else.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An object is invalid.
    #[error("{errors}")]
    Invalid {
        /// `namespace/name` of the pod, if the file has one, as far as known.
        pod: Option<String>,
        /// All mistakes, by line.
        errors: Mistakes,
    },
}

impl ManifestError {
    /// `namespace/name` of the pod, if the file could be decoded and has one.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Decode(_) => None,
            Self::Invalid { pod, .. } => pod.as_deref(),
        }
    }
}

/// The content of a manifest.
#[derive(Debug, PartialEq)]
pub struct Manifest {
    /// The static pod; `None` if it defines only objects.
    pub pod: Option<StaticPod>,
    /// The objects beside it.
    pub objects: Vec<FileObject>,
    /// What was ignored and why, one line for each object.
    pub ignored: Option<String>,
}

/// Reads a manifest with these bytes. `seen` is when this content was first read.
pub fn read_manifest(
    bytes: &[u8],
    context: &ManifestContext<'_>,
    seen: Timestamp,
) -> Result<Manifest, ManifestError> {
    let Documents { pod, objects: decoded } = decode_manifest(bytes)?;
    let (mut mistakes, mut objects, mut ignored) = (Mistakes::default(), Vec::new(), Vec::new());
    let (pod, name) = match pod {
        Some(decoded) => {
            let (pod, more) = static_pod(decoded, context, seen);
            mistakes.extend(more);
            let name = pod_ref(&pod.pod).to_string();
            (Some(pod), Some(name))
        }
        None => (None, None),
    };
    for object in decoded {
        if !context.is_alone {
            ignored.push(object.ignored());
            continue;
        }
        match file_object(object, context) {
            Ok(object) => objects.push(object),
            Err(more) => mistakes.extend(more),
        }
    }
    if !mistakes.is_empty() {
        return Err(ManifestError::Invalid { pod: name, errors: mistakes });
    }
    Ok(Manifest { pod, objects, ignored: Some(ignored.join("\n")).filter(|text| !text.is_empty()) })
}

/// The pod with its identity and defaults, and its mistakes.
fn static_pod(
    decoded: Decoded<Pod>,
    context: &ManifestContext<'_>,
    seen: Timestamp,
) -> (StaticPod, Mistakes) {
    let Decoded { object: pod, document, unknown } = decoded;
    let origin = ManifestOrigin::File(context.file.to_owned());
    let identity = Identity { source: PodSource::File(context.file), node_name: context.node_name, seen };
    let (pod, errors) = completed(pod, origin, identity, context.is_alone);
    let invalid = errors.into_iter().map(|error| (error.path.clone(), error.to_string()));
    (pod, Mistakes::locate(&document, unknown.into_iter().chain(invalid)))
}

/// A decoded pod with its identity and defaults, and what is invalid in it.
pub(super) fn completed(
    mut pod: Pod,
    origin: ManifestOrigin,
    identity: Identity<'_>,
    is_alone: bool,
) -> (StaticPod, Vec<FieldError>) {
    identity.assign(&mut pod);
    set_defaults(&mut pod);
    let references = if is_alone { ObjectReferences::FromFiles } else { ObjectReferences::Forbidden };
    let errors = validate_static(&pod, references);
    let unsupported = unsupported(&pod);
    (StaticPod { pod: Arc::new(pod), origin, unsupported }, errors)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Manifest, ManifestContext, ManifestError, read_manifest};
    use crate::source::context::FileAccess;

    fn read_as(text: &str, access: FileAccess, is_alone: bool) -> Result<Manifest, ManifestError> {
        let file = Path::new("/m/web.yaml");
        let context = ManifestContext { file, access, node_name: "node1", is_alone };
        read_manifest(text.as_bytes(), &context, Timestamp::UNIX_EPOCH)
    }

    fn read(text: &str) -> Result<super::StaticPod, ManifestError> {
        read_as(text, FileAccess::Shared, true).map(|manifest| manifest.pod.unwrap())
    }

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: c, image: a}]\n  \
        volumes: [{name: v, configMap: {name: cm}}, {name: d, persistentVolumeClaim: {claimName: data}}]\n";
    const OBJECTS: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {k: v}\n\
        ---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: other}\nstringData: {pw: x}\n";

    #[test]
    fn objects_beside_a_pod_serve_it_on_a_host_alone() {
        let read = read_as(&format!("{POD}{OBJECTS}"), FileAccess::Private, true).unwrap();
        let names: Vec<_> = read.objects.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["configmap default/cm", "secret other/s"]);
        assert_eq!(read.ignored, None);
        // An object in the file does not make it another pod.
        let alone = read_as(POD, FileAccess::Private, true).unwrap().pod.unwrap();
        assert_eq!(read.pod.unwrap().pod.metadata.uid, alone.pod.metadata.uid);
        let only = read_as(OBJECTS, FileAccess::Private, true).unwrap();
        assert!(only.pod.is_none() && only.objects.len() == 2);
    }

    #[test]
    fn a_secret_in_a_file_that_others_can_read_is_refused_with_the_remedy() {
        for (access, remedy) in
            [(FileAccess::Shared, "chmod 600 /m/web.yaml"), (FileAccess::Foreign, "chown root /m/web.yaml")]
        {
            let error = read_as(&format!("{POD}{OBJECTS}"), access, true).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("line 14: secret other/s: ") && text.contains(remedy), "{text}");
            assert_eq!((error.pod(), text.lines().count()), (Some("default/web-node1"), 1));
        }
    }

    #[test]
    fn with_an_api_server_objects_are_ignored_and_references_forbidden() {
        let text = POD.replace("  volumes: [{name: v, configMap: {name: cm}}, {name: d, persistentVolumeClaim: {claimName: data}}]\n", "");
        let read = read_as(&format!("{text}{OBJECTS}"), FileAccess::Shared, false).unwrap();
        assert!(read.pod.is_some() && read.objects.is_empty());
        let ignored = read.ignored.unwrap();
        assert!(ignored.starts_with("line 8: the ConfigMap \"cm\" has no effect: "), "{ignored}");
        assert_eq!(ignored.lines().count(), 2);
        let error = read_as(&format!("{POD}{OBJECTS}"), FileAccess::Shared, false).unwrap_err().to_string();
        assert!(error.contains("spec.volumes[0].configMap: Forbidden"), "{error}");
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
