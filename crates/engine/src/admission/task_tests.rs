//! The task, from its sources to what it publishes.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hostlet_base::node::{NodePressure, NodeReadError, Pressure};
use hostlet_base::testing::resource_list;
use hostlet_base::{CONFIG_SOURCE_ANNOTATION, Quantity};
use hostlet_observe::status::PodStatusEntry;
use hostlet_pod::{ApiPod, PodKill, PodPhase, StatusOverride};
use hostlet_store::Store;
use hostlet_telemetry::{Heartbeats, Metrics};
use k8s_openapi::api::core::v1::{Pod, PodStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::grants::GrantState;

/// The Node on an API server, and as this node last saw it.
struct FakeNode {
    stored: Mutex<Arc<Node>>,
    seen: watch::Sender<Option<Arc<Node>>>,
    /// How long each of the next reads waits before it fails.
    outages: Mutex<VecDeque<Duration>>,
    is_forbidden: Mutex<bool>,
}

impl FakeNode {
    fn new(node: Node) -> Self {
        let node = Arc::new(node);
        Self {
            seen: watch::Sender::new(Some(node.clone())),
            stored: Mutex::new(node),
            outages: Mutex::default(),
            is_forbidden: Mutex::default(),
        }
    }

    /// Somebody changes the Node, which this node does not see yet.
    fn store(&self, node: Node) {
        *self.stored.lock() = Arc::new(node);
    }

    /// This node sees the Node as it is stored.
    fn show(&self) {
        self.seen.send_replace(Some(self.stored.lock().clone()));
    }
}

impl NodeReader for FakeNode {
    fn read(&self) -> BoxFuture<'_, Result<(), NodeReadError>> {
        let reading = async {
            let outage = self.outages.lock().pop_front();
            if let Some(outage) = outage {
                tokio::time::sleep(outage).await;
                return Err(NodeReadError { retry_after: Duration::ZERO });
            }
            if !*self.is_forbidden.lock() {
                self.show();
            }
            Ok(())
        };
        reading.boxed()
    }
}

struct Harness {
    api: watch::Sender<ApiState>,
    status_cache: StatusCache,
    desired_pods: watch::Receiver<DesiredPods>,
    rejected: watch::Receiver<Vec<RejectedPod>>,
    events: Arc<Mutex<Vec<String>>>,
    node: Arc<FakeNode>,
    own_node: watch::Sender<OwnNode>,
    pressure: watch::Sender<NodePressure>,
    heartbeats: Heartbeats,
    metrics: Metrics,
    shutdown: watch::Sender<NodeShutdown>,
    evicted: watch::Sender<BTreeMap<PodUid, PodKill>>,
    grants: watch::Sender<GrantStates>,
    devices: watch::Sender<BTreeSet<String>>,
    granting: watch::Receiver<GrantRequests>,
    awaited: watch::Receiver<BTreeMap<PodUid, String>>,
    _manifests: watch::Sender<SourceState>,
    _running: DropGuard,
}

/// A node with 2 CPUs in a cluster, whose sources are ready.
fn harness() -> Harness {
    let (manifests_in, manifests) = watch::channel(SourceState { ready: true, ..SourceState::default() });
    let (api, api_out) = watch::channel(ApiState { ready: true, ..ApiState::default() });
    let node = Arc::new(FakeNode::new(Node { metadata: metadata("n1"), ..Node::default() }));
    let (desired_in, desired_pods) = watch::channel(DesiredPods::default());
    let (rejected_in, rejected) = watch::channel(Vec::new());
    let (status_cache, events) = (StatusCache::default(), Arc::new(Mutex::new(Vec::new())));
    let own_node = watch::Sender::new(OwnNode {
        allocatable: resource_list([("cpu", "2"), ("memory", "8Gi"), ("pods", "250")]),
        ..OwnNode::default()
    });
    let pressure = watch::Sender::default();
    let (shutdown, evicted) = (watch::Sender::default(), watch::Sender::default());
    let (grants, devices) = (watch::Sender::default(), watch::Sender::default());
    let (granting_in, granting) = watch::channel(Vec::new());
    let (awaited_in, awaited) = watch::channel(BTreeMap::new());
    let inputs = AdmissionInputs {
        manifests,
        api: api_out,
        own: NodeView { name: "n1".to_owned(), ..NodeView::default() },
        own_node: own_node.subscribe(),
        pressure: pressure.subscribe(),
        node: node.seen.subscribe(),
        reader: Some(node.clone()),
        status_cache: status_cache.clone(),
        allowed_unsafe_sysctls: Vec::new(),
        resize_limits: ResizeLimits::default(),
        runtime: watch::channel(None).1,
        shutdown: shutdown.subscribe(),
        own_pods: OwnPods::default(),
        evicted: evicted.subscribe(),
        grants: grants.subscribe(),
        devices: devices.subscribe(),
        has_static_policy: false,
    };
    let sink = events.clone();
    let (admitted, _) = AdmittedPods::new(Store::default());
    let outputs = AdmissionOutputs {
        desired_pods: desired_in,
        rejected: rejected_in,
        admitted,
        granting: granting_in,
        grant_metrics: GrantMetrics::default(),
        awaited: awaited_in,
        events: Arc::new(move |pod, _, event| sink.lock().push(format!("{} {}", pod.name, event.reason))),
        timeline: Timeline::default(),
        clock: WallClock::system(),
    };
    let (cancel, heartbeats, metrics) = (CancellationToken::new(), Heartbeats::default(), Metrics::default());
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(
        Admission::new(inputs, outputs)
            .counted_in(&metrics)
            .with_heartbeat(heartbeats.register("admission"))
            .run(cancel.clone()),
    );
    let (_manifests, _running) = (manifests_in, cancel.drop_guard());
    Harness {
        api,
        status_cache,
        desired_pods,
        rejected,
        events,
        node,
        own_node,
        pressure,
        heartbeats,
        metrics,
        shutdown,
        evicted,
        grants,
        devices,
        granting,
        awaited,
        _manifests,
        _running,
    }
}

fn pod(name: &str, cpu: &str, priority: i32) -> Arc<Pod> {
    let annotations = json!({CONFIG_SOURCE_ANNOTATION: "api"});
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "annotations": annotations});
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let spec = json!({"priority": priority, "containers": [container]});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// A pod for nodes with the label `disk: ssd`.
fn choosy(name: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(name, "100m", 0));
    let selector = [("disk".to_owned(), "ssd".to_owned())].into();
    pod.spec.as_mut().unwrap().node_selector = Some(selector);
    Arc::new(pod)
}

impl Harness {
    /// Labels the Node, which this node does not see yet.
    fn label(&self) {
        let labels = Some([("disk".to_owned(), "ssd".to_owned())].into());
        let node = Node { metadata: ObjectMeta { labels, ..metadata("n1") }, ..Node::default() };
        self.node.store(node);
    }

    /// The API server delivers the pod, with a new resource version.
    fn give(&self, pod: &Arc<Pod>, version: &str) {
        let given = ApiPod {
            pod: pod.clone(),
            status: Arc::new(PodStatus::default()),
            version: version.to_owned(),
            unsupported: Vec::new(),
        };
        self.api.send_modify(|state| drop(state.pods.insert(pod_uid(pod), Arc::new(given))));
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn desired_pods(&self) -> Vec<String> {
        self.desired_pods.borrow().pods.iter().map(|pod| pod_ref(pod).name.to_string()).collect()
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn status_updates_alone_publish_nothing() {
    let mut harness = harness();
    let (runs, greedy) = (pod("runs", "1", 0), pod("greedy", "5", 0));
    harness.give(&runs, "1");
    harness.give(&greedy, "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["runs"]);
    assert_eq!(harness.events(), ["greedy OutOfcpu"]);
    harness.desired_pods.mark_unchanged();
    harness.rejected.mark_unchanged();
    harness.give(&runs, "2");
    harness.give(&greedy, "2");
    harness.settle().await;
    assert!(!harness.desired_pods.has_changed().unwrap() && !harness.rejected.has_changed().unwrap());
    assert_eq!(harness.events(), ["greedy OutOfcpu"], "reported once");
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_is_admitted_when_the_preempted_pods_have_terminated() {
    let harness = harness();
    let (small, vital) = (pod("small", "1500m", 0), pod("vital", "1", 2_000_000_000));
    harness.give(&small, "1");
    harness.settle().await;
    harness.give(&vital, "1");
    harness.settle().await;
    assert_eq!(
        (harness.desired_pods(), harness.events()),
        (vec!["small".to_owned()], vec!["small Preempting".to_owned()])
    );
    assert!(harness.desired_pods.borrow().kills.contains_key("small"));
    let counted = "\nkubelet_preemptions{preemption_signal=\"cpu\"} 1\n";
    assert!(harness.metrics.encode().contains(counted), "{}", harness.metrics.encode());
    let preempted = harness.desired_pods.borrow().pods[0].clone();
    harness.status_cache.report(PodStatusEntry {
        pod: preempted,
        status: Arc::new(PodStatus::default()),
        terminating_since: None,
        lifecycle: LifecycleSummary::Terminated,
        has_released: false,
    });
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["small", "vital"]);
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_waits_no_longer_for_a_preempted_pod_that_cannot_be_stopped() {
    let harness = harness();
    harness.give(&pod("stuck", "1500m", 0), "1");
    harness.settle().await;
    harness.give(&pod("vital", "1", 2_000_000_000), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["stuck"]);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(harness.desired_pods(), ["stuck", "vital"]);
    assert!(harness.desired_pods.borrow().kills.contains_key("stuck"), "it goes on being stopped");
    harness.give(&pod("plain", "1", 0), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["stuck", "vital"], "its resources are not free");
}

#[tokio::test(start_paused = true)]
async fn a_label_set_just_before_the_pod_arrived_counts() {
    let harness = harness();
    harness.label();
    harness.give(&choosy("choosy"), "1");
    harness.settle().await;
    assert_eq!((harness.desired_pods(), harness.events()), (vec!["choosy".to_owned()], Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_taint_removed_just_before_the_pod_arrived_does_not_count() {
    let harness = harness();
    let taint = Taint { key: "k".to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
    let mut tainted = Node { metadata: metadata("n1"), ..Node::default() };
    tainted.spec.get_or_insert_default().taints = Some(vec![taint]);
    harness.node.store(tainted);
    harness.node.show();
    harness.settle().await;
    harness.node.store(Node { metadata: metadata("n1"), ..Node::default() });
    harness.give(&pod("late", "100m", 0), "1");
    harness.settle().await;
    assert_eq!((harness.desired_pods(), harness.events()), (vec!["late".to_owned()], Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_mismatched_pod_is_rejected_only_after_the_node_was_reread() {
    let harness = harness();
    *harness.node.outages.lock() = [10, 0, 0, 0].map(Duration::from_secs).into();
    harness.give(&choosy("choosy"), "1");
    harness.give(&pod("other", "100m", 0), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["other"], "other pods do not wait");
    assert!(harness.rejected.borrow().is_empty(), "the API server has not answered yet");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (harness.desired_pods(), harness.events()),
        (vec!["other".to_owned()], vec!["choosy NodeAffinity".to_owned()])
    );
    harness.label();
    harness.give(&choosy("next"), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["other", "next"], "a rejected pod stays rejected");
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_read_the_node_its_watched_copy_decides() {
    let harness = harness();
    harness.label();
    *harness.node.is_forbidden.lock() = true;
    harness.give(&choosy("choosy"), "1");
    harness.settle().await;
    assert_eq!(harness.events(), ["choosy NodeAffinity"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_grew_admits_more() {
    let harness = harness();
    harness.give(&pod("early", "3", 0), "1");
    harness.settle().await;
    harness.own_node.send_modify(|node| node.allocatable.set("cpu", Quantity::count(4)));
    harness.give(&pod("late", "3", 0), "1");
    harness.settle().await;
    assert_eq!(
        (harness.desired_pods(), harness.events()),
        (vec!["late".to_owned()], vec!["early OutOfcpu".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_under_disk_pressure_admits_only_critical_pods() {
    let harness = harness();
    harness.give(&pod("runs", "100m", 0), "1");
    harness.settle().await;
    harness.pressure.send_replace([Pressure::Disk].into());
    harness.give(&pod("late", "100m", 0), "1");
    harness.give(&pod("vital", "100m", 2_000_000_000), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["runs", "vital"]);
    assert_eq!(harness.events(), ["late Evicted"]);
    let message = harness.rejected.borrow()[0].status.message.clone();
    assert_eq!(message.as_deref(), Some("Pod was rejected: The node had condition: [DiskPressure]. "));
    harness.pressure.send_replace([].into());
    harness.give(&pod("next", "100m", 0), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["runs", "vital", "next"], "a rejected pod stays rejected");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_shuts_down_admits_nothing_preempts_nothing_and_keeps_its_pods() {
    let harness = harness();
    harness.give(&pod("runs", "1500m", 0), "1");
    harness.settle().await;
    let kill = PodKill {
        status: StatusOverride {
            phase: PodPhase::Failed,
            reason: "Terminated".to_owned(),
            message: String::new(),
            disruption: None,
        },
        grace_seconds: Some(3),
        evict: false,
    };
    harness.shutdown.send_replace(NodeShutdown {
        is_under_way: true,
        kills: [(PodUid::from("runs"), kill.clone())].into(),
    });
    harness.give(&pod("late", "100m", 0), "1");
    harness.give(&pod("huge", "5", 0), "1");
    harness.give(&pod("vital", "100m", 2_000_000_000), "1");
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["runs"]);
    let kills = harness.desired_pods.borrow().kills.clone();
    assert_eq!(kills, [(PodUid::from("runs"), kill)].into(), "nothing else is killed");
    assert_eq!(harness.events(), ["huge OutOfcpu", "late NodeShutdown", "vital NodeShutdown"]);
    let message = harness.rejected.borrow()[1].status.message.clone();
    let expected = "Pod was rejected: Pod was rejected as the node is shutting down.";
    assert_eq!(message.as_deref(), Some(expected));
    harness.shutdown.send_replace(NodeShutdown::default());
    harness.give(&pod("next", "100m", 0), "1");
    harness.settle().await;
    assert_eq!(
        harness.desired_pods(),
        ["runs", "next"],
        "the shutdown was cancelled; a rejected pod stays rejected"
    );
    assert!(harness.desired_pods.borrow().kills.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_killed_as_long_as_that_is_requested_also_in_a_shutdown() {
    let harness = harness();
    harness.give(&pod("runs", "100m", 0), "1");
    harness.settle().await;
    let kill = |reason: &str, grace| PodKill {
        status: StatusOverride {
            phase: PodPhase::Failed,
            reason: reason.to_owned(),
            message: "it does not matter".to_owned(),
            disruption: None,
        },
        grace_seconds: Some(grace),
        evict: true,
    };
    let kills = |reason, grace| [(PodUid::from("runs"), kill(reason, grace))].into();
    harness.evicted.send_replace(kills("Evicted", 1));
    harness.settle().await;
    assert_eq!(harness.desired_pods.borrow().kills, kills("Evicted", 1));
    harness.shutdown.send_replace(NodeShutdown { is_under_way: true, kills: kills("Terminated", 3) });
    harness.settle().await;
    assert_eq!(harness.desired_pods.borrow().kills, kills("Evicted", 1));
    harness.evicted.send_replace(BTreeMap::new());
    harness.settle().await;
    assert_eq!(harness.desired_pods.borrow().kills, kills("Terminated", 3));
}

#[tokio::test(start_paused = true)]
async fn an_extended_resource_advertised_on_the_node_is_counted() {
    let harness = harness();
    let mut node = Node { metadata: metadata("n1"), ..Node::default() };
    let dongles = ("example.com/dongle".to_owned(), ApiQuantity("1".to_owned()));
    // The node's own value of `cpu` wins.
    let cpus = ("cpu".to_owned(), ApiQuantity("64".to_owned()));
    node.status.get_or_insert_default().allocatable = Some([dongles, cpus].into());
    harness.node.store(node);
    harness.node.show();
    let holds = |name: &str, cpu: &str| {
        let mut pod = Pod::clone(&pod(name, cpu, 0));
        let resources = pod.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap();
        let requests = resources.requests.as_mut().unwrap();
        requests.insert("example.com/dongle".to_owned(), ApiQuantity("1".to_owned()));
        requests.insert("example.com/license".to_owned(), ApiQuantity("1".to_owned()));
        Arc::new(pod)
    };
    for (name, cpu) in [("large", "3"), ("first", "1"), ("second", "1")] {
        harness.give(&holds(name, cpu), "1");
        harness.settle().await;
    }
    assert_eq!(harness.desired_pods(), ["first"]);
    assert_eq!(harness.events(), ["large OutOfcpu", "second OutOfexample.com/dongle"]);
}

#[tokio::test]
async fn an_idle_admission_answers() {
    let h = harness();
    assert_eq!(h.heartbeats.check().await, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_device_and_is_not_checked_against_the_amount_that_the_node_advertises() {
    let harness = harness();
    harness.devices.send_replace(["v.com/gpu".to_owned()].into());
    let mut gpu = Pod::clone(&pod("gpu", "0", 0));
    let resources = json!({"limits": {"v.com/gpu": "1"}, "requests": {"v.com/gpu": "1"}});
    gpu.spec.as_mut().unwrap().containers[0].resources = Some(serde_json::from_value(resources).unwrap());
    let gpu = Arc::new(gpu);
    harness.own_node.send_modify(|node| node.allocatable.set("v.com/gpu", Quantity::count(0)));
    harness.give(&gpu, "1");
    harness.settle().await;
    assert!(harness.desired_pods().is_empty());
    assert!(Arc::ptr_eq(&harness.granting.borrow()[0], &gpu));
    let uid = pod_uid(&gpu);
    let waits = GrantState::NotYet("waits for its plugin".to_owned());
    harness.grants.send_modify(|grants| drop(grants.insert(uid.clone(), waits)));
    harness.settle().await;
    assert_eq!(harness.awaited.borrow()[&uid], "waits for its plugin");
    assert_eq!(harness.events(), ["gpu AdmissionDelayed"]);
    harness.grants.send_modify(|grants| drop(grants.insert(uid.clone(), GrantState::Granted)));
    harness.settle().await;
    assert_eq!(harness.desired_pods(), ["gpu"]);
    assert!(harness.granting.borrow().is_empty() && harness.awaited.borrow().is_empty());
}
