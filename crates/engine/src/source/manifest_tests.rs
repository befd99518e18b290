//! Manifests and the pods and objects in them, with and without an API server.

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
    let error = read("{apiVersion: v1, kind: Pod, metadata: {name: Web}, spec: {containers: [{name: c}]}}")
        .unwrap_err();
    assert_eq!(error.pod(), Some("default/Web-node1"));
    let message = error.to_string();
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(message.ends_with("line 1: spec.containers[0].image: Required value"), "{message}");

    let error = read("{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: a}]}}").unwrap_err();
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
