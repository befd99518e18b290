//! What CSI drivers say of the node, published on a fake API server, in paused time.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_base::node::NodeEvent;
use hostlet_csi::{NodeInfo, NodeInfos};
use hostlet_store::Store;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::node::testing::settings;
use crate::node::{LatestNode, watch_node};

const NODE: &str = "/api/v1/nodes/node1";
const CSI_NODE: &str = "/apis/storage.k8s.io/v1/csinodes/node1";
const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

struct Bed {
    api: FakeApi,
    store: Store,
    drivers: watch::Sender<NodeInfos>,
    storage: watch::Receiver<Option<String>>,
    events: Arc<Mutex<Vec<NodeEvent>>>,
    _running: DropGuard,
}

impl Bed {
    /// A node that is registered, with this store, and its task.
    async fn start(api: FakeApi, store: Store) -> Self {
        let latest_node = LatestNode::default();
        let (drivers, view) = watch::channel(NodeInfos::new());
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = events.clone();
        let (task, storage) = CsiNodeTask::new(CsiNodeDeps {
            client: api.client(),
            settings: Arc::new(settings()),
            latest_node: latest_node.clone(),
            drivers: view,
            store: store.clone(),
            events: Arc::new(move |event| sink.lock().push(event)),
        });
        let cancel = CancellationToken::new();
        let watching = watch_node(api.client(), "node1".to_owned(), latest_node, cancel.clone());
        #[expect(clippy::disallowed_methods, reason = "tasks of a test")]
        {
            tokio::spawn(task.run(cancel.clone()));
            tokio::spawn(watching);
        }
        sleep(Duration::from_millis(10)).await;
        Self { api, store, drivers, storage, events, _running: cancel.drop_guard() }
    }

    async fn new() -> Self {
        let api = FakeApi::new(WallClock::system());
        put_node(&api, &json!({}));
        let bed = Self::start(api, Store::default()).await;
        bed.until(|bed| bed.csi_node().is_some()).await;
        bed
    }

    fn csi_node(&self) -> Option<CSINode> {
        self.api.get(CSI_NODE)
    }

    fn entry(&self, driver: &str) -> Option<Value> {
        let drivers = self.csi_node()?.spec.drivers;
        let driver = drivers.into_iter().find(|entry| entry.name == driver)?;
        serde_json::to_value(driver).ok()
    }

    fn node(&self) -> Node {
        self.api.get(NODE).unwrap()
    }

    fn ids(&self) -> Option<String> {
        self.node().metadata.annotations?.get(NODE_IDS).cloned()
    }

    fn register(&self, drivers: &[(&str, NodeInfo)]) {
        let drivers = drivers.iter().map(|(name, info)| ((*name).to_owned(), info.clone()));
        self.drivers.send_replace(drivers.collect());
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let done = timeout(Duration::from_secs(3600), waiting).await;
        assert!(done.is_ok(), "{:?} {:?} {:?}", self.csi_node(), self.node(), self.events.lock());
    }

    fn writes(&self) -> usize {
        let requests = self.api.requests();
        requests.iter().filter(|request| !["GET", "WATCH"].contains(&request.method.as_str())).count()
    }
}

fn put_node(api: &FakeApi, labels: &Value) {
    let node = json!({"metadata": {"name": "node1", "labels": labels}});
    api.put(NODE, &serde_json::from_value::<Node>(node).unwrap());
}

fn info(id: &str, max_volumes: Option<i64>, topology: &[(&str, &str)]) -> NodeInfo {
    let topology = topology.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    NodeInfo { node_id: id.to_owned(), max_volumes, topology }
}

fn owner(node: &CSINode) -> String {
    node.metadata.owner_references.as_ref().unwrap()[0].uid.clone()
}

fn reject(code: u16, reason: &'static str) -> ApiFault {
    ApiFault::Reject { code, reason, retry_after: 0 }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_ready_for_volumes_once_its_csi_node_exists() {
    let api = FakeApi::new(WallClock::system());
    let bed = Bed::start(api, Store::default()).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.storage.borrow().as_deref(), Some("CSINode is not yet initialized"));
    assert_eq!(bed.writes(), 0, "there is no Node yet");
    bed.api.fail(ApiRule { times: 3, ..ApiRule::always("POST", "/csinodes", ApiFault::Reset) });
    bed.api.fail(ApiRule { times: 3, ..ApiRule::always("POST", "/csinodes", reject(403, "Forbidden")) });
    put_node(&bed.api, &json!({}));
    let rejected = "failed to initialize CSINode: rejected by the script";
    bed.until(|bed| bed.storage.borrow().as_deref() == Some(rejected)).await;
    bed.until(|bed| bed.storage.borrow().is_none()).await;
    let csi_node = bed.csi_node().unwrap();
    assert_eq!(owner(&csi_node), bed.node().metadata.uid.unwrap());
    assert!(
        csi_node.metadata.annotations.unwrap()["storage.alpha.kubernetes.io/migrated-plugins"]
            .starts_with("kubernetes.io/aws-ebs,")
    );
    let writes = bed.writes();
    sleep(Duration::from_secs(7200)).await;
    assert_eq!(bed.writes(), writes, "nothing changed");
    let reads = bed.api.requests_of("GET", "/csinodes").len();
    assert!((20..45).contains(&reads), "each five minutes, not {reads} in two hours");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_is_ready_without_the_api_server() {
    let bed = Bed::new().await;
    let (api, store) = (bed.api.clone(), bed.store.copy());
    drop(bed);
    api.fail(ApiRule::always("", "", ApiFault::Reset));
    let bed = Bed::start(api, store).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(*bed.storage.borrow(), None);
    // Nor does it matter what the server says at first.
    bed.api.heal();
    bed.api.delete(CSI_NODE, None);
    bed.api.fail(ApiRule { times: 5, ..ApiRule::always("GET", "/csinodes", reject(403, "Forbidden")) });
    bed.until(|bed| bed.csi_node().is_some()).await;
    assert_eq!(*bed.storage.borrow(), None);
    assert!(!bed.storage.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn drivers_come_change_and_go() {
    let bed = Bed::new().await;
    let zone = [("topology.a/zone", "z1")];
    bed.register(&[("a", info("i-1", Some(25), &zone)), ("b", info("n", None, &[]))]);
    bed.until(|bed| bed.entry("a").is_some() && bed.entry("b").is_some()).await;
    let expected = json!({"name": "a", "nodeID": "i-1", "topologyKeys": ["topology.a/zone"], "allocatable": {"count": 25}});
    assert_eq!(bed.entry("a"), Some(expected));
    assert_eq!(bed.ids().as_deref(), Some(r#"{"a":"i-1","b":"n"}"#));
    assert_eq!(bed.node().metadata.labels.unwrap()["topology.a/zone"], "z1");
    bed.register(&[("a", info("i-1", Some(20), &zone)), ("b", info("n", None, &[]))]);
    bed.until(|bed| bed.entry("a").unwrap()["allocatable"]["count"] == 20).await;
    let writes = bed.writes();
    bed.register(&[("a", info("i-1", Some(20), &zone)), ("b", info("n", None, &[]))]);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.writes(), writes, "a new registration that says the same");
    bed.register(&[("b", info("n", None, &[]))]);
    bed.until(|bed| bed.entry("a").is_none() && bed.ids().as_deref() == Some(r#"{"b":"n"}"#)).await;
    assert_eq!(bed.node().metadata.labels.unwrap()["topology.a/zone"], "z1", "volumes may need it");
    bed.register(&[]);
    bed.until(|bed| bed.entry("b").is_none() && bed.ids().is_none()).await;
    assert!(bed.csi_node().is_some());
}

#[tokio::test(start_paused = true)]
async fn drivers_of_an_earlier_daemon_stay_until_they_are_deregistered() {
    let bed = Bed::new().await;
    bed.register(&[("a", info("i", None, &[]))]);
    bed.until(|bed| bed.entry("a").is_some()).await;
    let (api, store) = (bed.api.clone(), bed.store.copy());
    drop(bed);
    let bed = Bed::start(api, store).await;
    bed.register(&[("b", info("n", None, &[]))]);
    bed.until(|bed| bed.entry("b").is_some()).await;
    sleep(Duration::from_secs(3600)).await;
    assert!(bed.entry("a").is_some(), "it may register yet");
    assert_eq!(bed.ids().as_deref(), Some(r#"{"a":"i","b":"n"}"#));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_cannot_be_published_keeps_no_other_from_it() {
    let api = FakeApi::new(WallClock::system());
    put_node(&api, &json!({"zone": "z2"}));
    let bed = Bed::start(api, Store::default()).await;
    bed.register(&[
        ("collides", info("i", None, &[("zone", "z1")])),
        ("good", info("i", None, &[])),
        ("nameless", info("", None, &[])),
    ]);
    bed.until(|bed| bed.entry("good").is_some()).await;
    assert!(bed.entry("collides").is_none() && bed.entry("nameless").is_none());
    assert_eq!(*bed.storage.borrow(), None);
    sleep(Duration::from_secs(3600)).await;
    let messages: Vec<String> = bed.events.lock().iter().map(|event| event.message.to_string()).collect();
    let collision = "CSI driver collides: detected topology value collision: driver reported \"zone\":\"z1\" but existing label is \"zone\":\"z2\"";
    let nameless = "CSI driver nameless: error adding CSI driver node info: driverNodeID must not be empty";
    assert_eq!(messages, [collision, nameless], "once each");
    // The label is corrected.
    put_node(&bed.api, &json!({"zone": "z1"}));
    bed.until(|bed| bed.entry("collides").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_label_that_the_server_rejects_is_the_problem_of_its_driver() {
    let bed = Bed::new().await;
    bed.api.fail(ApiRule::once("PATCH", NODE, reject(403, "Forbidden")));
    bed.register(&[("a", info("i", None, &[("kubernetes.io/x", "y")])), ("b", info("i", None, &[]))]);
    bed.until(|bed| bed.entry("b").is_some()).await;
    assert!(bed.entry("a").is_none());
    bed.until(|bed| bed.entry("a").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_csi_node_returns_when_it_or_its_node_was_deleted() {
    let bed = Bed::new().await;
    bed.register(&[("a", info("i", None, &[("zone", "z1")]))]);
    bed.until(|bed| bed.entry("a").is_some()).await;
    bed.api.delete(CSI_NODE, None);
    let back = timeout(Duration::from_secs(376), bed.until(|bed| bed.entry("a").is_some())).await;
    assert!(back.is_ok(), "at the next look");
    // The garbage collector has not deleted the old one yet.
    let old = owner(&bed.csi_node().unwrap());
    bed.api.delete(NODE, None);
    sleep(Duration::from_secs(60)).await;
    put_node(&bed.api, &json!({}));
    let taken = async {
        let is_new =
            |bed: &Bed| bed.csi_node().is_some_and(|node| owner(&node) != old) && bed.entry("a").is_some();
        bed.until(is_new).await;
    };
    timeout(Duration::from_secs(3), taken).await.unwrap();
    assert_eq!(owner(&bed.csi_node().unwrap()), bed.node().metadata.uid.unwrap());
    assert_eq!(bed.ids().as_deref(), Some(r#"{"a":"i"}"#));
    assert_eq!(bed.node().metadata.labels.unwrap()["zone"], "z1");
}

#[tokio::test(start_paused = true)]
async fn a_registration_survives_any_single_fault() {
    let faults = [
        reject(409, "Conflict"),
        reject(404, "NotFound"),
        ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 3 },
        reject(500, "InternalError"),
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Delay(Duration::from_secs(12)),
        ApiFault::Hang,
    ];
    for (method, path) in [("GET", "/csinodes"), ("PUT", "/csinodes"), ("PATCH", "/nodes")] {
        for fault in &faults {
            let bed = Bed::new().await;
            bed.api.fail(ApiRule::once(method, path, fault.clone()));
            bed.register(&[("a", info("i", Some(3), &[("zone", "z1")]))]);
            let published = bed.until(|bed| bed.entry("a").is_some() && bed.ids().is_some());
            let done = timeout(Duration::from_secs(30), published).await;
            assert!(done.is_ok(), "{method} {fault:?}");
            bed.register(&[]);
            let published = bed.until(|bed| bed.entry("a").is_none() && bed.ids().is_none());
            let done = timeout(Duration::from_secs(30), published).await;
            assert!(done.is_ok(), "{method} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_returns_while_it_is_removed_stays() {
    let bed = Bed::new().await;
    let driver = [("a", info("i", None, &[]))];
    bed.register(&driver);
    bed.until(|bed| bed.entry("a").is_some()).await;
    bed.api.fail(ApiRule { times: 3, ..ApiRule::always("", "/csinodes", ApiFault::Reset) });
    bed.register(&[]);
    sleep(Duration::from_millis(50)).await;
    bed.register(&driver);
    sleep(Duration::from_secs(60)).await;
    assert!(bed.entry("a").is_some() && bed.ids().is_some());
    assert!(bed.events.lock().is_empty());
}
