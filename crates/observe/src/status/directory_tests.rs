//! Which version of a pod a name refers to.

use hostlet_base::CONFIG_SEEN_ANNOTATION;
use hostlet_pod::{AdmittedPod, Rejection, testing};

use super::*;

/// A version of the pod `default/web`, which its source named at this second.
fn version(uid: &str, second: i64) -> Pod {
    let mut pod = testing::pod("web", uid, "Always", &["c"]);
    let seen = Timestamp::from_second(second).unwrap().to_string();
    pod.metadata.annotations.get_or_insert_default().insert(CONFIG_SEEN_ANNOTATION.to_owned(), seen);
    pod
}

/// A version with this lifecycle, of which `runs` says whether a container still runs.
fn reported(uid: &str, second: i64, lifecycle: LifecycleSummary, runs: bool) -> PodStatusEntry {
    let is_stopping = runs && lifecycle != LifecycleSummary::Active;
    PodStatusEntry {
        pod: AdmittedPod::new(version(uid, second)),
        status: Arc::default(),
        terminating_since: is_stopping.then_some(Timestamp::UNIX_EPOCH),
        lifecycle,
        has_released: false,
    }
}

fn rejected(uid: &str, second: i64) -> RejectedPod {
    RejectedPod::new(&Arc::new(version(uid, second)), Rejection::new("OutOfpods", "no"))
}

fn directory(reported: Vec<PodStatusEntry>, rejected: Vec<RejectedPod>) -> PodDirectory {
    let statuses = StatusCache::default();
    for entry in reported {
        statuses.report(entry);
    }
    PodDirectory::new(statuses, watch::channel(rejected).1, watch::channel(ApiState::default()).1)
}

fn found(directory: &PodDirectory) -> String {
    directory.find("default", "web").unwrap().reference().uid.to_string()
}

#[test]
fn of_two_versions_the_lifecycles_decide_which_one_is_found() {
    use LifecycleSummary::{Active, Terminated, Terminating};
    // Repeated, because the order of a map differs between maps.
    for _ in 0..50 {
        let of = |lifecycle, runs| reported("old", 1, lifecycle, runs);
        for old in [of(Terminating, true), of(Terminating, false), of(Terminated, false)] {
            let why = format!("{:?}, {:?}", old.lifecycle, old.terminating_since);
            let both = directory(vec![old.clone(), reported("new", 2, Active, true)], Vec::new());
            assert_eq!(found(&both), "new", "{why}");
            assert_eq!(both.all().len(), 2, "{why}");
            // The order in which sources named them does not matter.
            let back = directory(vec![old.clone(), reported("new", 0, Active, true)], Vec::new());
            assert_eq!(found(&back), "new", "{why}");
            assert_eq!(found(&directory(vec![old], Vec::new())), "old", "{why}");
        }
        let two = vec![of(Terminating, false), reported("older", 0, Terminated, false)];
        assert_eq!(found(&directory(two, Vec::new())), "old");
        let two = vec![of(Terminated, false), reported("older", 0, Terminated, false)];
        assert_eq!(found(&directory(two, Vec::new())), "old");
    }
}

#[test]
fn a_pod_that_is_marked_for_deletion_stays_so() {
    use LifecycleSummary::{Terminated, Terminating};
    let marked = Time(Timestamp::from_second(9).unwrap());
    for (lifecycle, runs) in [(Terminating, true), (Terminating, false), (Terminated, false)] {
        let mut entry = reported("web", 1, lifecycle, runs);
        let own = DirectoryEntry::Reported(entry.clone()).with_status().metadata.deletion_timestamp;
        assert_eq!(own, runs.then_some(Time(Timestamp::UNIX_EPOCH)));
        let mut pod = version("web", 1);
        pod.metadata.deletion_timestamp = Some(marked.clone());
        entry.pod = AdmittedPod::new(pod);
        let pod = DirectoryEntry::Reported(entry).with_status();
        assert_eq!(pod.metadata.deletion_timestamp.as_ref(), Some(&marked));
    }
}

#[test]
fn a_rejected_version_is_found_once_the_older_one_has_terminated() {
    use LifecycleSummary::{Active, Terminated, Terminating};
    for (lifecycle, uid) in [(Active, "old"), (Terminating, "old"), (Terminated, "new")] {
        let both = directory(vec![reported("old", 1, lifecycle, false)], vec![rejected("new", 2)]);
        assert_eq!(found(&both), uid, "{lifecycle:?}");
        assert_eq!(both.all().len(), 2);
        let entry = both.all().remove(&PodUid::from("new")).unwrap();
        assert_eq!((entry.lifecycle(), entry.has_released()), (Terminated, true));
        assert_eq!(entry.with_status().status.unwrap().reason.as_deref(), Some("OutOfpods"));
        // The same manifest again has the same UID.
        let same = directory(vec![reported("web", 1, lifecycle, false)], vec![rejected("web", 2)]);
        let all = same.sorted();
        let is_rejected = all.iter().map(|entry| matches!(entry, DirectoryEntry::Rejected(_)));
        assert_eq!(is_rejected.collect::<Vec<_>>(), [lifecycle == Terminated], "{lifecycle:?}");
    }
    assert!(directory(Vec::new(), vec![rejected("new", 2)]).find("default", "other").is_none());
    assert!(directory(Vec::new(), vec![rejected("new", 2)]).find("other", "web").is_none());
}

#[tokio::test(start_paused = true)]
async fn every_change_is_signalled_once() {
    let (statuses, rejected_in) = (StatusCache::default(), watch::Sender::new(Vec::new()));
    let api = watch::channel(ApiState::default()).1;
    let directory = PodDirectory::new(statuses.clone(), rejected_in.subscribe(), api);
    let mut changes = directory.changes();
    let before = changes.mark_seen();
    statuses.report(reported("a", 1, LifecycleSummary::Active, true));
    changes.changed().await.unwrap();
    rejected_in.send_replace(vec![rejected("b", 1)]);
    changes.changed().await.unwrap();
    assert_eq!(changes.mark_seen(), before + 1);
    assert!(futures::FutureExt::now_or_never(changes.changed()).is_none());
}
