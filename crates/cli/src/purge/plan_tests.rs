//! Hosts and what a purge of each removes, or why it must not.

use super::*;
use crate::purge::facts::Unknown;

fn pod(name: &str) -> PodRef {
    PodRef::new("default", name, &format!("uid-of-{name}"))
}

fn facts(recorded: &[&str], in_runtime: &[&str]) -> PurgeFacts {
    PurgeFacts {
        daemon_runs: false,
        unit: DaemonUnit::Hostlet,
        recorded: Ok(recorded.iter().map(|name| (pod(name).uid, pod(name))).collect()),
        in_runtime: Ok(in_runtime.iter().map(|name| pod(name)).collect()),
        with_files: Ok(Default::default()),
        own_files: vec!["/var/lib/kubelet/hostlet".into()],
        socket: "/run/a.sock".into(),
        elsewhere: Vec::new(),
        other_kubelets: Ok(Vec::new()),
        common_files: Vec::new(),
        claims: Ok(Vec::new()),
        has_chains: true,
    }
}

#[test]
fn only_recorded_pods_and_own_files_are_removed() {
    let plan = purge_plan(facts(&["a", "gone"], &["a", "theirs"])).unwrap();
    assert_eq!(plan.pods, [pod("a")]);
    assert_eq!(plan.uids, [pod("a").uid, pod("gone").uid]);
    assert_eq!(plan.foreign, [pod("theirs")]);
    assert_eq!(plan.files, [PathBuf::from("/var/lib/kubelet/hostlet")]);
    let nothing = PurgeFacts { own_files: Vec::new(), ..facts(&[], &["theirs"]) };
    assert!(purge_plan(nothing).unwrap().is_empty(), "twice is once");
}

#[test]
fn common_files_are_removed_if_no_other_kubelet_was_here() {
    let with = |facts: PurgeFacts| {
        let checkpoints = PathBuf::from("/var/lib/kubelet/checkpoints");
        let facts = PurgeFacts { common_files: vec![checkpoints.clone()], ..facts };
        purge_plan(facts).unwrap().files.contains(&checkpoints)
    };
    assert!(with(facts(&["a"], &["a"])));
    assert!(with(PurgeFacts { with_files: Ok([pod("a").uid].into()), ..facts(&["a"], &[]) }));
    assert!(!with(facts(&["a"], &["a", "theirs"])));
    assert!(!with(PurgeFacts { with_files: Ok([pod("theirs").uid].into()), ..facts(&["a"], &[]) }));
    assert!(!with(PurgeFacts { own_files: Vec::new(), ..facts(&[], &[]) }));
    let unseen = || Unknown("no permission".to_owned());
    assert!(!with(PurgeFacts { with_files: Err(unseen()), ..facts(&["a"], &[]) }));
    assert!(!with(PurgeFacts { other_kubelets: Err(unseen()), ..facts(&[], &[]) }));
}

#[test]
fn pods_that_another_kubelet_took_over_are_left() {
    let taken = PurgeFacts { other_kubelets: Ok(vec![OtherKubelet::Process(7)]), ..facts(&["a"], &["a"]) };
    let plan = purge_plan(PurgeFacts { common_files: vec!["/checkpoints".into()], ..taken }).unwrap();
    assert_eq!((plan.pods, plan.uids, plan.has_chains), (Vec::new(), Vec::new(), false));
    assert_eq!(plan.foreign, [pod("a")]);
    assert_eq!(plan.files, [PathBuf::from("/var/lib/kubelet/hostlet")]);
    let unknown = |recorded: &[&str]| PurgeFacts {
        other_kubelets: Err(Unknown("no /proc".to_owned())),
        ..facts(recorded, &[])
    };
    assert_eq!(purge_plan(unknown(&["a"])), Err(Obstacle::KubeletsUnknown("no /proc".to_owned())));
    assert!(purge_plan(unknown(&[])).is_ok());
}

#[test]
fn claims_that_stay_prepared_are_named_unless_another_kubelet_has_them() {
    let claim = RecordedClaim {
        namespace: "ml".to_owned(),
        name: "gpu".to_owned(),
        drivers: vec!["gpu.example.com".to_owned()],
    };
    let with =
        |facts: PurgeFacts| purge_plan(PurgeFacts { claims: Ok(vec![claim.clone()]), ..facts }).unwrap();
    let common: Vec<PathBuf> = vec!["/cpu_manager_state".into(), "/dra_manager_state".into()];
    let plan = with(PurgeFacts { common_files: common.clone(), ..facts(&["a"], &["a"]) });
    assert_eq!(plan.claims, std::slice::from_ref(&claim));
    // Their record is for the next kubelet.
    assert!(plan.files.contains(&common[0]) && !plan.files.contains(&common[1]), "{:?}", plan.files);
    let plan = purge_plan(PurgeFacts { common_files: common.clone(), ..facts(&["a"], &["a"]) }).unwrap();
    assert!(common.iter().all(|file| plan.files.contains(file)), "{:?}", plan.files);
    let taken = PurgeFacts { other_kubelets: Ok(vec![OtherKubelet::Process(7)]), ..facts(&["a"], &["a"]) };
    assert!(with(taken).claims.is_empty());
    let damaged = PurgeFacts { claims: Err(Unknown("damaged".to_owned())), ..facts(&["a"], &["a"]) };
    assert_eq!(purge_plan(damaged).unwrap().unknown_claims.as_deref(), Some("damaged"));
}

#[test]
fn pods_of_another_runtime_are_not_taken_for_gone() {
    let other =
        |recorded: &[&str]| PurgeFacts { elsewhere: vec!["/run/crio.sock".into()], ..facts(recorded, &[]) };
    let obstacle = purge_plan(other(&["a"])).unwrap_err();
    assert!(matches!(obstacle, Obstacle::OtherRuntime { .. }), "{obstacle}");
    let text = obstacle.to_string();
    assert!(text.contains("ran on /run/crio.sock") && text.contains("names /run/a.sock"), "{text}");
    assert_eq!(purge_plan(other(&[])).unwrap().files.len(), 1, "no pod is left anywhere");
}

#[test]
fn the_chains_are_left_to_another_kubelet() {
    assert!(purge_plan(facts(&["a"], &["a"])).unwrap().has_chains);
    assert!(!purge_plan(facts(&["a"], &["a", "theirs"])).unwrap().has_chains);
    let of_another_runtime = PurgeFacts { with_files: Ok([pod("theirs").uid].into()), ..facts(&["a"], &[]) };
    assert!(!purge_plan(of_another_runtime).unwrap().has_chains);
    let never_here = PurgeFacts { own_files: Vec::new(), ..facts(&[], &[]) };
    assert!(!purge_plan(never_here).unwrap().has_chains);
}

#[test]
fn nothing_is_removed_while_pods_may_use_it() {
    let away = || Err(Unknown("no socket".to_owned()));
    let runs = PurgeFacts { daemon_runs: true, ..facts(&["a"], &["a"]) };
    let obstacle = purge_plan(PurgeFacts { unit: DaemonUnit::Kubelet, ..runs }).unwrap_err();
    assert_eq!(obstacle, Obstacle::DaemonRuns { unit: DaemonUnit::Kubelet });
    assert!(obstacle.to_string().contains("disable --now kubelet.service"), "{obstacle}");
    let gone = PurgeFacts { in_runtime: away(), ..facts(&["a"], &[]) };
    assert_eq!(purge_plan(gone), Err(Obstacle::RuntimeAway("no socket".to_owned())));
    let empty = PurgeFacts { in_runtime: away(), ..facts(&[], &[]) };
    assert_eq!(purge_plan(empty).unwrap().files.len(), 1, "no pod needs the runtime");
    let lost = |in_runtime: &[&str]| PurgeFacts {
        recorded: Err(Unknown("damaged".to_owned())),
        ..facts(&[], in_runtime)
    };
    assert!(matches!(purge_plan(lost(&["any"])), Err(Obstacle::StoreUnreadable(_))));
    assert!(purge_plan(lost(&[])).is_ok());
    let with_files = PurgeFacts { with_files: Ok([pod("a").uid].into()), ..lost(&[]) };
    assert!(matches!(purge_plan(with_files), Err(Obstacle::StoreUnreadable(_))));
}
