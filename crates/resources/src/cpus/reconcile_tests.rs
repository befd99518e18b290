//! Starts with files that do not fit, each as users reported it.

use serde_json::json;

use super::*;
use crate::cpus::{CpuOptions, CpuReservation};
use crate::testing::{cpu_set, guaranteed, machine, pod};
use crate::topology::TopologyPolicy;

/// Four cores with two threads.
fn policy(options: CpuOptions, reserved: &str) -> Arc<StaticCpus> {
    let cpus = cpu_set(reserved);
    let milli = i64::try_from(cpus.len()).unwrap() * 1000;
    let reservation = CpuReservation { milli, cpus };
    let machine = Arc::new(machine(1, 1, 4, 2));
    Arc::new(StaticCpus::new(machine, options, &reservation, TopologyPolicy::None, true).unwrap())
}

fn file(shared: &str, own: &[(&str, &str)]) -> CpuCheckpoint {
    let containers =
        own.iter().map(|(uid, cpus)| ((*uid).to_owned(), BTreeMap::from([("c".to_owned(), cpu_set(cpus))])));
    let state = CpuState { shared: cpu_set(shared), containers: containers.collect(), pods: BTreeMap::new() };
    CpuCheckpoint { policy: STATIC.to_owned(), state }
}

/// What became of a file while these pods run on these CPUs.
fn reconciled(
    policy: Arc<StaticCpus>,
    file: Option<Result<CpuCheckpoint, CpuCheckpointError>>,
    running: &[(&Pod, &str)],
) -> (Cpus, Vec<String>) {
    let running = running.iter().map(|(pod, cpus)| RunningCpus {
        pod,
        cpus: if cpus.is_empty() {
            BTreeMap::new()
        } else {
            BTreeMap::from([("c".to_owned(), cpu_set(cpus))])
        },
    });
    let (cpus, findings) = Cpus::reconcile(policy, file, &running.collect::<Vec<_>>());
    (cpus, findings.iter().map(ToString::to_string).collect())
}

#[test]
fn a_file_that_fits_is_as_before() {
    let (own, ended) = (guaranteed("own", "2", 1), file("0-3,6-7", &[("own", "4-5")]));
    let (cpus, findings) =
        reconciled(policy(CpuOptions::default(), "0"), Some(Ok(ended.clone())), &[(&own, "")]);
    assert_eq!((cpus.state(), findings.as_slice()), (&ended.state, &[][..]));
    // The pod ended meanwhile.
    let (cpus, findings) = reconciled(policy(CpuOptions::default(), "0"), Some(Ok(ended)), &[]);
    assert_eq!((cpus.shared(), findings.as_slice()), (cpu_set("0-7"), &[][..]));
}

/// siderolabs/talos#7504, kubernetes/kubernetes#55736.
#[test]
fn another_policy_is_no_reason_not_to_start() {
    let none = CpuCheckpoint { policy: "none".to_owned(), state: CpuState::default() };
    let (shares, bound) = (guaranteed("shares", "2", 1), guaranteed("bound", "2", 1));
    let running = [(&shares, "0-7"), (&bound, "4-5")];
    let (cpus, findings) = reconciled(policy(CpuOptions::default(), "0"), Some(Ok(none)), &running);
    assert_eq!(cpus.assignment("bound", "c"), cpu_set("4-5"), "what it runs on is its own");
    assert_eq!(cpus.assignment("shares", "c"), cpu_set("0-3,6-7"));
    let adopted = "container c of pod bound keeps CPUs 4-5, on which it runs";
    assert_eq!(findings, ["the file is of policy \"none\"", adopted]);
}

#[test]
fn a_broken_file_is_replaced_by_what_runs() {
    let broken = CpuCheckpoint::decode(br#"{"policyName":"static","defaultCpuSet":"0-7","checksum":7}"#);
    let bound = guaranteed("bound", "2", 1);
    let (cpus, findings) = reconciled(policy(CpuOptions::default(), "0"), Some(broken), &[(&bound, "6-7")]);
    assert_eq!(cpus.assignment("bound", "c"), cpu_set("6-7"));
    assert!(findings[0].starts_with("the file has the checksum "), "{findings:?}");
}

/// kubernetes/kubernetes#124066, #110478, #84333.
#[test]
fn cpus_that_went_or_came_are_no_reason_not_to_start() {
    let (half, lost) = (guaranteed("half", "2", 1), guaranteed("lost", "2", 1));
    let before = file("0-3,6", &[("half", "7-8"), ("lost", "9-10")]);
    let (cpus, findings) =
        reconciled(policy(CpuOptions::default(), "0"), Some(Ok(before)), &[(&half, ""), (&lost, "")]);
    assert_eq!(cpus.assignment("half", "c"), cpu_set("7"));
    assert_eq!(cpus.assignment("lost", "c"), cpu_set("0-6"), "it shares the CPUs of the others");
    assert_eq!(
        findings,
        [
            "CPUs of the machine changed: added \"4-5\", removed \"8-10\"",
            "container c of pod half no longer has CPUs 8",
            "container c of pod lost no longer has CPUs 9-10",
        ]
    );
}

#[test]
fn cpus_that_are_reserved_now_are_kept_until_their_container_ends() {
    let strict = CpuOptions { strict_reservation: true, ..CpuOptions::default() };
    let own = guaranteed("own", "2", 1);
    let before = file("0-5", &[("own", "6-7")]);
    for (options, shared) in [(CpuOptions::default(), "0-7"), (strict, "0-5")] {
        let (mut cpus, findings) =
            reconciled(policy(options, "6-7"), Some(Ok(before.clone())), &[(&own, "")]);
        assert_eq!(cpus.assignment("own", "c"), cpu_set("6-7"));
        assert_eq!(findings, ["container c of pod own keeps CPUs 6-7, which are reserved now"]);
        cpus.release("own");
        assert_eq!(cpus.shared(), cpu_set(shared));
    }
}

#[test]
fn two_pods_never_keep_the_same_cpu() {
    let (first, second) = (guaranteed("a", "2", 1), guaranteed("b", "2", 1));
    let before = file("0-1", &[("a", "2-3"), ("b", "3-4")]);
    let (cpus, findings) =
        reconciled(policy(CpuOptions::default(), "0"), Some(Ok(before)), &[(&first, ""), (&second, "")]);
    assert_eq!((cpus.assignment("a", "c"), cpus.assignment("b", "c")), (cpu_set("2-3"), cpu_set("4")));
    assert_eq!(findings.last().unwrap(), "container c of pod b no longer has CPUs 3");
}

#[test]
fn with_nothing_left_to_share_all_cpus_are() {
    let all = guaranteed("all", "8", 1);
    let (cpus, findings) =
        reconciled(policy(CpuOptions::default(), "0"), Some(Ok(file("8", &[("all", "0-7")]))), &[(&all, "")]);
    assert_eq!(cpus.shared(), cpu_set("0-7"));
    assert_eq!(findings.last().unwrap(), "no CPUs are left for containers without CPUs of their own");
}

#[test]
fn cpus_of_a_pod_with_its_own_are_kept_together() {
    let own = json!({"cpu": "4", "memory": "1Mi"});
    let spec = json!({"resources": {"requests": own, "limits": own}, "containers": [{"name": "c"}]});
    let pod = pod("p", spec);
    let mut before = file("0-3", &[("p", "4-7")]);
    before.state.pods.insert("p".to_owned(), cpu_set("4-7"));
    let (mut cpus, findings) =
        reconciled(policy(CpuOptions::default(), "0"), Some(Ok(before.clone())), &[(&pod, "")]);
    assert_eq!((cpus.state(), findings.as_slice()), (&before.state, &[][..]));
    cpus.release("p");
    assert_eq!(cpus.shared(), cpu_set("0-7"));
}
