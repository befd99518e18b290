//! Many distinct ConfigMaps and Secrets on one node: more watches than the server's stream limit per connection.

use std::fs;
use std::path::PathBuf;

use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{IDLE, LATER, is_ready, pod, uid, wait_for_pods, wait_until_clean};

/// The number of pods unless `HOSTLET_TEST_OBJECT_PODS` is set: with two objects each, more than the hundred streams that an
/// API server permits.
const PODS: usize = 60;

#[tokio::test]
async fn pods_with_more_objects_than_watches_per_connection_run_and_follow_them() {
    let pods = std::env::var("HOSTLET_TEST_OBJECT_PODS").map_or(PODS, |number| number.parse().unwrap());
    let tenant = Tenant::with("objects", 1, &json!({"maxPods": pods + 10})).await.unwrap();
    let names: Vec<String> = (0..pods).map(|number| format!("pod-{number}")).collect();
    for own in &names {
        tenant.create::<ConfigMap>(json!({"metadata": {"name": own}, "data": {"k": "first"}})).await.unwrap();
        tenant
            .create::<Secret>(json!({"metadata": {"name": own}, "stringData": {"k": "first"}}))
            .await
            .unwrap();
        let mut object = pod(own, IDLE);
        // With their own networks they would need more addresses than a node has, and most of the time.
        object["spec"]["hostNetwork"] = json!(true);
        object["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "cm", "mountPath": "/cm"}, {"name": "secret", "mountPath": "/secret"}]);
        object["spec"]["volumes"] = json!([
            {"name": "cm", "configMap": {"name": own}},
            {"name": "secret", "secret": {"secretName": own}},
        ]);
        tenant.create_pod(object).await.unwrap();
    }
    let all = |seen: &[Pod]| seen.len() == pods && seen.iter().all(is_ready);
    let ready = wait_for_pods(&tenant, "all pods ready", 2 * LATER, all).await.unwrap();

    for own in &names {
        let (parameters, secret) = (PatchParams::default(), json!({"stringData": {"k": "second"}}));
        let config = json!({"data": {"k": "second"}});
        tenant.api::<ConfigMap>().patch(own, &parameters, &Patch::Merge(config)).await.unwrap();
        tenant.api::<Secret>().patch(own, &parameters, &Patch::Merge(secret)).await.unwrap();
    }
    let root = tenant.nodes[0].root_dir();
    let files: Vec<PathBuf> = ready
        .iter()
        .flat_map(|pod| {
            let volumes = root.join("pods").join(uid(pod)).join("volumes");
            ["kubernetes.io~configmap/cm/k", "kubernetes.io~secret/secret/k"].map(|file| volumes.join(file))
        })
        .collect();
    wait_for("both objects of each pod to change in its files", LATER, async || {
        let is_old = |file: &&PathBuf| fs::read_to_string(file).unwrap_or_default() != "second";
        let old: Vec<&PathBuf> = files.iter().filter(is_old).collect();
        let left = || format!("{} of {} files are old: {:?}", old.len(), files.len(), old.first());
        Ok(if old.is_empty() { Look::Done(()) } else { Look::NotYet(left()) })
    })
    .await
    .unwrap();

    // Writes succeeded all the time, and still succeed.
    tenant.api::<Pod>().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    wait_for_pods(&tenant, "no pods", LATER, <[Pod]>::is_empty).await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}
