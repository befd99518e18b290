//! The ways a pod is deleted from the API.

use std::fs;

use anyhow::Result;
use futures::{StreamExt, pin_mut};
use hostlet_integration::cluster::{Node, Tenant};
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::ContainerState;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;

use crate::support::{
    IDLE, SOON, assert_undisturbed, container_id, delete, deleted, phase, pod, run, statuses, uid,
    wait_for_object, wait_until_clean, wait_until_gone,
};

#[tokio::test]
async fn graceful_deletion_stops_the_pod_and_reports_its_result() {
    let tenant = Tenant::new("graceful", 1).await.unwrap();
    let dir = tenant.nodes[0].root_dir().join("../shared");
    fs::create_dir_all(&dir).unwrap();
    let mut object = pod(
        "slow",
        "trap 'sleep 1; echo ended > /shared/result; exit 3' TERM; touch /shared/up; sleep 100000 & wait",
    );
    object["spec"]["terminationGracePeriodSeconds"] = json!(60);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    object["spec"]["volumes"] =
        json!([{"name": "shared", "hostPath": {"path": dir.canonicalize().unwrap()}}]);
    let running = run(&tenant, object).await.unwrap();
    // The first process of a container ignores SIGTERM until it has set its trap, which it logs.
    let up = wait_for("the script has set its trap", SOON, async || {
        Ok(if dir.join("up").exists() { Look::Done(()) } else { Look::NotYet("not yet".to_owned()) })
    });
    up.await.unwrap();

    let api = tenant.api::<Pod>();
    let from = running.metadata.resource_version.clone().unwrap();
    let changes = api.watch(&WatchParams::default().fields("metadata.name=slow"), &from).await.unwrap();
    delete(&tenant, "slow", None).await.unwrap();
    pin_mut!(changes);
    let mut last = running;
    let gone = tokio::time::timeout(SOON, async {
        while let Some(change) = changes.next().await {
            match change.unwrap() {
                WatchEvent::Modified(pod) => last = pod,
                WatchEvent::Deleted(_) => return,
                _ => {}
            }
        }
    });
    gone.await.unwrap();
    assert_eq!(fs::read_to_string(dir.join("result")).unwrap(), "ended\n");
    assert!(deleted(&last).is_some());
    assert_eq!(phase(&last), "Failed", "{last:?}");
    let state = statuses(&last)[0].state.clone().unwrap_or_default();
    assert_eq!(state.terminated.map(|terminated| terminated.exit_code), Some(3));
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}

#[tokio::test]
async fn forced_deletion_and_a_new_pod_of_the_same_name() {
    let tenant = Tenant::new("forced", 1).await.unwrap();
    let stubborn = pod("twin", "trap '' TERM; sleep 100000 & wait; sleep 100000");
    let old = run(&tenant, stubborn.clone()).await.unwrap();
    delete(&tenant, "twin", Some(0)).await.unwrap();
    let new = run(&tenant, stubborn).await.unwrap();
    assert_ne!(uid(&old), uid(&new));
    assert_ne!(container_id(&old), container_id(&new));
    wait_until_alone(&tenant.nodes[0], &new).await.unwrap();
    assert_undisturbed(&tenant, &new).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_never_ran_is_deleted_too() {
    let tenant = Tenant::new("pending", 1).await.unwrap();
    let mut object = pod("waits", IDLE);
    object["spec"]["volumes"] = json!([{"name": "none", "configMap": {"name": "none"}}]);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "none", "mountPath": "/none"}]);
    tenant.create_pod(object).await.unwrap();
    let mut object = pod("pulls", IDLE);
    object["spec"]["containers"][0]["image"] = json!("hostlet.invalid/none:1");
    tenant.create_pod(object).await.unwrap();
    let api = tenant.api::<Pod>();
    let waits = |pod: &Pod| {
        let state = statuses(pod).first().and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.waiting.is_some())
    };
    for name in ["waits", "pulls"] {
        wait_for_object(&api, name, SOON, waits).await.unwrap();
        delete(&tenant, name, None).await.unwrap();
        wait_until_gone(&api, name).await.unwrap();
    }
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}

#[tokio::test]
async fn pods_deleted_while_the_agent_is_down_are_gone_after_it_is_back() {
    let mut tenant = Tenant::new("down", 1).await.unwrap();
    for name in ["graceful", "forced", "stays"] {
        run(&tenant, pod(name, IDLE)).await.unwrap();
    }
    let api = tenant.api::<Pod>();
    let stays = api.get("stays").await.unwrap();
    tenant.nodes[0].kill_agent().unwrap();
    delete(&tenant, "graceful", None).await.unwrap();
    delete(&tenant, "forced", Some(0)).await.unwrap();
    assert!(deleted(&api.get("graceful").await.unwrap()).is_some());
    tenant.nodes[0].start_agent().unwrap();
    wait_until_gone(&api, "graceful").await.unwrap();
    wait_until_alone(&tenant.nodes[0], &stays).await.unwrap();
    delete(&tenant, "stays", None).await.unwrap();
    wait_until_gone(&api, "stays").await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}

/// Waits until the pod's container is the only one that runs on the node.
async fn wait_until_alone(node: &Node, pod: &Pod) -> Result<()> {
    wait_for("the container of one pod alone", SOON, async || {
        let containers = node.host().cri().containers().await?;
        let running = containers.iter().filter(|c| c.state == ContainerState::ContainerRunning as i32);
        let ids: Vec<String> = running.map(|c| format!("containerd://{}", c.id)).collect();
        Ok(if ids == [container_id(pod)] { Look::Done(()) } else { Look::NotYet(format!("{ids:?}")) })
    })
    .await
}
