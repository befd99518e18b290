//! The status task against a failing API server, in paused time.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_base::node::{NodeAddresses, NodeEvent, NodePressure, PluginResources, Pressure};
use hostlet_base::testing::resource_list;
use hostlet_host::Machine;
use hostlet_observe::pleg;
use hostlet_runtime::cri::RuntimeStatus;
use hostlet_telemetry::Heartbeats;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::testing::{facts, settings};
use super::{
    KernelCondition, KernelConditions, KernelFinding, LatestNode, LeaseTask, NodeInputs, NodeSettings,
    NodeStatusTask, RuntimeFacts, VolumesInUse, watch_node,
};
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

const PATH: &str = "/api/v1/nodes/node1";

/// A node with its task, the API server, and the task's inputs.
struct Bed {
    api: FakeApi,
    host: watch::Sender<Machine>,
    addresses: watch::Sender<Option<Arc<[IpAddr]>>>,
    _runtime: watch::Sender<RuntimeFacts>,
    status: watch::Sender<Option<RuntimeStatus>>,
    ready_at: watch::Sender<Option<Instant>>,
    pleg: watch::Sender<pleg::Health>,
    pressure: watch::Sender<NodePressure>,
    kernel: watch::Sender<KernelConditions>,
    volumes_in_use: watch::Sender<BTreeSet<String>>,
    reported_in_use: watch::Receiver<BTreeSet<String>>,
    devices: watch::Sender<PluginResources>,
    storage: watch::Sender<Option<String>>,
    others: watch::Sender<Vec<String>>,
    node: watch::Receiver<Option<Arc<Node>>>,
    latest_node: LatestNode,
    events: Arc<Mutex<Vec<NodeEvent>>>,
    clock: WallClock,
    heartbeats: Heartbeats,
    tasks: tokio::task::JoinSet<()>,
}

impl Bed {
    /// A node that is ready except for its addresses, which were not looked up yet.
    fn new(settings: NodeSettings) -> Self {
        let clock = WallClock::of_tokio("2026-11-21T12:00:00Z".parse().unwrap());
        let api = FakeApi::new(clock.clone());
        let facts = facts();
        let (host, host_view) = watch::channel(facts.host.machine);
        let (runtime, runtime_view) = watch::channel(facts.runtime);
        let (status, status_view) = watch::channel(facts.status);
        let (ready_at, ready_view) = watch::channel(Some(Instant::now()));
        let (pleg, pleg_view) = watch::channel(pleg::Health { last_relist: Instant::now(), error: None });
        let (pressure, pressure_view) = watch::channel(NodePressure::from([]));
        let (kernel, kernel_view) = watch::channel(KernelConditions::default());
        let (devices, devices_view) = watch::channel(PluginResources::default());
        let (storage, storage_view) = watch::channel(None);
        let (others, others_view) = watch::channel(Vec::new());
        let (volumes_in_use, desired_in_use) = watch::channel(BTreeSet::new());
        let in_use = VolumesInUse::new(desired_in_use);
        let reported_in_use = in_use.reported();
        let (addresses, addresses_view) = NodeAddresses::new();
        let inputs = NodeInputs {
            host: host_view,
            addresses: addresses_view,
            runtime: runtime_view,
            status: status_view,
            ready_at: ready_view,
            pleg: pleg_view,
            pressure: pressure_view,
            kernel: kernel_view,
            volumes_in_use: in_use,
            devices: devices_view,
            storage: storage_view,
            others: others_view,
        };
        let latest_node = LatestNode::default();
        let node = latest_node.subscribe();
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = events.clone();
        let tell = Arc::new(move |event| sink.lock().push(event));
        let settings = Arc::new(settings);
        let task = NodeStatusTask::new(
            api.client(),
            settings.clone(),
            inputs,
            tell,
            clock.clone(),
            latest_node.clone(),
        );
        let lease = LeaseTask::new(api.client(), settings, node.clone(), clock.clone());
        let heartbeats = Heartbeats::default();
        let task = task.with_heartbeat(heartbeats.register("node status"));
        let lease = lease.with_heartbeat(heartbeats.register("lease"));
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(task.run(CancellationToken::new()));
        tasks.spawn(lease.run(CancellationToken::new()));
        // The runtime and the PLEG stay healthy until a test stops that.
        let (beat_ready, beat_pleg) = (ready_at.clone(), pleg.clone());
        tasks.spawn(async move {
            loop {
                sleep(Duration::from_secs(5)).await;
                let now = Instant::now();
                beat_ready.send_if_modified(|at| {
                    at.as_mut().is_some_and(|at| {
                        *at = now;
                        true
                    })
                });
                beat_pleg.send_if_modified(|health| {
                    let is_well = health.error.is_none();
                    if is_well {
                        health.last_relist = now;
                    }
                    is_well
                });
            }
        });
        Self {
            api,
            host,
            addresses,
            _runtime: runtime,
            status,
            ready_at,
            pleg,
            pressure,
            kernel,
            volumes_in_use,
            reported_in_use,
            devices,
            storage,
            others,
            node,
            latest_node,
            events,
            clock,
            heartbeats,
            tasks,
        }
    }

    /// Watches the Node.
    fn watch(&mut self) {
        let (client, latest_node) = (self.api.client(), self.latest_node.clone());
        self.tasks.spawn(watch_node(client, "node1".to_owned(), latest_node, CancellationToken::new()));
    }

    /// A node that is registered and ready.
    async fn registered(settings: NodeSettings) -> Self {
        let bed = Self::new(settings);
        bed.find_addresses();
        bed.until(|node| ready(node) == "True").await;
        bed
    }

    /// The first lookup of addresses is done.
    fn find_addresses(&self) {
        self.addresses.send_replace(Some(facts().host.addresses.into()));
    }

    fn stored(&self) -> Option<Node> {
        self.api.get(PATH)
    }

    async fn until(&self, holds: impl Fn(&Node) -> bool) {
        let waiting = async {
            while !self.stored().is_some_and(|node| holds(&node)) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let done = timeout(Duration::from_secs(3600), waiting).await;
        assert!(done.is_ok(), "the node is {:?}", self.stored());
    }

    /// How long it takes until the condition holds.
    async fn time_until(&self, holds: impl Fn(&Node) -> bool) -> Duration {
        let start = Instant::now();
        self.until(holds).await;
        start.elapsed()
    }

    /// Another client changes the Node.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut node = serde_json::to_value(self.stored().unwrap()).unwrap();
        change(&mut node);
        let node: Node = serde_json::from_value(node).unwrap();
        self.api.put(PATH, &node);
    }

    fn reasons(&self) -> Vec<String> {
        self.events.lock().iter().map(|event| event.reason.to_string()).collect()
    }

    fn patches(&self) -> usize {
        self.api.requests_of("PATCH", "/status").len()
    }
}

fn condition(node: &Node, type_: &str) -> Option<NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_).cloned()
}

fn ready(node: &Node) -> String {
    condition(node, "Ready").map(|condition| condition.status).unwrap_or_default()
}

fn message(node: &Node) -> String {
    condition(node, "Ready").and_then(|condition| condition.message).unwrap_or_default()
}

fn reject(code: u16, reason: &'static str, retry_after: u32) -> ApiFault {
    ApiFault::Reject { code, reason, retry_after }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_registered_as_ready_and_published() {
    let mut bed = Bed::new(settings());
    sleep(Duration::from_secs(60)).await;
    assert!(bed.api.requests_of("POST", "/nodes").is_empty(), "not before its addresses were looked for");
    bed.find_addresses();
    assert!(bed.time_until(|node| ready(node) == "True").await < Duration::from_secs(1));
    let shown = bed.node.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(shown.metadata.uid, bed.stored().unwrap().metadata.uid);
    let expected = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"];
    assert_eq!(bed.reasons(), expected);
    assert_eq!(bed.tasks.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn readiness_is_reported_quickly_after_the_start() {
    let bed = Bed::new(settings());
    bed.ready_at.send_replace(None);
    bed.find_addresses();
    bed.until(|node| ready(node) == "False").await;
    bed.ready_at.send_replace(Some(Instant::now()));
    assert!(bed.time_until(|node| ready(node) == "True").await <= Duration::from_millis(150));
    assert_eq!(bed.reasons().last().map(String::as_str), Some("NodeReady"));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_readiness_is_reported_at_once() {
    let bed = Bed::registered(settings()).await;
    sleep(Duration::from_secs(3)).await;
    bed.status.send_modify(|status| status.as_mut().unwrap().network.status = false);
    assert!(bed.time_until(|node| ready(node) == "False").await < Duration::from_millis(50));
    let stored = bed.stored().unwrap();
    assert!(message(&stored).starts_with("container runtime network not ready: NetworkReady=false reason:"));
    bed.status.send_modify(|status| status.as_mut().unwrap().network.status = true);
    bed.others.send_replace(vec!["node is shutting down".to_owned()]);
    bed.until(|node| message(node) == "node is shutting down").await;
    bed.others.send_replace(Vec::new());
    bed.until(|node| ready(node) == "True").await;
    assert_eq!(bed.reasons()[4..], ["NodeNotReady", "NodeReady"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_pressure_is_reported_at_once() {
    let bed = Bed::registered(settings()).await;
    let under = |node: &Node| condition(node, "DiskPressure").unwrap().status == "True";
    sleep(Duration::from_secs(3)).await;
    bed.pressure.send_replace([Pressure::Disk].into());
    assert!(bed.time_until(under).await < Duration::from_millis(50));
    assert_eq!(ready(&bed.stored().unwrap()), "True");
    sleep(Duration::from_secs(3)).await;
    bed.pressure.send_replace([].into());
    assert!(bed.time_until(|node| !under(node)).await < Duration::from_millis(50));
    assert_eq!(bed.reasons()[4..], ["NodeHasDiskPressure", "NodeHasNoDiskPressure"]);
}

#[tokio::test(start_paused = true)]
async fn conditions_of_the_kernel_are_reported_at_once_and_removed() {
    let bed = Bed::registered(settings()).await;
    let finding = KernelFinding { reason: "XfsHasShutdown".to_owned(), message: "XFS (sdb1)".to_owned() };
    bed.kernel.send_replace(KernelConditions::Reported([(KernelCondition::XfsShutdown, finding)].into()));
    let has = |node: &Node| condition(node, "XfsShutdown").is_some_and(|shutdown| shutdown.status == "True");
    assert!(bed.time_until(has).await < Duration::from_millis(50));
    assert_eq!(ready(&bed.stored().unwrap()), "True");
    bed.kernel.send_replace(KernelConditions::Withdrawn);
    let time = bed.time_until(|node| condition(node, "KernelDeadlock").is_none()).await;
    assert!(time < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_silent_runtime_makes_the_node_unready() {
    let bed = Bed::registered(settings()).await;
    let last = *bed.ready_at.borrow();
    bed.ready_at.send_replace(None);
    bed.until(|node| message(node).starts_with("container runtime status check may not")).await;
    bed.ready_at.send_replace(last);
    bed.until(|node| ready(node) == "True").await;
    bed.pleg.send_modify(|health| {
        let operation = hostlet_runtime::cri::Operation::ListSandboxes;
        health.error = Some(hostlet_runtime::cri::CriError::Unimplemented { operation });
    });
    let time = bed.time_until(|node| message(node).starts_with("PLEG is not healthy")).await;
    assert!(time < Duration::from_secs(182), "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_status_is_sent_periodically() {
    let bed = Bed::registered(settings()).await;
    let before = bed.patches();
    sleep(Duration::from_secs(3600)).await;
    let sent = bed.patches() - before;
    assert!((11..=13).contains(&sent), "each 5 minutes, not {sent} in an hour");
    let beat = condition(&bed.stored().unwrap(), "MemoryPressure").unwrap().last_heartbeat_time.unwrap().0;
    assert!(bed.clock.now().duration_since(beat).as_secs() < 320);
    let reads = bed.api.requests_of("GET", PATH).len();
    assert!((340..=362).contains(&reads), "each 10 s, and a little more, not {reads} in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_watched_node_is_read_again_only_while_the_watch_fails() {
    let mut settings = settings();
    settings.node.status_report_frequency = Duration::from_secs(86_400);
    let mut bed = Bed::registered(settings).await;
    // After the Node, the bookmark that ends the list, and two changes.
    bed.api.fail(ApiRule::once("WATCH", "/nodes", ApiFault::CutWatch(4)));
    bed.api.fail(ApiRule { times: 20, ..ApiRule::always("WATCH", "/nodes", ApiFault::Reset) });
    bed.watch();
    sleep(Duration::from_secs(30)).await;
    let reads = |bed: &Bed| bed.api.requests_of("GET", PATH).len();
    let (before, patches) = (reads(&bed), bed.patches());
    sleep(Duration::from_secs(200)).await;
    assert_eq!(reads(&bed), before);
    bed.edit(|node| {
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.iter_mut().for_each(|condition| condition["status"] = json!("Unknown"));
    });
    let taken = bed.time_until(|node| ready(node) == "True").await;
    assert!(taken < Duration::from_secs(2), "the control plane gave it up: {taken:?}");
    assert_eq!((reads(&bed), bed.patches()), (before, patches + 1));
    sleep(Duration::from_secs(120)).await;
    assert!((before + 8..=before + 13).contains(&reads(&bed)), "the watch ended: {}", reads(&bed) - before);
    sleep(Duration::from_secs(900)).await;
    let before = reads(&bed);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(reads(&bed), before, "it is open again");
}

/// Somebody makes a watched node unready again and again: each of them writes no more often than without the watch.
#[tokio::test(start_paused = true)]
async fn a_dispute_about_readiness_is_no_load() {
    let mut bed = Bed::registered(settings()).await;
    bed.watch();
    sleep(Duration::from_secs(30)).await;
    let before = bed.patches();
    for _ in 0..600 {
        bed.edit(|node| {
            let conditions = node["status"]["conditions"].as_array_mut().unwrap();
            conditions.iter_mut().for_each(|condition| condition["status"] = json!("Unknown"));
        });
        sleep(Duration::from_secs(1)).await;
    }
    let patches = bed.patches() - before;
    assert!((55..=62).contains(&patches), "{patches} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_platform_return_and_others_stay() {
    let bed = Bed::registered(settings()).await;
    let platform = |node: &Node| {
        let labels = node.metadata.labels.clone().unwrap();
        ["kubernetes.io/os", "kubernetes.io/arch"].map(|key| labels.get(key).cloned())
    };
    let before = platform(&bed.stored().unwrap());
    bed.edit(|node| {
        node["metadata"]["labels"]["kubernetes.io/os"] = json!("theirs");
        node["metadata"]["labels"]["theirs"] = json!("x");
        node["metadata"]["labels"].as_object_mut().unwrap().remove("kubernetes.io/arch");
    });
    assert!(bed.time_until(|node| platform(node) == before).await < Duration::from_secs(11));
    assert_eq!(bed.stored().unwrap().metadata.labels.unwrap()["theirs"], "x");
    let patches = bed.patches();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.patches(), patches, "only once");
}

#[tokio::test(start_paused = true)]
async fn writes_of_others_survive_a_day() {
    let bed = Bed::registered(settings()).await;
    let theirs = |turn: usize| json!({"type": "NetworkUnavailable", "status": if turn.is_multiple_of(2) { "False" } else { "True" }});
    for turn in 0..144 {
        bed.edit(|node| {
            node["metadata"]["labels"][format!("theirs-{turn}")] = json!("x");
            node["metadata"]["annotations"]["theirs"] = json!(turn.to_string());
            node["spec"]["taints"] = json!([{"key": format!("t{turn}"), "effect": "NoSchedule"}]);
            let conditions = node["status"]["conditions"].as_array_mut().unwrap();
            conditions.retain(|condition| condition["type"] != "NetworkUnavailable");
            conditions.insert(turn % 3, theirs(turn));
            node["status"]["volumesAttached"] = json!([{"name": format!("v{turn}"), "devicePath": ""}]);
        });
        // Our own conditions change as well.
        let memory = (1 + u64::try_from(turn).unwrap()) << 30;
        bed.host.send_modify(|host| host.memory = memory);
        bed.status.send_modify(|status| status.as_mut().unwrap().network.status = turn % 5 != 0);
        sleep(Duration::from_secs(600)).await;
        let node = bed.stored().unwrap();
        let (spec, status) = (node.spec.clone().unwrap(), node.status.clone().unwrap());
        let labels = node.metadata.labels.as_ref().unwrap();
        assert!((0..=turn).all(|turn| labels.contains_key(&format!("theirs-{turn}"))));
        assert_eq!(node.metadata.annotations.as_ref().unwrap()["theirs"], turn.to_string());
        assert_eq!(spec.taints.unwrap()[0].key, format!("t{turn}"));
        let network = condition(&node, "NetworkUnavailable").unwrap();
        assert_eq!(json!({"type": network.type_, "status": network.status}), theirs(turn));
        assert_eq!(status.volumes_attached.unwrap()[0].name, format!("v{turn}"));
        assert_eq!(status.capacity.unwrap()["memory"].0, hostlet_base::Quantity::bytes(memory).to_string());
        assert_eq!(ready(&node) == "True", turn % 5 != 0);
        assert_eq!(status.conditions.unwrap().len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_survives_any_single_fault() {
    let faults = [
        reject(409, "Conflict", 0),
        reject(429, "TooManyRequests", 3),
        reject(500, "InternalError", 0),
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Delay(Duration::from_secs(3)),
        ApiFault::Delay(Duration::from_secs(12)),
        ApiFault::Hang,
    ];
    for method in ["GET", "PATCH"] {
        for fault in &faults {
            let bed = Bed::registered(settings()).await;
            bed.api.fail(ApiRule::once(method, PATH, fault.clone()));
            bed.others.send_replace(vec!["node is shutting down".to_owned()]);
            let time = bed.time_until(|node| ready(node) == "False").await;
            assert!(time < Duration::from_secs(11), "{method} {fault:?}: {time:?}");
            sleep(Duration::from_secs(60)).await;
            let events = bed.reasons().into_iter().filter(|reason| reason == "NodeNotReady").count();
            assert_eq!(events, 1, "{method} {fault:?}: an event for a change, however often it was sent");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn registration_survives_any_single_fault() {
    let faults = [
        reject(409, "Conflict", 0),
        reject(429, "TooManyRequests", 3),
        reject(403, "Forbidden", 0),
        reject(500, "InternalError", 0),
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Delay(Duration::from_secs(12)),
        ApiFault::Hang,
    ];
    for fault in faults {
        let bed = Bed::new(settings());
        bed.api.fail(ApiRule::once("POST", "/nodes", fault.clone()));
        bed.find_addresses();
        let time = bed.time_until(|node| ready(node) == "True").await;
        assert!(time < Duration::from_secs(11), "{fault:?}: {time:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn registration_is_retried_with_back_off() {
    let bed = Bed::new(settings());
    bed.api.fail(ApiRule::always("POST", "/nodes", ApiFault::Reset));
    bed.find_addresses();
    sleep(Duration::from_secs(3600)).await;
    let tries = bed.api.requests_of("POST", "/nodes").len();
    assert!((600..760).contains(&tries), "one each 3.5 to 7 s in the end, not {tries} in an hour");
    bed.api.heal();
    assert!(bed.time_until(|node| ready(node) == "True").await < Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_registers_again() {
    let bed = Bed::registered(settings()).await;
    let first = bed.stored().unwrap().metadata.uid;
    bed.api.delete(PATH, None);
    let time = bed.time_until(|node| ready(node) == "True").await;
    assert!(time < Duration::from_secs(11), "{time:?}");
    assert_ne!(bed.stored().unwrap().metadata.uid, first);
    // In the middle of an update: deleted between the read and the patch.
    let gone = ApiFault::Reject { code: 404, reason: "NotFound", retry_after: 0 };
    bed.api.fail(ApiRule::once("PATCH", "/status", gone));
    bed.others.send_replace(vec!["x".to_owned()]);
    assert!(bed.time_until(|node| message(node) == "x").await < Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_register_waits_until_it_is_created() {
    let mut settings = settings();
    settings.node.register = false;
    let bed = Bed::new(settings);
    bed.find_addresses();
    sleep(Duration::from_secs(60)).await;
    assert!(bed.api.requests_of("POST", "/nodes").is_empty());
    let bare: Node = serde_json::from_value(json!({"metadata": {"name": "node1"}})).unwrap();
    bed.api.put(PATH, &bare);
    assert!(bed.time_until(|node| ready(node) == "True").await < Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn cordoning_is_reported_once() {
    let bed = Bed::registered(settings()).await;
    for closed in [true, false] {
        bed.edit(|node| node["spec"]["unschedulable"] = json!(closed));
        sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(bed.reasons()[4..], ["NodeNotSchedulable", "NodeSchedulable"]);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_while_the_status_hangs() {
    let bed = Bed::registered(settings()).await;
    bed.api.fail(ApiRule::always("", PATH, ApiFault::Hang));
    bed.others.send_replace(vec!["x".to_owned()]);
    let before = bed.api.requests_of("PUT", "leases").len();
    sleep(Duration::from_secs(600)).await;
    let renewals = bed.api.requests_of("PUT", "leases").len() - before;
    assert!(renewals >= 57, "{renewals} renewals in 10 minutes");
    bed.api.heal();
    assert!(bed.time_until(|node| message(node) == "x").await < Duration::from_secs(61));
}

#[tokio::test(start_paused = true)]
async fn a_new_address_is_reported_at_once() {
    let bed = Bed::registered(settings()).await;
    let ip: IpAddr = "10.77.0.2".parse().unwrap();
    bed.addresses.send_replace(Some([ip].into()));
    let has_it = |node: &Node| {
        let mut addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        addresses.any(|address| address.type_ == "InternalIP" && address.address == ip.to_string())
    };
    let taken = bed.time_until(has_it).await;
    assert!(taken < Duration::from_secs(1), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_an_hour_is_no_missed_heartbeat() {
    let nobody = Vec::<&str>::new();
    let faults =
        [ApiFault::Hang, ApiFault::Reset, reject(429, "TooManyRequests", 3000), reject(404, "NotFound", 0)];
    for fault in faults {
        // While it registers, without and with addresses, and while it reports.
        let bed = Bed::new(settings());
        bed.api.fail(ApiRule::always("", "", fault.clone()));
        assert_eq!(bed.heartbeats.check().await, nobody, "{fault:?}");
        bed.find_addresses();
        for second in 0..3600 {
            sleep(Duration::from_secs(1)).await;
            bed.heartbeats.ask(Instant::now());
            assert_eq!(bed.heartbeats.overdue(Instant::now()), nobody, "{fault:?} after {second} s");
        }
        bed.api.heal();
        let bed = Bed::registered(settings()).await;
        bed.api.fail(ApiRule::always("", "", fault.clone()));
        for second in 0..3600 {
            sleep(Duration::from_secs(1)).await;
            bed.heartbeats.ask(Instant::now());
            assert_eq!(bed.heartbeats.overdue(Instant::now()), nobody, "{fault:?} after {second} s");
        }
    }
}

#[path = "task_volume_tests.rs"]
mod volumes;

/// The Node's capacity and allocatable of the resource of a device plugin.
fn gpus(node: &Node) -> [Option<String>; 2] {
    let status = node.status.clone().unwrap_or_default();
    [status.capacity, status.allocatable].map(|all| Some(all?.get("example.com/gpu")?.0.clone()))
}

#[tokio::test(start_paused = true)]
async fn devices_of_plugins_are_reported_at_once() {
    let bed = Bed::registered(settings()).await;
    let plugin = |capacity: &str, allocatable: &str| PluginResources {
        capacity: resource_list([("example.com/gpu", capacity)]),
        allocatable: resource_list([("example.com/gpu", allocatable)]),
        ..PluginResources::default()
    };
    let removed = ["example.com/gpu".to_owned()].into();
    let gone = PluginResources { removed, ..PluginResources::default() };
    for (devices, expected) in
        [(plugin("4", "3"), ["4", "3"]), (plugin("4", "0"), ["4", "0"]), (gone, ["0", "0"])]
    {
        sleep(Duration::from_secs(3)).await;
        bed.devices.send_replace(devices);
        let expected = expected.map(|amount| Some(amount.to_owned()));
        assert!(bed.time_until(|node| gpus(node) == expected).await < Duration::from_millis(50));
    }
}
