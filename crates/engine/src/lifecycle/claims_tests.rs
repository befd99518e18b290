//! Pods with claimed devices on an in-memory node: nothing of them runs before the devices are prepared, and their status does not end
//! before these are unprepared.

use std::sync::Arc;
use std::time::Duration;

use hostlet_dra::Operation;
use hostlet_dra::fake::{FakeDevices, Outcome};
use hostlet_observe::status::Activity;
use hostlet_pod::AdmittedPod;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::json;
use tokio::time::sleep;

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Far less than any back-off.
const AT_ONCE: Duration = Duration::from_millis(100);

const DRIVER: &str = "gpu.example.com";

/// A pod whose first container uses the claim `gpu`.
fn claiming() -> Arc<AdmittedPod> {
    let pod = pod("web", "u1", &["c", "other"]);
    let mut spec = serde_json::to_value(pod.spec()).unwrap();
    spec["resourceClaims"] = json!([{"name": "device", "resourceClaimName": "gpu"}]);
    spec["containers"][0]["resources"] = json!({"claims": [{"name": "device"}]});
    pod.edited(|pod| pod.spec = Some(serde_json::from_value::<PodSpec>(spec).unwrap()))
}

/// A node without its driver yet. The claim is reserved for the pod.
fn node() -> (Node, FakeDevices) {
    let mut node = Node::new();
    let (devices, claims, task) = FakeDevices::new(node.root(), DRIVER);
    devices.api.set("gpu", "g1", &[DRIVER], &["u1"]);
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(tokio_util::sync::CancellationToken::new()));
    node.claims = claims;
    (node, devices)
}

/// The last failure of the pod's work.
fn failure(node: &Node) -> Option<String> {
    let Some(Activity::Retrying { error }) = node.activity("u1") else { return None };
    error
}

/// The CDI devices of the newest container of this name.
fn cdi_devices(node: &Node, name: &str) -> Vec<String> {
    let newest = node.containers().into_iter().rfind(|container| container.name == name).unwrap();
    let config = node.runtime.container_config(&newest.id.as_str().into()).unwrap();
    config.cdi_devices.into_iter().map(|device| device.name).collect()
}

/// How often the driver was called to do this.
fn calls(devices: &FakeDevices, operation: Operation) -> usize {
    devices.driver.calls().iter().filter(|(made, _)| *made == operation).count()
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_once_its_driver_has_prepared_its_devices() {
    let (mut node, devices) = node();
    node.stop().await;
    node.boot();
    node.want([claiming()]);
    let expected = "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not registered";
    node.until("it says what it waits for", SECOND, |node| failure(node).as_deref() == Some(expected)).await;
    sleep(MINUTE).await;
    assert!(!node.has("u1") && node.events_of("u1", "FailedPrepareDynamicResources") >= 1);
    devices.driver.next(Outcome::Fails);
    devices.register();
    node.until("the driver fails", SECOND, |node| {
        failure(node).is_some_and(|failure| failure.contains("NodePrepareResources: rpc error"))
    })
    .await;
    assert!(!node.has("u1"));
    node.until("it runs", 6 * MINUTE, |node| node.running("u1").len() == 2).await;
    assert_eq!(cdi_devices(&node, "c"), ["gpu.example.com/device=g1"]);
    assert_eq!(cdi_devices(&node, "other"), Vec::<String>::new());

    // A new daemon, and a container that starts again, need no driver.
    devices.deregister();
    node.stop().await;
    node.boot();
    node.until("it knows the pod", MINUTE, |node| node.status("u1").is_some()).await;
    let running = node.containers().into_iter().find(|container| container.name == "c").unwrap();
    node.restart("u1", &running.id).await;
    node.until("it restarts", MINUTE, |node| node.running("u1").contains(&("c".to_owned(), 1))).await;
    assert_eq!(cdi_devices(&node, "c"), ["gpu.example.com/device=g1"]);
    assert_eq!(calls(&devices, Operation::Prepare), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_ends_once_its_driver_has_unprepared_its_devices() {
    let (mut node, devices) = node();
    node.stop().await;
    node.boot();
    devices.register();
    node.want([claiming()]);
    node.until("it runs", MINUTE, |node| node.running("u1").len() == 2).await;
    devices.deregister();
    node.want([]);
    let expected = "unprepare dynamic resources: DRA driver gpu.example.com is not registered";
    node.until("it says what it waits for", MINUTE, |node| {
        node.running("u1").is_empty() && failure(node).is_some_and(|failure| failure.contains(expected))
    })
    .await;
    sleep(5 * MINUTE).await;
    assert!(node.activity("u1").is_some() && node.phase("u1").as_deref() == Some("Running"));
    assert_eq!(devices.driver.prepared().len(), 1);
    devices.register();
    node.until("it ends", SECOND, |node| !node.has("u1") && devices.driver.prepared().is_empty()).await;
    assert_eq!(calls(&devices, Operation::Unprepare), 1);
}

#[tokio::test(start_paused = true)]
async fn the_claims_of_a_pod_that_was_removed_without_a_daemon_are_unprepared() {
    let (mut node, devices) = node();
    node.stop().await;
    node.boot();
    devices.register();
    node.want([claiming()]);
    node.until("it runs", MINUTE, |node| node.running("u1").len() == 2).await;
    node.stop().await;
    node.reboot();
    node.want([]);
    node.boot();
    node.until("they are", 10 * MINUTE, |_| devices.driver.prepared().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_removed_while_it_is_prepared_leaves_nothing() {
    let (mut node, devices) = node();
    node.stop().await;
    node.boot();
    devices.register();
    devices.driver.next(Outcome::Late);
    node.want([claiming()]);
    node.until("it is prepared", SECOND, |_| calls(&devices, Operation::Prepare) == 1).await;
    sleep(AT_ONCE).await;
    node.want([]);
    node.until("it is unprepared", MINUTE, |_| calls(&devices, Operation::Unprepare) == 1).await;
    assert_eq!((devices.driver.prepared().len(), devices.driver.wrong().len()), (0, 0));
    assert!(!node.has("u1"));
}
