//! Kills of pods on an in-memory node: no kill is lost, the latest one counts, and one that takes too long is reported.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::PodUid;
use hostlet_pod::{AdmittedPod, PodKill, PodPhase, StatusOverride};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, OnTerm, Rule, Script};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod};
use super::{Janitor, KnownPods};
use crate::housekeeping::HostJanitor;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn kill(reason: &str, grace_seconds: Option<i64>, evict: bool) -> PodKill {
    let status = StatusOverride {
        phase: PodPhase::Failed,
        reason: reason.to_owned(),
        message: String::new(),
        disruption: None,
    };
    PodKill { status, grace_seconds, evict }
}

fn reason(node: &Node, uid: &str) -> Option<String> {
    node.status(uid)?.reason.clone()
}

/// Housekeeping on a host whose disk hangs during removals while a test requests it.
struct SlowRemoval(HostJanitor, watch::Receiver<bool>);

#[async_trait]
impl Janitor for SlowRemoval {
    async fn found(&self) -> HashSet<PodUid> {
        self.0.found().await
    }

    async fn remove(&self, unknown: HashSet<PodUid>, known: KnownPods) {
        self.1.clone().wait_for(|hangs| !hangs).await.unwrap();
        self.0.remove(unknown, known).await;
    }

    async fn share(&self, active: Vec<Arc<AdmittedPod>>) {
        self.0.share(active).await;
    }

    fn forget(&self, known: &HashSet<PodUid>) {
        self.0.forget(known);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_delayed_by_a_sweep_is_killed_when_it_starts() {
    let hangs = watch::Sender::new(true);
    let seen = hangs.subscribe();
    let mut node = Node::with_janitor(move |janitor| Arc::new(SlowRemoval(janitor, seen.clone())));
    node.leave_directory("u1");
    node.want([]);
    sleep(5 * SECOND).await;
    let of_api = pod("web", "u1", &["c"]);
    node.want([of_api.edited(|pod| pod.metadata.annotations = None)]);
    node.kill("u1", kill("Evicted", None, true));
    sleep(5 * SECOND).await;
    assert!(node.status("u1").is_none(), "it waits for the sweep");
    hangs.send_replace(false);
    node.until("it ended", MINUTE, |n| reason(n, "u1").as_deref() == Some("Evicted")).await;
    assert_eq!(node.phase("u1").as_deref(), Some("Failed"));
    sleep(5 * MINUTE).await;
    assert!(node.changes_of("u1").is_empty(), "it was killed before it began: {}", node.picture());
}

#[tokio::test(start_paused = true)]
async fn a_pod_recreated_with_its_uid_runs_and_can_be_killed_again() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", 5 * SECOND, |n| n.running("u1").len() == 1).await;
    for _ in 0..2 {
        node.kill("u1", kill("Evicted", None, true));
        node.until("it ended", MINUTE, |n| n.running("u1").is_empty()).await;
        // Its absence was never observed.
        node.want([pod("web", "u1", &["c"])]);
        node.until("it runs anew", 2 * MINUTE, |n| n.running("u1").len() == 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_latest_grace_period_and_status_apply() {
    let mut node = Node::new();
    node.runtime.script("c", Script::forever().on_term(OnTerm::Ignores));
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", 5 * SECOND, |n| n.running("u1").len() == 1).await;
    node.kill("u1", kill("Slowly", None, false));
    let requested_at = Instant::now();
    sleep(5 * SECOND).await;
    assert_eq!(node.running("u1").len(), 1, "it has 30 s");
    node.kill("u1", kill("AtOnce", Some(2), false));
    node.until("it ended", MINUTE, |n| n.running("u1").is_empty()).await;
    assert!(requested_at.elapsed() < 10 * SECOND, "{:?}", requested_at.elapsed());
    node.until("the later reason is reported", MINUTE, |n| reason(n, "u1").as_deref() == Some("AtOnce"))
        .await;
    sleep(5 * MINUTE).await;
    assert!(node.has("u1"), "its containers are kept, as nobody needs back what it holds");
    assert_eq!(node.events_of("u1", "ExceededGracePeriod"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_takes_too_long_is_reported_once() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"]), pod("db", "u2", &["c"])]);
    node.until("they run", 5 * SECOND, |n| ["u1", "u2"].iter().all(|uid| n.running(uid).len() == 1)).await;
    let hung = Fault::Hang;
    node.runtime.faults().add(Rule::new(Operation::StopContainer, hung).pod(&"u1".into()));
    node.kill("u1", kill("Evicted", Some(20), true));
    node.kill("u2", kill("Evicted", Some(20), true));
    let is_reported = |n: &Node| n.events_of("u1", "ExceededGracePeriod") == 1;
    sleep(29 * SECOND).await;
    assert!(!is_reported(&node), "one and a half times its grace period are not over");
    node.until("it is reported", 2 * SECOND, is_reported).await;
    sleep(5 * MINUTE).await;
    assert!(is_reported(&node));
    assert_eq!(node.events_of("u2", "ExceededGracePeriod"), 0, "its neighbour ended in time");
}
