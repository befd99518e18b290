//! In-place resizes on an in-memory node: in place or by a restart, with failures, and across restarts of the daemon.

use std::sync::Arc;
use std::time::Duration;

use hostlet_pod::{AdmissionId, AdmittedPod, ResizeState};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Rule, Script};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::testing::{Node, pod, pod_with};

const SOON: Duration = Duration::from_secs(30);
const MIB: i64 = 1 << 20;

/// The pod whose containers have this limit of CPU in cores and of memory in MiB, and generation.
fn sized(pod: &Arc<AdmittedPod>, cpu: u32, memory: u32, generation: i64) -> Arc<AdmittedPod> {
    pod.edited(|pod| {
        pod.metadata.generation = Some(generation);
        for container in &mut pod.spec.as_mut().unwrap().containers {
            let list = json!({"cpu": cpu.to_string(), "memory": format!("{memory}Mi")});
            container.resources = serde_json::from_value(json!({"limits": list, "requests": list})).unwrap();
        }
    })
}

/// The pod whose containers restart for another limit of memory.
fn restarting(pod: &Arc<AdmittedPod>) -> Arc<AdmittedPod> {
    pod.edited(|pod| {
        for container in &mut pod.spec.as_mut().unwrap().containers {
            let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
            container.resize_policy = serde_json::from_value(policy).unwrap();
        }
    })
}

fn status_of(node: &Node, name: &str) -> ContainerStatus {
    let status = node.status("u").unwrap();
    status.container_statuses.iter().flatten().find(|status| status.name == name).unwrap().clone()
}

fn shown(node: &Node, name: &str) -> Value {
    serde_json::to_value(status_of(node, name).resources.unwrap().limits).unwrap()
}

fn in_progress(node: &Node) -> Option<PodCondition> {
    let status = node.status("u")?;
    status.conditions.iter().flatten().find(|it| it.type_ == "PodResizeInProgress").cloned()
}

/// Quota of CPU and limit of memory in MiB of the running container in the runtime.
fn enforced(node: &Node, name: &str) -> (i64, i64) {
    let running = node.containers().into_iter().find(|c| c.name == name && c.runs).unwrap();
    let config = node.runtime.container_config(&running.id.as_str().into()).unwrap();
    let resources = config.linux.unwrap().resources.unwrap();
    (resources.cpu_quota, resources.memory_limit_in_bytes / MIB)
}

fn updates(node: &Node) -> usize {
    node.runtime.calls_of(Operation::UpdateContainer).len()
}

async fn running(node: &mut Node, pod: &Arc<AdmittedPod>) {
    node.want([pod.clone()]);
    let names = pod.spec().containers.len();
    node.until("it runs", SOON, |node| node.running("u").len() == names && node.phase("u").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_is_resized_without_a_restart() {
    let mut node = Node::new();
    let pod = pod("p", "u", &["a", "b"]);
    running(&mut node, &sized(&pod, 1, 10, 1)).await;
    assert_eq!((enforced(&node, "a"), updates(&node)), ((100_000, 10), 0));
    node.want([sized(&pod, 2, 20, 2)]);
    node.until("it has completed", SOON, |node| node.events_of("u", "ResizeCompleted") == 1).await;
    for name in ["a", "b"] {
        assert_eq!(enforced(&node, name), (200_000, 20));
    }
    assert_eq!(node.running("u"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    // Of each container, memory and then CPU.
    assert_eq!(updates(&node), 4);
    node.until("it shows", SOON, |node| shown(node, "a") == json!({"cpu": "2", "memory": "20Mi"})).await;
    assert_eq!((in_progress(&node), node.events_of("u", "ResizeError")), (None, 0));
    // Nothing more happens, also in the next daemon.
    node.sync_store();
    node.stop().await;
    node.boot();
    sleep(SOON).await;
    assert_eq!((updates(&node), node.events_of("u", "ResizeCompleted")), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn a_container_restarts_for_a_resize_if_its_policy_demands_it() {
    let mut node = Node::new();
    let pod = restarting(&pod_with("p", "u", "OnFailure", &["a"]));
    running(&mut node, &sized(&pod, 1, 10, 1)).await;
    node.want([sized(&pod, 2, 10, 2)]);
    node.until("CPU is resized in place", SOON, |node| enforced(node, "a") == (200_000, 10)).await;
    assert_eq!(node.running("u"), [("a".to_owned(), 0)]);
    node.want([sized(&pod, 2, 20, 3)]);
    node.until("it restarts", SOON, |node| node.running("u") == [("a".to_owned(), 1)]).await;
    assert_eq!(enforced(&node, "a"), (200_000, 20));
    node.until("it has completed", SOON, |node| node.events_of("u", "ResizeCompleted") == 2).await;
    node.until("it counts", SOON, |node| status_of(node, "a").restart_count == 1).await;
    assert_eq!(node.events_of("u", "BackOff"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_resize_ends_the_back_off_of_a_container_that_crashes() {
    let mut node = Node::new();
    let second = Duration::from_secs(1);
    node.runtime.script("a", Script::exits(second, 137));
    let pod = pod("p", "u", &["a"]);
    node.want([sized(&pod, 1, 10, 1)]);
    let starts = |node: &Node| node.calls_of("u", Operation::StartContainer).len();
    node.until("it has a long back-off", 6 * SOON, |node| starts(node) == 5).await;
    sleep(10 * second).await;
    node.runtime.script("a", Script::forever());
    node.want([sized(&pod, 1, 20, 2)]);
    node.until("it starts at once", 5 * second, |node| node.running("u") == [("a".to_owned(), 5)]).await;
    assert_eq!(enforced(&node, "a"), (100_000, 20));
}

#[tokio::test(start_paused = true)]
async fn a_resize_by_a_restart_is_shown_as_completed_with_the_restart() {
    let mut node = Node::new();
    let pod = restarting(&pod("p", "u", &["a"]));
    running(&mut node, &sized(&pod, 1, 10, 1)).await;
    let shows_completed = |node: &Node, generation: i64| {
        let shown = node.status("u").and_then(|status| status.observed_generation);
        shown == Some(generation) && in_progress(node).is_none()
    };
    node.until("it is reported", SOON, |node| shows_completed(node, 1)).await;
    // The runtime answers late, before the restart and after it.
    for list in [Operation::ListContainers, Operation::ListSandboxes] {
        node.runtime.faults().add(Rule::new(list, Fault::Delay(Duration::from_secs(1))));
    }
    let resize = ResizeState { allocations: 1, pending: None };
    node.want([AdmittedPod::resized(Pod::clone(&sized(&pod, 1, 20, 2)), resize, AdmissionId::Adopted)]);
    node.until("it has completed", SOON, |node| shows_completed(node, 2)).await;
    assert_eq!(status_of(&node, "a").restart_count, 1);
    assert_eq!(shown(&node, "a"), json!({"cpu": "1", "memory": "20Mi"}));
}

#[tokio::test(start_paused = true)]
async fn a_failed_resize_is_reported_retried_and_survives_the_daemon() {
    let mut node = Node::new();
    let pod = pod("p", "u", &["a"]);
    running(&mut node, &sized(&pod, 1, 10, 1)).await;
    node.runtime.faults().add(Rule::new(Operation::UpdateContainer, Fault::fail("no")));
    node.want([sized(&pod, 1, 20, 2)]);
    node.until("it failed", SOON, |node| {
        in_progress(node).is_some_and(|condition| condition.reason.as_deref() == Some("Error"))
    })
    .await;
    let condition = in_progress(&node).unwrap();
    assert_eq!((condition.message.as_deref(), condition.observed_generation), (Some("no"), Some(2)));
    assert_eq!(shown(&node, "a"), json!({"cpu": "1", "memory": "10Mi"}));
    let allocated = status_of(&node, "a").allocated_resources.unwrap();
    assert_eq!(allocated["memory"].0, "20Mi");
    sleep(10 * SOON).await;
    assert_eq!(node.events_of("u", "ResizeError"), 1, "the same error is no news");
    node.sync_store();
    node.stop().await;
    node.runtime.faults().clear();
    node.boot();
    node.until("it has completed", SOON, |node| node.events_of("u", "ResizeCompleted") == 1).await;
    assert_eq!(enforced(&node, "a"), (100_000, 20));
    node.until("it shows", SOON, |node| in_progress(node).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn memory_that_is_in_use_is_not_taken_away() {
    let mut node = Node::new();
    let pod = pod("p", "u", &["a"]);
    running(&mut node, &sized(&pod, 1, 20, 1)).await;
    let id = node.containers()[0].id.as_str().into();
    node.runtime.set_memory(&id, 15 << 20);
    node.want([sized(&pod, 1, 10, 2)]);
    let message = "cannot decrease memory limits: attempting to set container \"a\" memory limit (10485760) \
                   below current usage (15728640)";
    node.until("it is refused", SOON, |node| {
        in_progress(node).and_then(|condition| condition.message).as_deref() == Some(message)
    })
    .await;
    assert_eq!((updates(&node), enforced(&node, "a").1), (0, 20));
    node.runtime.set_memory(&id, 5 << 20);
    node.until("it has completed", 20 * SOON, |node| node.events_of("u", "ResizeCompleted") == 1).await;
    assert_eq!(enforced(&node, "a").1, 10);
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_arrives_while_the_daemon_is_away_is_enforced() {
    let mut node = Node::new();
    let pod = pod("p", "u", &["a"]);
    running(&mut node, &sized(&pod, 1, 10, 1)).await;
    node.sync_store();
    node.stop().await;
    node.want([sized(&pod, 2, 10, 2)]);
    node.boot();
    node.until("it is resized", SOON, |node| enforced(node, "a") == (200_000, 10)).await;
    assert_eq!(node.running("u"), [("a".to_owned(), 0)]);
}
