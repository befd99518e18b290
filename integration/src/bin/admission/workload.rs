//! Workloads in the documents of a project, and the pod that a controller would make of each. Pure.

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A workload of a project.
pub(crate) struct Workload {
    /// Its kind and name.
    pub(crate) name: String,
    /// Its pod, scheduled to a node.
    pub(crate) pod: Value,
}

/// The workloads in documents, in order. Objects without pods are skipped.
pub(crate) fn workloads(documents: &str) -> Result<Vec<Workload>> {
    let mut found = Vec::new();
    let documents: Vec<Value> = serde_saphyr::from_multiple(documents).context("not YAML")?;
    for document in documents {
        add_workloads(&document, &mut found);
    }
    Ok(found)
}

fn add_workloads(object: &Value, found: &mut Vec<Workload>) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let template = match kind {
        "Pod" => object,
        "DaemonSet" | "Deployment" | "Job" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            &object["spec"]["template"]
        }
        "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"],
        "List" => {
            for item in object["items"].as_array().into_iter().flatten() {
                add_workloads(item, found);
            }
            return;
        }
        _ => return,
    };
    if template["spec"].is_object() {
        let name = object["metadata"]["name"].as_str().unwrap_or("(generated)");
        found.push(Workload { name: format!("{kind}/{name}"), pod: pod_of(kind, object, template) });
    }
}

/// The pod of a template as a controller creates it, with what the admission of the API server and the scheduler add.
fn pod_of(kind: &str, object: &Value, template: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
        "metadata": {
            "name": "workload", "namespace": "default", "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
        },
    });
    let spec = &mut pod["spec"];
    spec["nodeName"] = json!("node");
    if kind == "StatefulSet" {
        for claim in object["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
            let name = &claim["metadata"]["name"];
            let claim_name = format!("{}-workload-0", name.as_str().unwrap_or_default());
            // The claim takes the place of a volume of its name.
            if let Some(volumes) = spec["volumes"].as_array_mut() {
                volumes.retain(|volume| volume["name"] != *name);
            }
            add(spec, "volumes", json!({"name": name, "persistentVolumeClaim": {"claimName": claim_name}}));
        }
    }
    if spec["automountServiceAccountToken"] != json!(false) {
        add_token(spec);
    }
    pod
}

/// Adds the volume of the service account's token, and its mounts.
fn add_token(spec: &mut Value) {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    add(
        spec,
        "volumes",
        json!({"name": "kube-api-access", "projected": {"defaultMode": 0o644, "sources": sources}}),
    );
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            if !mounts.into_iter().any(|mount| mount["mountPath"] == path) {
                add(
                    container,
                    "volumeMounts",
                    json!({"name": "kube-api-access", "mountPath": path, "readOnly": true}),
                );
            }
        }
    }
}

/// Appends to a list that may be absent.
fn add(object: &mut Value, list: &str, item: Value) {
    match &mut object[list] {
        Value::Array(items) => items.push(item),
        absent => *absent = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_controller_has_a_pod() {
        let documents = "
kind: Service
---
kind: List
items:
- {kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}}
- {kind: Pod, metadata: {generateName: b-}, spec: {automountServiceAccountToken: false, containers: []}}
---
kind: StatefulSet
metadata: {name: s}
spec:
  volumeClaimTemplates: [{metadata: {name: data}}]
  template: {spec: {containers: [{name: c}], volumes: [{name: data, emptyDir: {}}]}}
";
        let found = workloads(documents).unwrap();
        let names: Vec<&str> = found.iter().map(|workload| workload.name.as_str()).collect();
        assert_eq!(names, ["CronJob/a", "Pod/(generated)", "StatefulSet/s"]);
        assert_eq!(found[0].pod["spec"]["containers"][0]["volumeMounts"][0]["name"], "kube-api-access");
        assert_eq!(found[1].pod["spec"]["volumes"], Value::Null);
        assert_eq!(
            found[2].pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "data-workload-0"
        );
    }
}
