//! When images are pulled: beside the sandbox, beside init containers, within the limits, and once for each start.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use hostlet_image::PullLimits;
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_observe::status::{Activity, ImageOwner, ImagePull};
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Pull, RecordedCall, Rule, Script, What};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod_with};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn container(name: &str, image: &str, policy: &str) -> Value {
    json!({"name": name, "image": image, "imagePullPolicy": policy})
}

fn sidecar(name: &str, image: &str) -> Value {
    json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always"})
}

/// A pod `u` with these init and main containers.
fn pod(inits: Value, mains: Value) -> Arc<AdmittedPod> {
    pod_with("p", "u", "Always", &[]).edited(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        spec.init_containers = serde_json::from_value(inits).unwrap();
        spec.containers = serde_json::from_value(mains).unwrap();
    })
}

/// A pod whose main container needs an image that is not present, after an init container whose image is.
fn pod_after_init() -> Arc<AdmittedPod> {
    pod(
        json!([container("init", "img", "IfNotPresent")]),
        json!([container("main", "slow:1", "IfNotPresent")]),
    )
}

fn takes(seconds: u64) -> Pull {
    Pull { latency: Duration::from_secs(seconds), error: None }
}

fn pulls(node: &Node) -> Vec<RecordedCall> {
    node.runtime.calls_of(Operation::PullImage)
}

/// The pulled images without their tags, in the order of the pulls.
fn pulled(node: &Node) -> Vec<String> {
    let name = |call: &RecordedCall| call.target.split(':').next().unwrap().to_owned();
    pulls(node).iter().map(name).collect()
}

/// How often a container was started.
fn starts(node: &Node, name: &str) -> usize {
    let history = node.runtime.history_after(0);
    history.iter().filter(|h| h.what == What::Started && h.name == name).count()
}

fn has_started(node: &Node, name: &str) -> bool {
    starts(node, name) > 0
}

fn waits_for(node: &Node, name: &str) -> Option<String> {
    let status = node.status("u")?;
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let its = all.find(|status| status.name == name)?;
    its.state.as_ref()?.waiting.as_ref()?.reason.clone()
}

#[tokio::test(start_paused = true)]
async fn a_pull_goes_on_beside_the_sandbox() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(3 * SECOND)));
    node.runtime.script_pull("slow:1", takes(5));
    node.want([pod(json!([]), json!([container("main", "slow:1", "IfNotPresent")]))]);
    let began = Instant::now();
    sleep(2 * SECOND).await;
    let doing = node.doing("u").unwrap();
    assert_eq!(doing.activity, Activity::MakingSandbox);
    let owner = ImageOwner::Container("main".to_owned());
    assert_eq!(doing.pulling, [ImagePull { owner, image: "slow:1".to_owned() }].into());
    sleep(2 * SECOND).await;
    let doing = node.doing("u").unwrap();
    assert!(matches!(doing.activity, Activity::PullingImage(_)), "{doing:?}");
    assert_eq!(waits_for(&node, "main").as_deref(), Some("ContainerCreating"));
    node.until("it runs", MINUTE, |node| has_started(node, "main")).await;
    let took = began.elapsed();
    assert!(took >= 5 * SECOND && took < 6 * SECOND, "{took:?}");
    assert!(node.doing("u").unwrap().pulling.is_empty());

    let timeline = node.timeline("u");
    let entry = |step| timeline.iter().find(|entry| entry.step == step).unwrap();
    let (pull, sandbox) = (entry(TimelineStep::Pull), entry(TimelineStep::Sandbox));
    assert_eq!((pull.detail.as_str(), pull.took_ms), ("main: slow:1", Some(5000)));
    assert_eq!(sandbox.took_ms, Some(3000));
    let between = sandbox.at.duration_since(pull.at);
    assert!(between.as_secs() == 0, "they begin together: {timeline:?}");
    let events = ["Pulling", "Pulled", "Created", "Started"];
    assert_eq!(node.events_about("u", "main"), events);
}

#[tokio::test(start_paused = true)]
async fn a_pull_needs_no_network() {
    let mut node = Node::new();
    node.status.send_modify(|status| status.as_mut().unwrap().network.status = false);
    node.want([pod(json!([]), json!([container("main", "slow:1", "IfNotPresent")]))]);
    node.until("it is pulled", SECOND, |node| pulled(node) == ["slow"]).await;
    sleep(MINUTE).await;
    node.set_runtime_ready();
    node.until("it runs", MINUTE, |node| has_started(node, "main")).await;
    assert_eq!(pulls(&node).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn images_are_pulled_while_an_init_container_runs() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(10 * SECOND, 0));
    for image in ["proxy:1", "main:1"] {
        node.runtime.script_pull(image, takes(8));
    }
    node.want([pod(
        json!([container("init", "img", "IfNotPresent"), sidecar("proxy", "proxy:1")]),
        json!([container("main", "main:1", "Always")]),
    )]);
    let began = Instant::now();
    sleep(2 * SECOND).await;
    assert_eq!(pulled(&node), ["proxy", "main"]);
    assert_eq!(waits_for(&node, "main").as_deref(), Some("PodInitializing"));
    assert_eq!((node.activity("u"), node.doing("u").unwrap().pulling.len()), (Some(Activity::Idle), 2));
    node.until("all run", MINUTE, |node| has_started(node, "main")).await;
    let took = began.elapsed();
    assert!(took >= 10 * SECOND && took < 12 * SECOND, "{took:?}");
    sleep(MINUTE).await;
    assert_eq!(pulls(&node).len(), 2, "the early pull counts for the start");
    assert_eq!(node.events_about("u", "main"), ["Pulling", "Pulled", "Created", "Started"]);
    assert_eq!(node.events_about("u", "init"), ["Pulled", "Created", "Started"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_present_is_reported_when_it_is_used() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(10 * SECOND, 0));
    let main = container("main", "img", "IfNotPresent");
    let never = container("never", "none:1", "Never");
    node.want([pod(json!([container("init", "img", "IfNotPresent")]), json!([main, never]))]);
    sleep(5 * SECOND).await;
    assert!(node.events_about("u", "main").is_empty() && node.events_about("u", "never").is_empty());
    node.until("it waits", MINUTE, |n| waits_for(n, "never").as_deref() == Some("ErrImageNeverPull")).await;
    assert_eq!(node.events_about("u", "main"), ["Pulled", "Created", "Started"]);
    assert_eq!(node.events_about("u", "never"), ["ErrImageNeverPull", "Failed"]);
}

#[tokio::test(start_paused = true)]
async fn pulls_keep_to_the_limits_and_to_the_order_of_the_containers() {
    let limits = [
        (PullLimits { serialize: true, max_parallel: None, qps: 0, burst: 0 }, 1),
        (PullLimits { serialize: false, max_parallel: NonZeroUsize::new(2), qps: 0, burst: 0 }, 2),
    ];
    for (limits, most) in limits {
        let mut node = Node::new();
        node.stop().await;
        node.pull_limits = limits;
        node.boot();
        node.runtime.script("i1", Script::exits(SECOND, 0));
        let names = ["i1", "i2", "m1", "m2"];
        for name in names {
            node.runtime.script_pull(&format!("{name}:1"), takes(2));
        }
        node.want([pod(
            json!([container("i1", "i1:1", "IfNotPresent"), sidecar("i2", "i2:1")]),
            json!([container("m1", "m1:1", "Always"), container("m2", "m2:1", "IfNotPresent")]),
        )]);
        node.until("all run", MINUTE, |node| has_started(node, "m2")).await;
        assert_eq!(pulled(&node), names);
        assert_eq!(node.runtime.peak_in_flight(&[Operation::PullImage]), most);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_early_pull_shows_when_the_container_would_start() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(5 * SECOND, 0));
    let broken = Pull { latency: SECOND, error: Some("no such host".to_owned()) };
    node.runtime.script_pull("slow:1", broken);
    node.want([pod_after_init()]);
    sleep(3 * SECOND).await;
    // A step in between finds that it backs off.
    assert_eq!(node.events_about("u", "main"), ["Pulling", "Failed", "BackOff"]);
    assert_eq!(waits_for(&node, "main").as_deref(), Some("PodInitializing"));
    assert_eq!(node.running("u"), [("init".to_owned(), 0)]);
    assert_eq!(node.activity("u"), Some(Activity::Idle));
    node.until("it waits", 5 * SECOND, |n| waits_for(n, "main").as_deref() == Some("ImagePullBackOff")).await;
    assert_eq!(pulls(&node).len(), 1);
    node.runtime.script_pull("slow:1", takes(1));
    node.until("it runs", MINUTE, |node| has_started(node, "main")).await;
    assert_eq!((pulls(&node).len(), starts(&node, "init")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_fails_beside_the_sandbox_is_reported_once() {
    let mut node = Node::new();
    node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(3 * SECOND)));
    let broken = Pull { latency: SECOND, error: Some("no such host".to_owned()) };
    node.runtime.script_pull("slow:1", broken);
    node.want([pod(json!([]), json!([container("main", "slow:1", "IfNotPresent")]))]);
    sleep(2 * SECOND).await;
    assert_eq!(node.events_about("u", "main"), ["Pulling", "Failed"]);
    assert_eq!(waits_for(&node, "main").as_deref(), Some("ContainerCreating"));
    node.until("it waits", 5 * SECOND, |n| waits_for(n, "main").as_deref() == Some("ErrImagePull")).await;
    assert_eq!(node.events_about("u", "main"), ["Pulling", "Failed", "Failed"]);
    assert_eq!(pulls(&node).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_pulls_of_a_killed_pod_are_cancelled() {
    let never = Pull { latency: Duration::MAX, error: None };
    for is_in_sandbox in [false, true] {
        let mut node = Node::new();
        if !is_in_sandbox {
            node.runtime.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(MINUTE)));
        }
        node.runtime.script("init", Script::exits(MINUTE, 0));
        node.runtime.script_pull("slow:1", never.clone());
        node.want([pod_after_init()]);
        node.until("it is pulled", SECOND, |node| pulls(node).len() == 1).await;
        sleep(SECOND).await;
        assert_eq!(has_started(&node, "init"), is_in_sandbox);
        let killed = Instant::now();
        node.want([]);
        node.until("it is cancelled", MINUTE, |node| pulls(node)[0].ended_at.is_some()).await;
        // A call that makes something has four seconds to end.
        assert!(killed.elapsed() < 5 * SECOND, "{:?}", killed.elapsed());
        node.until("nothing is left", 3 * MINUTE, |node| !node.has("u")).await;
        let pull = node.timeline("u").into_iter().find(|entry| entry.step == TimelineStep::Pull);
        assert!(pull.is_some_and(|pull| pull.took_ms.is_some()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_daemon_cancels_its_pulls_and_the_next_one_repeats_nothing_that_is_done() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(MINUTE, 0));
    node.runtime.script_pull("fast:1", takes(1));
    node.runtime.script_pull("slow:1", takes(20));
    let mains =
        json!([container("fast", "fast:1", "IfNotPresent"), container("slow", "slow:1", "IfNotPresent")]);
    node.want([pod(json!([container("init", "img", "IfNotPresent")]), mains)]);
    sleep(10 * SECOND).await;
    let stopped = Instant::now();
    node.end().await;
    assert!(stopped.elapsed() < SECOND && pulls(&node)[1].ended_at.is_some());
    node.boot();
    sleep(SECOND).await;
    assert_eq!(pulled(&node), ["fast", "slow", "slow"]);
    node.until("all run", 2 * MINUTE, |node| has_started(node, "slow")).await;
    assert_eq!((pulls(&node).len(), starts(&node, "init"), starts(&node, "fast")), (3, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn containers_with_one_image_share_a_pull() {
    let mut node = Node::new();
    node.runtime.script_pull("slow:1", takes(3));
    node.want([pod(
        json!([]),
        json!([container("a", "slow:1", "Always"), container("b", "slow:1", "IfNotPresent")]),
    )]);
    node.until("both run", MINUTE, |node| node.running("u").len() == 2).await;
    assert_eq!(pulls(&node).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_start_under_always_has_a_pull_of_its_own() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(5 * SECOND, 0));
    node.runtime.script("main", Script::exits(SECOND, 1));
    node.want([pod(
        json!([container("init", "img", "IfNotPresent")]),
        json!([container("main", "other:1", "Always")]),
    )]);
    for times in 1..4 {
        node.until("it starts", 2 * MINUTE, |node| starts(node, "main") == times).await;
        assert_eq!(pulls(&node).len(), times);
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_image_replaces_the_pull() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(20 * SECOND, 0));
    node.runtime.script_pull("slow:1", Pull { latency: Duration::MAX, error: None });
    node.want([pod_after_init()]);
    sleep(2 * SECOND).await;
    node.want([pod_after_init().edited(|pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some("other:1".to_owned());
    })]);
    node.until("another image is pulled", 5 * SECOND, |node| pulled(node) == ["slow", "other"]).await;
    assert!(pulls(&node)[0].ended_at.is_some());
    node.until("it runs", MINUTE, |node| has_started(node, "main")).await;
    assert_eq!((pulls(&node).len(), starts(&node, "init")), (2, 1));
}
