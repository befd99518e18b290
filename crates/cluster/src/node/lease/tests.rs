//! The lease task against a failing API server, in paused time.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::LeaseTask;
use super::spec::renewed;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::node::testing::settings;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1";

struct Bed {
    api: FakeApi,
    node: watch::Sender<Option<Arc<Node>>>,
    clock: WallClock,
    tasks: tokio::task::JoinSet<()>,
}

fn node(uid: &str) -> Option<Arc<Node>> {
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "node1", "uid": uid}})).unwrap();
    Some(Arc::new(node))
}

impl Bed {
    fn new() -> Self {
        let clock = WallClock::of_tokio("2026-11-21T12:00:00Z".parse().unwrap());
        let (node, view) = watch::channel(None);
        let api = FakeApi::new(clock.clone());
        let task = LeaseTask::new(api.client(), Arc::new(settings()), view, clock.clone());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(task.run(CancellationToken::new()));
        Self { api, node, clock, tasks }
    }

    fn lease(&self) -> Option<Lease> {
        self.api.get(PATH)
    }

    fn renewed_at(&self) -> Option<Timestamp> {
        Some(self.lease()?.spec?.renew_time?.0)
    }

    /// Waits for a lease that was renewed less than `age` ago.
    async fn fresh(&self, age: Duration) {
        let is_fresh = || {
            let since = self.renewed_at().map(|at| self.clock.now().duration_since(at));
            since.is_some_and(|since| since.unsigned_abs() < age)
        };
        let waiting = async {
            while !is_fresh() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let shown = timeout(Duration::from_secs(120), waiting).await;
        assert!(shown.is_ok(), "the lease is {:?}; {:?}", self.lease(), self.api.requests());
    }

    /// The longest time without a renewal while `time` passes.
    async fn worst_age(&self, time: Duration) -> Duration {
        let mut worst = Duration::ZERO;
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            sleep(Duration::from_millis(500)).await;
            let at = self.renewed_at().unwrap_or(Timestamp::UNIX_EPOCH);
            worst = worst.max(self.clock.now().duration_since(at).unsigned_abs());
        }
        worst
    }

    fn count(&self, method: &str) -> usize {
        self.api.requests_of(method, "leases").len()
    }
}

#[test]
fn a_lease_equals_the_stock_kubelets() {
    let owner = node("4bbed0d9-cc39-4c6c-bd7d-301690f45d5e");
    let now: Timestamp = "2026-11-21T07:51:48.239482Z".parse().unwrap();
    let lease = renewed(None, "node1", Duration::from_secs(40), owner.as_deref(), now);
    let expected = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "node1", "namespace": "kube-node-lease",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": "4bbed0d9-cc39-4c6c-bd7d-301690f45d5e"},
            ],
        },
        "spec": {"holderIdentity": "node1", "leaseDurationSeconds": 40, "renewTime": "2026-11-21T07:51:48.239482Z"},
    });
    assert_eq!(serde_json::to_value(&lease).unwrap(), expected);
    let again = renewed(Some(&lease), "node1", Duration::from_secs(40), node("other").as_deref(), now);
    let owners = again.metadata.owner_references.unwrap();
    assert_eq!(owners.iter().map(|o| o.uid.as_str()).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn a_clock_that_is_set_back_renews_the_lease_all_the_same() {
    let now: Timestamp = "2036-11-21T07:51:48.239482Z".parse().unwrap();
    let mut lease = renewed(None, "node1", Duration::from_secs(40), None, now);
    for hours in 0..3 {
        let set_back = now - Duration::from_secs(10 * 365 * 86_400 - hours * 3600);
        let next = renewed(Some(&lease), "node1", Duration::from_secs(40), None, set_back);
        let time = |lease: &Lease| lease.spec.as_ref().unwrap().renew_time.as_ref().unwrap().0;
        assert!(time(&next) > time(&lease));
        lease = next;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_created_after_the_node_and_renewed_without_reading() {
    let bed = Bed::new();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.lease(), None, "nothing would delete it again");
    bed.node.send_replace(node("u"));
    bed.fresh(Duration::from_secs(1)).await;
    assert_eq!(bed.lease().unwrap().metadata.owner_references.unwrap()[0].uid, "u");
    let read = bed.count("GET");
    assert!(bed.worst_age(Duration::from_secs(300)).await < Duration::from_millis(11_000));
    assert_eq!(bed.count("GET"), read);
    assert!((28..=30).contains(&bed.count("PUT")), "{}", bed.count("PUT"));
    assert_eq!(bed.tasks.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_existing_lease_is_renewed_without_a_node() {
    let api = FakeApi::new(WallClock::system());
    let old = renewed(None, "node1", Duration::from_secs(40), None, Timestamp::UNIX_EPOCH);
    api.put(PATH, &old);
    let (_node, view) = watch::channel(None);
    let clock = WallClock::of_tokio("2026-11-21T12:00:00Z".parse().unwrap());
    let task = LeaseTask::new(api.client(), Arc::new(settings()), view, clock);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(task.run(CancellationToken::new()));
    sleep(Duration::from_millis(100)).await;
    let renewed: Lease = api.get(PATH).unwrap();
    assert!(renewed.spec.unwrap().renew_time.unwrap().0 > Timestamp::UNIX_EPOCH);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again() {
    let bed = Bed::new();
    bed.node.send_replace(node("u"));
    bed.fresh(Duration::from_secs(1)).await;
    bed.api.delete(PATH, None);
    bed.fresh(Duration::from_secs(1)).await;
    assert_eq!(bed.count("POST"), 2);
}

#[tokio::test(start_paused = true)]
async fn no_single_fault_lets_a_lease_expire() {
    let reject = |code, reason, retry_after| ApiFault::Reject { code, reason, retry_after };
    let faults = [
        reject(409, "Conflict", 0),
        reject(429, "TooManyRequests", 3),
        reject(500, "InternalError", 0),
        reject(403, "Forbidden", 0),
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Delay(Duration::from_secs(3)),
        ApiFault::Delay(Duration::from_secs(12)),
        ApiFault::Hang,
    ];
    for fault in faults {
        let bed = Bed::new();
        bed.node.send_replace(node("u"));
        bed.fresh(Duration::from_secs(1)).await;
        bed.api.fail(ApiRule::once("PUT", "leases", fault.clone()));
        let worst = bed.worst_age(Duration::from_secs(60)).await;
        assert!(worst < Duration::from_secs(30), "{fault:?}: {worst:?}");
        let before = bed.renewed_at();
        sleep(Duration::from_secs(12)).await;
        assert!(bed.renewed_at() > before, "{fault:?}: renewals continue");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_written_by_another_client_is_read_and_renewed() {
    let bed = Bed::new();
    bed.node.send_replace(node("u"));
    bed.fresh(Duration::from_secs(1)).await;
    let mut theirs = bed.lease().unwrap();
    theirs.metadata.labels = Some([("theirs".to_owned(), "x".to_owned())].into());
    bed.api.put(PATH, &theirs);
    sleep(Duration::from_secs(11)).await;
    bed.fresh(Duration::from_secs(11)).await;
    assert_eq!(bed.lease().unwrap().metadata.labels.unwrap()["theirs"], "x");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_retried_with_back_off() {
    let bed = Bed::new();
    bed.api.fail(ApiRule::always("", "leases", ApiFault::Reset));
    bed.node.send_replace(node("u"));
    sleep(Duration::from_secs(3600)).await;
    let tries = bed.api.requests().len();
    assert!((600..760).contains(&tries), "one each 3.5 to 7 s in the end, not {tries} in an hour");
    bed.api.heal();
    bed.fresh(Duration::from_secs(11)).await;
}
