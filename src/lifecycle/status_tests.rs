//! What a whole node in memory tells of its pods while it works on them, and what it goes on from.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::testing::{Node, pod};
use crate::cri::Operation;
use crate::cri::fake::{Fault, Rule};
use crate::worker::WorkerContext;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A pod with this status, as its source gives it.
fn known_as(pod: &Pod, status: Value) -> Arc<Pod> {
    Arc::new(Pod { status: Some(serde_json::from_value(status).unwrap()), ..pod.clone() })
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_told_as_soon_as_it_stands() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::CreateContainer, Fault::Hang));
    node.want([pod("web", "u1", &["c"])]);
    let is_told = |node: &Node| {
        let status = node.status("u1").unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "PodReadyToStartContainers");
        ready.is_some_and(|ready| ready.status == "True") && status.pod_ip.is_some()
    };
    node.until("the sandbox and its address are told", 5 * SECOND, is_told).await;
    assert_eq!(node.phase("u1").as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_pod_that_is_stuck_is_told_as_long_as_it_is() {
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    let mut node = Node::with(16, move |services| {
        let count = count.clone();
        let events = Arc::new(move |_: &_, _: Option<&str>, event: &crate::types::PodEvent| {
            *count.lock() += u32::from(event.reason == "FailedCreatePodSandBox");
        });
        Arc::new(WorkerContext { events, ..services })
    });
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::fail("no")));
    node.want([pod("stuck", "u1", &["c"])]);
    sleep(60 * MINUTE).await;
    let first_hour = *told.lock();
    // Not more often than the runtime is asked.
    assert!((10..=360).contains(&first_hour), "{first_hour}");
    sleep(60 * MINUTE).await;
    assert!(*told.lock() >= first_hour + 10);
}

/// A daemon that begins without the API server knows of a pod what was stored at its admission.
#[tokio::test(start_paused = true)]
async fn the_status_that_the_server_has_counts_as_soon_as_it_is_known() {
    let mut node = Node::new();
    let mut admitted = Pod::clone(&pod("web", "u1", &["c"]));
    let source = [("kubernetes.io/config.source".to_owned(), "api".to_owned())];
    admitted.metadata.annotations = Some(source.into());
    node.want([known_as(&admitted, json!({"phase": "Pending"}))]);
    node.until("it runs", 5 * SECOND, |node| node.running("u1").len() == 1).await;
    sleep(MINUTE).await;
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    let container = json!({"name": "c", "image": "img", "imageID": "", "ready": true, "restartCount": 3,
        "state": {"running": {}}, "lastState": ended});
    node.want([known_as(
        &admitted,
        json!({"phase": "Running", "startTime": "2025-12-31T00:00:00Z",
        "containerStatuses": [container], "conditions": [{"type": "example.com/gate", "status": "True"}]}),
    )]);
    let goes_on = |node: &Node| {
        let status = node.status("u1").unwrap_or_default();
        let container = status.container_statuses.iter().flatten().next();
        let last =
            container.and_then(|c| c.last_state.as_ref()?.terminated.as_ref()).map(|last| last.exit_code);
        container.map(|c| c.restart_count) == Some(3)
            && last == Some(3)
            && status.conditions.iter().flatten().any(|c| c.type_ == "example.com/gate" && c.status == "True")
    };
    node.until("what an earlier daemon saw is told", 5 * SECOND, goes_on).await;
    assert_eq!(node.phase("u1").as_deref(), Some("Running"));
}
