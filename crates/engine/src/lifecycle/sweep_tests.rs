//! A hanging disk on an in-memory node: the sweep waits for it, pods do not.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::PodUid;
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Rule};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use super::testing::{Node, pod};
use super::{Janitor, KnownPods};
use crate::housekeeping::HostJanitor;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The parts of housekeeping that hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hangs {
    Nothing,
    Looking,
    Removing,
    Sharing,
}

/// Housekeeping on a host whose disk hangs on request. Blocked work continues afterwards.
struct OnBadDisk {
    janitor: HostJanitor,
    hangs: watch::Receiver<Hangs>,
    /// Number of pods of each distribution of shared resources.
    shared: Arc<Mutex<Vec<usize>>>,
}

impl OnBadDisk {
    async fn while_not(&self, step: Hangs) {
        self.hangs.clone().wait_for(|hangs| *hangs != step).await.unwrap();
    }
}

#[async_trait]
impl Janitor for OnBadDisk {
    async fn found(&self) -> HashSet<PodUid> {
        self.while_not(Hangs::Looking).await;
        self.janitor.found().await
    }

    async fn remove(&self, unknown: HashSet<PodUid>, known: KnownPods) {
        self.while_not(Hangs::Removing).await;
        self.janitor.remove(unknown, known).await;
    }

    async fn share(&self, active: Vec<Arc<AdmittedPod>>) {
        self.shared.lock().push(active.len());
        self.while_not(Hangs::Sharing).await;
        self.janitor.share(active).await;
    }

    fn forget(&self, known: &HashSet<PodUid>) {
        self.janitor.forget(known);
    }
}

fn node_on_bad_disk(hangs: &watch::Sender<Hangs>) -> Node {
    let hangs = hangs.subscribe();
    Node::with_janitor(move |janitor| {
        Arc::new(OnBadDisk { janitor, hangs: hangs.clone(), shared: Arc::default() })
    })
}

#[tokio::test(start_paused = true)]
async fn shared_resources_follow_the_pods_while_a_source_is_not_ready() {
    let shared = Arc::new(Mutex::new(Vec::new()));
    let (recorded, hangs) = (shared.clone(), watch::Sender::new(Hangs::Nothing).subscribe());
    let mut node = Node::with_janitor(move |janitor| {
        Arc::new(OnBadDisk { janitor, hangs: hangs.clone(), shared: recorded.clone() })
    });
    node.set_desired(false, [pod("web", "u1", &["c"]), pod("db", "u2", &["c"])]);
    sleep(5 * MINUTE).await;
    assert_eq!(*shared.lock(), [2], "once, for nothing else changed");
    node.set_desired(true, [pod("web", "u1", &["c"])]);
    sleep(MINUTE).await;
    assert_eq!(shared.lock().last(), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn pods_start_and_terminate_while_the_sweep_hangs() {
    for step in [Hangs::Looking, Hangs::Removing, Hangs::Sharing] {
        let hangs = watch::Sender::new(Hangs::Nothing);
        let mut node = node_on_bad_disk(&hangs);
        node.want([pod("web", "u1", &["c"])]);
        node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
        hangs.send_replace(step);
        // Several passes of housekeeping, all blocked by the disk.
        sleep(5 * MINUTE).await;
        node.leave_directory("left");
        node.want([pod("web", "u1", &["c"]), pod("db", "u2", &["c"])]);
        node.until("another runs", SECOND, |n| n.running("u2").len() == 1).await;
        node.want([pod("db", "u2", &["c"])]);
        node.until("and the first is gone", 10 * SECOND, |n| !n.has("u1")).await;

        hangs.send_replace(Hangs::Nothing);
        node.until("what was left is swept", 2 * MINUTE, |n| !n.directories().contains(&"left".to_owned()))
            .await;
        assert_eq!(node.running("u2").len(), 1, "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_added_again_waits_for_the_removal_of_its_leftovers() {
    let hangs = watch::Sender::new(Hangs::Removing);
    let mut node = node_on_bad_disk(&hangs);
    node.leave_directory("u1");
    node.want([]);
    sleep(5 * SECOND).await;
    // Its directory is being removed: a started pod would lose its new files.
    node.want([pod("web", "u1", &["c"]), pod("db", "u2", &["c"])]);
    node.until("the other runs", SECOND, |n| n.running("u2").len() == 1).await;
    sleep(5 * MINUTE).await;
    assert!(!node.has("u1"), "{}", node.picture());

    hangs.send_replace(Hangs::Nothing);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    sleep(5 * MINUTE).await;
    assert!(node.directories().iter().any(|d| d == "u1"), "{:?}", node.directories());
    assert_eq!((node.running("u1").len(), node.running("u2").len()), (1, 1));

    // One removed again before the end of the removal never starts.
    node.stop().await;
    node.leave_directory("u3");
    hangs.send_replace(Hangs::Removing);
    node.boot();
    sleep(5 * SECOND).await;
    let stay = [pod("web", "u1", &["c"]), pod("db", "u2", &["c"])];
    node.want(stay.iter().cloned().chain([pod("late", "u3", &["c"])]));
    sleep(5 * SECOND).await;
    node.want(stay);
    hangs.send_replace(Hangs::Nothing);
    sleep(5 * MINUTE).await;
    assert!(!node.has("u3") && !node.directories().contains(&"u3".to_owned()));
    assert!(node.changes_of("u3").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_may_still_be_in_the_runtime_keeps_its_directory() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    let kept = node.directories();
    node.stop().await;
    node.runtime.faults().add(Rule::new(Operation::ContainerStatus, Fault::Hang));
    node.want([]);
    node.boot();
    sleep(5 * MINUTE).await;
    assert_eq!(node.running("u1").len(), 1, "nobody can say what it is, so nobody ends it");
    assert_eq!(node.directories(), kept);

    node.runtime.faults().clear();
    node.runtime.faults().release();
    node.until("nothing is left", 2 * MINUTE, |n| !n.has("u1") && n.directories().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn what_hostlet_did_not_record_is_reported_and_left_alone() {
    let mut node = Node::new();
    let theirs = node.root().join("pods/theirs/volumes/data");
    std::fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    std::fs::write(&theirs, "precious").unwrap();
    let log = node.root().join("pod-logs/ns_db_theirs/db/0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "").unwrap();
    let link = node.root().join("container-logs/db_ns_db-0123456789ab.log");
    std::os::unix::fs::symlink(node.root().join("pod-logs/ns_db_theirs/db/1.log"), &link).unwrap();
    node.leave_directory("ours");
    node.want([pod("web", "u1", &["c"])]);
    node.until("hostlet's own is swept", MINUTE, |n| !n.directories().contains(&"ours".to_owned())).await;
    sleep(5 * MINUTE).await;
    assert!(theirs.exists() && log.exists() && link.is_symlink());
    let report = node.foreign().unwrap();
    assert!(report.contains("(UID theirs)") && report.contains("rm -r --one-file-system"), "{report}");
    assert!(!report.contains("u1") && !report.contains("ours"), "{report}");

    // Its owner removes it; and nothing of hostlet's own stays, also if it shows up after the pod.
    std::fs::remove_dir_all(node.root().join("pods/theirs")).unwrap();
    std::fs::remove_dir_all(node.root().join("pod-logs/ns_db_theirs")).unwrap();
    node.want([]);
    node.until("nothing is reported", 2 * MINUTE, |n| n.foreign().is_none()).await;
    node.until("the pod is gone", MINUTE, |n| !n.has("u1")).await;
    sleep(5 * MINUTE).await;
    node.leave_foreign_directory("u1");
    node.until("it is swept", 2 * MINUTE, |n| !n.directories().contains(&"u1".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_forgotten_while_the_host_cannot_be_listed() {
    let mut node = Node::new();
    node.want([pod("web", "u1", &["c"])]);
    node.until("it runs", SECOND, |n| n.running("u1").len() == 1).await;
    let (logs, elsewhere) = (node.root().join("pod-logs"), node.root().join("elsewhere"));
    std::fs::rename(&logs, &elsewhere).unwrap();
    std::fs::write(&logs, "no directory").unwrap();
    node.want([]);
    node.until("the pod is gone", MINUTE, |n| !n.has("u1")).await;
    sleep(30 * MINUTE).await;
    std::fs::remove_file(&logs).unwrap();
    std::fs::rename(&elsewhere, &logs).unwrap();
    node.until("its logs are swept", 2 * MINUTE, |n| n.directories().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_hostlet_takes_over_is_its_own_from_then_on() {
    let mut node = Node::new();
    hostlet_pod::testing::run(&node.runtime, &hostlet_base::PodRef::new("ns", "orphan", "u9"), None).await;
    node.leave_foreign_directory("u9");
    node.want([]);
    node.until("nothing is left", 5 * MINUTE, |n| !n.has("u9") && n.directories().is_empty()).await;
}
