//! Static pods and their mirrors in the API.

use hostlet_integration::cluster::{Tenant, check};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::support::{
    IDLE, SOON, container_id, delete, is_ready, pod, uid, wait_for_object, wait_until_clean, wait_until_gone,
};

#[tokio::test]
async fn a_static_pod_has_a_mirror_that_is_recreated_and_removed_with_its_manifest() {
    let tenant = Tenant::new("static", 1).await.unwrap();
    let node = &tenant.nodes[0];
    let mut manifest = pod("fixed", IDLE);
    manifest["apiVersion"] = json!("v1");
    manifest["kind"] = json!("Pod");
    manifest["metadata"]["namespace"] = json!(tenant.namespace());
    node.host().write_manifest("fixed.json", &manifest.to_string()).unwrap();

    let (api, name) = (tenant.api::<Pod>(), format!("fixed-{}", node.name()));
    let mirror = wait_for_object(&api, &name, SOON, is_ready).await.unwrap();
    let hash = mirror.metadata.annotations.as_ref().unwrap()["kubernetes.io/config.hash"].clone();
    let seen = json!({
        "annotations": mirror.metadata.annotations,
        "ownerReferences": mirror.metadata.owner_references,
        "labels": mirror.metadata.labels,
        "spec": mirror.spec,
        "status": mirror.status,
    });
    let mut seen = seen;
    seen["annotations"]["kubernetes.io/config.seen"] = json!("(time)");
    let names = [(hash.as_str(), "(hash)"), (tenant.namespace(), "(namespace)"), (node.name(), "(node)")];
    check("mirror", &seen, &names).unwrap();

    delete(&tenant, &name, Some(0)).await.unwrap();
    let new = |pod: &Pod| uid(pod) != uid(&mirror) && is_ready(pod);
    let again = wait_for_object(&api, &name, SOON, new).await.unwrap();
    assert_eq!(again.metadata.annotations.as_ref().unwrap()["kubernetes.io/config.hash"], hash);
    assert_eq!(container_id(&again), container_id(&mirror));

    node.host().remove_manifest("fixed.json").unwrap();
    wait_until_gone(&api, &name).await.unwrap();
    wait_until_clean(node).await.unwrap();
}

#[tokio::test]
async fn a_mirror_is_deleted_if_its_manifest_was_removed_while_no_daemon_ran() {
    let mut tenant = Tenant::new("static-gone", 1).await.unwrap();
    let name = format!("gone-{}", tenant.nodes[0].name());
    let mut manifest = pod("gone", IDLE);
    manifest["apiVersion"] = json!("v1");
    manifest["kind"] = json!("Pod");
    manifest["metadata"]["namespace"] = json!(tenant.namespace());
    tenant.nodes[0].host().write_manifest("gone.json", &manifest.to_string()).unwrap();
    wait_for_object(&tenant.api::<Pod>(), &name, SOON, is_ready).await.unwrap();

    tenant.nodes[0].stop_agent().await.unwrap();
    tenant.nodes[0].host().remove_manifest("gone.json").unwrap();
    tenant.nodes[0].start_agent().unwrap();
    wait_until_gone(&tenant.api::<Pod>(), &name).await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}
