//! Pods with image volumes on an in-memory node.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateWaiting, ContainerStatus};
use serde_json::json;

use hostlet_image::PullLimits;
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_observe::status::{Activity, ImageOwner, ImagePull, READY_TO_START};
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::fake::{Fault, Pull, Rule, Script};
use hostlet_runtime::cri::{Operation, Version};
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(30);

/// A pod `u` whose container `a` mounts the image `model:1`, and whose container `b` does not.
fn with_model(sub_path: &str) -> Arc<AdmittedPod> {
    pod("p", "u", &["a", "b"]).edited(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        let volume =
            json!([{"name": "model", "image": {"reference": "model:1", "pullPolicy": "IfNotPresent"}}]);
        spec.volumes = serde_json::from_value(volume).unwrap();
        let mount = json!([{"name": "model", "mountPath": "/model", "subPath": sub_path}]);
        spec.containers[0].volume_mounts = serde_json::from_value(mount).unwrap();
        pod.metadata.annotations.get_or_insert_default().insert("team".to_owned(), "ml".to_owned());
    })
}

fn node(runtime_version: &str) -> Node {
    let node = Node::new();
    node.runtime.set_version(Version {
        runtime_name: "containerd".to_owned(),
        runtime_version: runtime_version.to_owned(),
        api_version: "v1".to_owned(),
    });
    node
}

fn of_model() -> ImagePull {
    ImagePull { owner: ImageOwner::Volume("model".to_owned()), image: "model:1".to_owned() }
}

fn pulling_model() -> Activity {
    Activity::PullingImage(of_model())
}

fn status_of(node: &Node, name: &str) -> Option<ContainerStatus> {
    let statuses = node.status("u")?.container_statuses.clone().unwrap_or_default();
    statuses.into_iter().find(|status| status.name == name)
}

fn waiting(node: &Node, name: &str) -> Option<ContainerStateWaiting> {
    status_of(node, name)?.state?.waiting
}

fn pull(node: &Node, seconds: u32, error: Option<&str>) {
    node.runtime.script_pull("model:1", Pull { latency: seconds * SECOND, error: error.map(str::to_owned) });
}

#[tokio::test(start_paused = true)]
async fn an_image_is_pulled_for_its_volume_and_mounted_by_the_runtime() {
    let mut node = node("2.4.2");
    pull(&node, 5, None);
    node.want([with_model("weights")]);
    node.until("it is pulled", SOON, |node| node.activity("u") == Some(pulling_model())).await;
    node.until("both run", SOON, |node| node.running("u").len() == 2).await;
    assert_eq!((node.events_of("u", "Pulling"), node.events_of("u", "Failed")), (1, 0));

    let containers = node.containers();
    let mounts = |name: &str| {
        let id = containers.iter().find(|seen| seen.name == name).unwrap().id.as_str().into();
        let mounts = node.runtime.container_config(&id).unwrap().mounts;
        mounts.into_iter().filter(|mount| mount.image.is_some()).collect::<Vec<_>>()
    };
    let mounted = mounts("a");
    let image = mounted[0].image.as_ref().unwrap();
    let id = node.runtime.wire_image("model:1").unwrap().id;
    assert_eq!((&image.image, image.user_specified_image.as_str()), (&id, "model:1"));
    assert_eq!(image.annotations.get("team").map(String::as_str), Some("ml"));
    let mount = (mounted[0].container_path.as_str(), mounted[0].host_path.as_str(), mounted[0].readonly);
    assert_eq!((mount, mounted[0].image_sub_path.as_str()), (("/model", "", true), "weights"));
    assert!(mounts("b").is_empty());
    let reported = |node: &Node| {
        let mount = status_of(node, "a")?.volume_mounts?.remove(0);
        Some(mount.volume_status?.image?.image_ref)
    };
    node.until("it is reported", SOON, |node| reported(node).as_ref() == Some(&id)).await;

    // A restart of a container needs no other pull, and a new daemon does nothing.
    let a = containers.iter().find(|seen| seen.name == "a").unwrap().id.as_str().into();
    node.runtime.exit_container(&a, 1);
    node.until("it was restarted", SOON, |node| node.running("u").contains(&("a".to_owned(), 1))).await;
    let pulls = node.runtime.calls_of(Operation::PullImage).len();
    node.stop().await;
    node.boot();
    tokio::time::sleep(SOON).await;
    assert_eq!((pulls, node.runtime.calls_of(Operation::PullImage).len()), (1, 1));
    assert_eq!(node.containers().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_image_is_pulled_beside_the_sandbox_and_init_containers() {
    let mut node = node("2.4.2");
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(3 * SECOND)));
    node.runtime.script("init", Script::exits(4 * SECOND, 0));
    pull(&node, 6, None);
    node.want([with_model("").edited(|pod| {
        let init = json!([{"name": "init", "image": "img", "imagePullPolicy": "IfNotPresent"}]);
        pod.spec.as_mut().unwrap().init_containers = serde_json::from_value(init).unwrap();
    })]);
    let began = Instant::now();
    sleep(2 * SECOND).await;
    let doing = node.doing("u").unwrap();
    assert_eq!(doing.activity, Activity::MakingSandbox);
    assert_eq!(doing.pulling, [of_model()].into());
    node.until("both run", SOON, |node| node.running("u").len() == 2).await;
    let took = began.elapsed();
    assert!(took >= 7 * SECOND && took < 9 * SECOND, "{took:?}");
    assert_eq!(node.runtime.calls_of(Operation::PullImage).len(), 1, "the early pull counts for the start");
    let pulls = node.timeline("u").into_iter().find(|entry| entry.step == TimelineStep::PullVolume);
    let pulled = pulls.map(|pull| (pull.detail, pull.took_ms));
    assert_eq!(pulled, Some(("model: model:1".to_owned(), Some(6000))));
}

#[tokio::test(start_paused = true)]
async fn a_container_waits_only_for_the_volumes_that_it_mounts() {
    let mut node = node("2.4.2");
    pull(&node, 5, None);
    node.want([with_model("").edited(|pod| pod.spec.as_mut().unwrap().containers.reverse())]);
    node.until("b runs", SECOND, |node| node.running("u") == [("b".to_owned(), 0)]).await;
    node.until("the other one pulls", SOON, |node| node.activity("u") == Some(pulling_model())).await;
    let message = |node: &Node| {
        let conditions = node.status("u")?.conditions.clone()?;
        conditions.into_iter().find(|condition| condition.type_ == READY_TO_START)?.message
    };
    let expected = "pulling image \"model:1\" for volume model";
    node.until("the pod says so", SECOND, |node| message(node).as_deref() == Some(expected)).await;
    node.until("both run", SOON, |node| node.running("u").len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_has_one_pull_for_all_containers_that_start_with_it() {
    let mut node = node("2.4.2");
    pull(&node, 1, None);
    node.want([with_model("").edited(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[1].volume_mounts = spec.containers[0].volume_mounts.clone();
        spec.volumes.as_mut().unwrap()[0].image.as_mut().unwrap().pull_policy = Some("Always".to_owned());
    })]);
    node.until("both run", SOON, |node| node.running("u").len() == 2).await;
    let pulls = |node: &Node| node.runtime.calls_of(Operation::PullImage).len();
    assert_eq!((pulls(&node), node.events_of("u", "Pulling")), (1, 1));
    let a = node.containers().into_iter().find(|seen| seen.name == "a").unwrap().id;
    node.runtime.exit_container(&a.as_str().into(), 1);
    node.until("it was restarted", SOON, |node| node.running("u").contains(&("a".to_owned(), 1))).await;
    assert_eq!(pulls(&node), 2, "each start under Always has a pull");
}

#[tokio::test(start_paused = true)]
async fn the_pulls_of_volumes_keep_to_the_limits() {
    let mut node = node("2.4.2");
    node.stop().await;
    node.pull_limits = PullLimits { serialize: true, max_parallel: None, qps: 0, burst: 0 };
    node.boot();
    for image in ["model:1", "a:1", "b:1"] {
        node.runtime.script_pull(image, Pull { latency: SECOND, error: None });
    }
    node.want([with_model("").edited(|pod| {
        for container in &mut pod.spec.as_mut().unwrap().containers {
            container.image = Some(format!("{}:1", container.name));
        }
    })]);
    node.until("both run", SOON, |node| node.running("u").len() == 2).await;
    let pulled = node.runtime.calls_of(Operation::PullImage).into_iter().map(|call| call.target);
    assert_eq!(pulled.collect::<Vec<_>>(), ["model:1", "a:1", "b:1"]);
    assert_eq!(node.runtime.peak_in_flight(&[Operation::PullImage]), 1);
}

#[tokio::test(start_paused = true)]
async fn only_the_containers_that_mount_a_missing_image_wait() {
    let mut node = node("2.4.2");
    pull(&node, 0, Some("no such host"));
    node.want([with_model("")]);
    node.until("b runs", SOON, |node| node.running("u") == [("b".to_owned(), 0)]).await;
    node.until("a shows why", SOON, |node| waiting(node, "a").is_some_and(|w| w.message.is_some())).await;
    let shown = waiting(&node, "a").unwrap();
    assert_eq!(
        (shown.reason.as_deref(), shown.message.as_deref()),
        (Some("ErrImagePull"), Some("no such host"))
    );
    let backs_off = |node: &Node| {
        waiting(node, "a").and_then(|shown| shown.reason).as_deref() == Some("ImagePullBackOff")
    };
    node.until("it backs off", SOON, backs_off).await;
    let message = waiting(&node, "a").unwrap().message.unwrap();
    assert_eq!(message, "Back-off pulling image \"model:1\": ErrImagePull: no such host");
    pull(&node, 0, None);
    node.until("both run", 10 * SOON, |node| node.running("u").len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_mount_it_is_not_asked_to() {
    for (version, sub_path, expected) in [
        (
            "1.6.20",
            "",
            "volume \"model\" is an image: containerd 1.6.20 does not support it; update it to 2.1 or newer",
        ),
        (
            "2.1.4",
            "weights",
            "the subPath of volume \"model\" is in an image: containerd 2.1.4 does not support it; update it to 2.2 or newer",
        ),
    ] {
        let mut node = node(version);
        node.want([with_model(sub_path)]);
        node.until("a shows why", SOON, |node| waiting(node, "a").is_some_and(|w| w.message.is_some())).await;
        let shown = waiting(&node, "a").unwrap();
        assert_eq!(shown.reason.as_deref(), Some("CreateContainerConfigError"));
        assert_eq!(shown.message.as_deref(), Some(expected));
        assert_eq!(node.running("u"), [("b".to_owned(), 0)]);
    }
    let mut node = node("2.1.4");
    node.want([with_model("")]);
    node.until("both run", SOON, |node| node.running("u").len() == 2).await;
}
