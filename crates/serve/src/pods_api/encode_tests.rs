//! Pods in Protobuf, against what Kubernetes' own code reads and writes.

use std::path::Path;

use hostlet_base::yaml::{decode, parse_documents};
use hostlet_proto::pod_message::{Count, Kind, MESSAGES, POD};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use super::encode::{is_inline, pod};

/// Adds the paths of fields that the table of messages does not have.
fn unknown(fields: &Map<String, Value>, of: &[usize], path: &str, found: &mut Vec<String>) {
    let mut messages = of.to_vec();
    let mut at = 0;
    // Also those whose fields are inline.
    while at < messages.len() {
        for field in MESSAGES[messages[at]].iter().filter(|field| is_inline(field)) {
            if let Kind::Message(inner) = field.kind {
                messages.push(inner);
            }
        }
        at += 1;
    }
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        let mut known = messages.iter().flat_map(|of| MESSAGES[*of]);
        let Some(field) = known.find(|field| field.name == name && !is_inline(field)) else {
            found.push(path);
            continue;
        };
        let Kind::Message(inner) = field.kind else { continue };
        let values: Vec<&Value> = match field.count {
            Count::One => vec![value],
            Count::Many => value.as_array().into_iter().flatten().collect(),
            Count::Map => value.as_object().into_iter().flat_map(Map::values).collect(),
        };
        for value in values {
            unknown(value.as_object().unwrap(), &[inner], &path, found);
        }
    }
}

#[test]
fn no_field_of_a_pod_is_left_out() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/samples/fields.yaml");
    let pods = parse_documents(&std::fs::read_to_string(samples).unwrap()).unwrap();
    assert!(pods.len() > 1);
    for sample in pods {
        let (typed, flaws) = decode::<Pod>(&sample.value);
        assert!(flaws.is_empty(), "{flaws:?}");
        let typed = typed.unwrap();
        let Value::Object(mut fields) = serde_json::to_value(typed).unwrap() else { panic!("no object") };
        // Not in Protobuf.
        fields.remove("apiVersion");
        fields.remove("kind");
        let mut found = Vec::new();
        unknown(&fields, &[POD], "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn every_kind_of_value_is_encoded_as_kubernetes_does() {
    let value = json!({
        "metadata": {
            "name": "a", "uid": "u", "generation": -1, "labels": {"k": "v"},
            "creationTimestamp": "2026-11-28T19:00:00Z",
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "containers": [{
                "name": "c", "image": "i", "stdin": true,
                "resources": {"limits": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": false}}}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}],
        },
    });
    let encoded = pod(&serde_json::from_value(value).unwrap());
    assert_eq!(hex::encode(encoded), include_str!("pod.hex").trim());
}
