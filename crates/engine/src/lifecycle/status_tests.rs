//! The statuses that an in-memory node reports while it works on pods, and their starting point after a restart.

use std::sync::Arc;
use std::time::Duration;

use hostlet_observe::status::{Activity, READY_TO_START};
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, OnTerm, Rule, Script};
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::testing::{Node, pod, pod_with};
use crate::worker::{ReportSinks, WorkerContext};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A pod with this status from its source.
fn known_as(pod: &Pod, status: Value) -> Arc<AdmittedPod> {
    AdmittedPod::new(Pod { status: Some(serde_json::from_value(status).unwrap()), ..pod.clone() })
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_reported_as_soon_as_it_is_ready() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::CreateContainer, Fault::Hang));
    node.want([pod("web", "u1", &["c"])]);
    let is_reported = |node: &Node| {
        let status = node.status("u1").unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "PodReadyToStartContainers");
        ready.is_some_and(|ready| ready.status == "True") && status.pod_ip.is_some()
    };
    node.until("the sandbox and its address are reported", 5 * SECOND, is_reported).await;
    assert_eq!(node.phase("u1").as_deref(), Some("Pending"));
}

/// The message of the condition that says what the pod's containers wait for.
fn cause(node: &Node) -> Option<String> {
    let status = node.status("u1")?;
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|c| c.type_ == READY_TO_START)?.message.clone()
}

#[tokio::test(start_paused = true)]
async fn the_first_pull_of_an_image_is_reported_until_it_is_over() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::PullImage, Fault::Delay(MINUTE)).times(1));
    let pod = pod("web", "u1", &["c"]);
    node.want([pod.edited(|pod| pod.spec.as_mut().unwrap().containers[0].image = Some("large".to_owned()))]);
    let pulls = Some("pulling image \"large\" for container c".to_owned());
    node.until("the pull is reported", 2 * SECOND, |node| cause(node) == pulls).await;
    let status = node.status("u1").unwrap();
    let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [c]"));
    node.until("it runs", 2 * MINUTE, |node| node.phase("u1").as_deref() == Some("Running")).await;
    assert_eq!(cause(&node), None);
}

#[tokio::test(start_paused = true)]
async fn a_cause_in_other_words_changes_no_status() {
    let mut node = Node::new();
    let failed = |text: &str| Rule::new(Operation::RunSandbox, Fault::fail(text));
    let reported = |text: &str| Some(format!("no pod sandbox exists: Failed to create pod sandbox: {text}"));
    let (first, second) =
        (format!("{} has no network", "a".repeat(64)), format!("{} has no network", "b".repeat(64)));
    node.runtime.faults().add(failed(&first));
    node.want([pod("web", "u1", &["c"])]);
    node.until("the cause is reported", 2 * SECOND, |node| cause(node) == reported(&first)).await;
    node.runtime.faults().clear();
    node.runtime.faults().add(failed(&second));
    let tries = node.calls_of("u1", Operation::RunSandbox).len();
    sleep(MINUTE).await;
    assert!(node.calls_of("u1", Operation::RunSandbox).len() > tries);
    assert_eq!(cause(&node), reported(&first));
    node.runtime.faults().clear();
    node.runtime.faults().add(failed("no room"));
    node.until("another cause is reported", MINUTE, |node| cause(node) == reported("no room")).await;
    node.runtime.faults().clear();
    node.until("it runs", MINUTE, |node| node.phase("u1").as_deref() == Some("Running")).await;
    assert_eq!(cause(&node), None);
}

/// The reported state of a container.
fn state(node: &Node, container: &str) -> ContainerState {
    let status = node.status("u1").unwrap_or_default();
    let mut all = status.container_statuses.iter().flatten();
    all.find(|c| c.name == container).and_then(|c| c.state.clone()).unwrap_or_default()
}

fn exit_code(node: &Node, container: &str) -> Option<i32> {
    state(node, container).terminated.map(|ended| ended.exit_code)
}

/// A pod whose second container has an image whose pull never finishes.
fn pulls_for_ever(node: &Node, policy: &str) -> Arc<AdmittedPod> {
    let pod = pod_with("web", "u1", policy, &["a", "b"]);
    node.runtime.faults().add(Rule::new(Operation::PullImage, Fault::Hang));
    pod.edited(|pod| pod.spec.as_mut().unwrap().containers[1].image = Some("large".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_an_image_blocks_no_status() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut node = Node::new();
        node.runtime.script("a", Script::exits(20 * SECOND, 3));
        node.want([pulls_for_ever(&node, policy)]);
        let is_up = |node: &Node| state(node, "a").running.is_some();
        node.until("the first one is reported to run", 2 * SECOND, is_up).await;
        assert!(
            matches!(node.activity("u1"), Some(Activity::PullingImage(pull)) if pull.owner.to_string() == "container b")
        );
        sleep(18 * SECOND).await;
        assert!(is_up(&node));
        node.until("its end is reported", 4 * SECOND, |node| exit_code(node, "a") == Some(3)).await;
        assert!(matches!(node.activity("u1"), Some(Activity::PullingImage(_))), "it pulls still");
        assert_eq!(node.phase("u1").as_deref(), Some("Pending"), "the second one never ran");
        assert_eq!(
            state(&node, "b").waiting.and_then(|waits| waits.reason).as_deref(),
            Some("ContainerCreating")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_pod_is_reported_while_its_worker_waits_for_an_image() {
    let mut node = Node::new();
    let pod = pulls_for_ever(&node, "Always");
    node.want([pod.clone()]);
    let pulls = |node: &Node| matches!(node.activity("u1"), Some(Activity::PullingImage(_)));
    node.until("it pulls", 2 * SECOND, pulls).await;
    node.want([pod.edited(|pod| pod.metadata.generation = Some(7))]);
    let is_reported =
        |node: &Node| node.status("u1").is_some_and(|status| status.observed_generation == Some(7));
    node.until("the new generation is reported", SECOND, is_reported).await;
    node.readdress(Some("192.0.2.9"));
    let is_reported =
        |node: &Node| node.status("u1").is_some_and(|s| s.host_ip.as_deref() == Some("192.0.2.9"));
    node.until("the new address is reported", SECOND, is_reported).await;
    assert!(pulls(&node));
}

#[tokio::test(start_paused = true)]
async fn a_long_stop_blocks_no_status() {
    let mut node = Node::new();
    node.runtime.script("a", Script::forever().on_term(OnTerm::Exits { after: SECOND, code: 4 }));
    node.runtime.script("b", Script::forever().on_term(OnTerm::Ignores));
    node.want([pod("web", "u1", &["a", "b"])]);
    node.until("it runs", 5 * SECOND, |node| node.phase("u1").as_deref() == Some("Running")).await;
    node.want([]);
    node.until("one end is reported", 4 * SECOND, |node| exit_code(node, "a") == Some(4)).await;
    assert!(state(&node, "b").running.is_some() && node.reported()[0].terminating_since.is_some());
}

/// A container with a changed definition is restarted independent of its policy, so it must not be reported as terminated.
#[tokio::test(start_paused = true)]
async fn a_replaced_container_is_never_reported_as_terminated_for_good() {
    for policy in ["OnFailure", "Never"] {
        let mut node = Node::new();
        node.runtime.script("a", Script::forever().on_term(OnTerm::Exits { after: SECOND, code: 0 }));
        node.runtime.script("b", Script::forever().on_term(OnTerm::Exits { after: 10 * SECOND, code: 0 }));
        node.runtime.add_image("next:latest");
        let pod = pod_with("web", "u1", policy, &["a", "b"]);
        node.want([pod.clone()]);
        node.until("it runs", 5 * SECOND, |node| node.phase("u1").as_deref() == Some("Running")).await;
        node.want([pod.edited(|pod| {
            for container in &mut pod.spec.as_mut().unwrap().containers {
                container.image = Some("next".to_owned());
            }
        })]);
        let is_anew = |node: &Node| node.running("u1") == [("a".to_owned(), 1), ("b".to_owned(), 1)];
        for _ in 0..2000 {
            let phase = node.phase("u1");
            assert!(!matches!(phase.as_deref(), Some("Succeeded" | "Failed")), "{policy}: {phase:?}");
            assert_eq!((exit_code(&node, "a"), exit_code(&node, "b")), (None, None), "{policy}");
            sleep(Duration::from_millis(10)).await;
        }
        assert!(is_anew(&node), "{}", node.picture());
        node.until("it is reported to run", 5 * SECOND, |node| {
            node.phase("u1").as_deref() == Some("Running")
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_stuck_pod_is_repeated() {
    let reported = Arc::new(Mutex::new(0));
    let count = reported.clone();
    let mut node = Node::with(16, move |context| {
        let count = count.clone();
        let events =
            Arc::new(move |_: &_, _: Option<&hostlet_pod::ContainerRef>, event: &hostlet_base::PodEvent| {
                *count.lock() += u32::from(event.reason == "FailedCreatePodSandBox");
            });
        let reports = ReportSinks { events, ..context.reports };
        Arc::new(WorkerContext { reports, ..context })
    });
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::fail("no")));
    node.want([pod("stuck", "u1", &["c"])]);
    sleep(60 * MINUTE).await;
    let first_hour = *reported.lock();
    // Not more often than the attempts.
    assert!((10..=360).contains(&first_hour), "{first_hour}");
    sleep(60 * MINUTE).await;
    assert!(*reported.lock() >= first_hour + 10);
}

/// A daemon that starts without the API server knows a pod's status from its admission.
#[tokio::test(start_paused = true)]
async fn the_servers_status_is_used_as_soon_as_it_is_known() {
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
    node.until("the earlier daemon's status is reported", 5 * SECOND, goes_on).await;
    assert_eq!(node.phase("u1").as_deref(), Some("Running"));
}
