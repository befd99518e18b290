//! CPUs of containers: whose they are, and that they come back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cpus::{CpuCheckpoint, CpuOptions, CpuReservation, RunningCpus};
use crate::error::GrantError;
use crate::testing::{container, cpu_set, guaranteed, machine, main, pod};
use crate::topology::{Hint, TopologyPolicy};

fn cpus(machine: Machine, options: CpuOptions, reserved: i64) -> Cpus {
    let reservation = CpuReservation { milli: reserved * 1000, cpus: CpuSet::new() };
    let policy = StaticCpus::new(Arc::new(machine), options, &reservation, TopologyPolicy::None, true);
    Cpus::new(Arc::new(policy.unwrap()))
}

/// Grants every container of a pod its CPUs.
fn allocate(cpus: &mut Cpus, pod: &k8s_openapi::api::core::v1::Pod) -> Result<(), GrantError> {
    crate::containers::containers(pod)
        .try_for_each(|container| cpus.allocate(pod, container, Hint::default()))
}

#[test]
fn only_whole_cpus_of_guaranteed_pods_are_exclusive() {
    let mut cpus = cpus(machine(1, 1, 4, 2), CpuOptions::default(), 1);
    for shares in [
        guaranteed("fraction", "1500m", 1),
        pod("burstable", json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]})),
    ] {
        allocate(&mut cpus, &shares).unwrap();
        assert_eq!(cpus.assignment(shares.metadata.uid.as_deref().unwrap(), "c"), cpu_set("0-7"));
    }
    allocate(&mut cpus, &guaranteed("own", "2", 1)).unwrap();
    assert_eq!(cpus.assignment("own", "c"), cpu_set("2-3"));
    assert_eq!(cpus.shared(), cpu_set("0-1,4-7"));
    assert_eq!(cpus.allocatable(), cpu_set("1-7"));
    for (pod, is_exclusive) in
        [(guaranteed("own", "2", 1), true), (guaranteed("fraction", "1500m", 1), false)]
    {
        assert_eq!((cpus.is_exclusive(&pod, "c"), cpus.is_unlimited(&pod)), (is_exclusive, is_exclusive));
    }
    let full = allocate(&mut cpus.clone(), &guaranteed("large", "6", 1)).unwrap_err();
    assert_eq!(full, GrantError::NotEnoughCpus { requested: 6, available: 5 });
    cpus.release("own");
    assert_eq!(cpus.shared(), cpu_set("0-7"));
}

#[test]
fn whole_cores_are_rejected_in_upstreams_words() {
    let full = CpuOptions { full_pcpus_only: true, ..CpuOptions::default() };
    let mut cpus = cpus(machine(1, 1, 4, 2), full, 1);
    let rejected = |cpus: &Cpus, cpu: &str| {
        let rejection = allocate(&mut cpus.clone(), &guaranteed("p", cpu, 1)).unwrap_err().rejection();
        (rejection.reason.into_owned(), rejection.message)
    };
    let reason = "SMTAlignmentError".to_owned();
    let odd = "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2".to_owned();
    assert_eq!(rejected(&cpus, "3"), (reason.clone(), odd));
    allocate(&mut cpus, &guaranteed("other", "4", 1)).unwrap();
    // CPU 1 is free, but CPU 0 of its core is reserved.
    let few = "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, CPUs per core = 2".to_owned();
    assert_eq!(rejected(&cpus, "4"), (reason, few));
}

#[test]
fn later_containers_use_the_cpus_of_init_containers_but_not_of_sidecars() {
    let mut sidecar = container("side", "2", 1);
    sidecar["restartPolicy"] = "Always".into();
    let pod = pod(
        "p",
        json!({
            "initContainers": [container("init", "4", 1), sidecar, container("late", "2", 1)],
            "containers": [container("a", "2", 1), container("b", "2", 1)]
        }),
    );
    let mut cpus = cpus(machine(1, 1, 6, 2), CpuOptions::default(), 2);
    allocate(&mut cpus, &pod).unwrap();
    let own = |name: &str| cpus.state().container("p", name).cloned().unwrap();
    let main = own("a").union(&own("b"));
    assert!(own("side").is_subset(&own("init")), "the init container has ended before the sidecar starts");
    assert!(own("side").is_disjoint(&main) && own("a").is_disjoint(&own("b")));
    assert_eq!(cpus.state().exclusive().len(), 6);
    // kubernetes/kubernetes#52351, #112228: a container that completed gives its CPUs back, those in use excepted.
    for name in ["init", "late", "a"] {
        cpus.release_container("p", name);
    }
    assert_eq!(cpus.state().exclusive().len(), 4);
    cpus.release_container("p", "side");
    cpus.release_container("p", "b");
    assert_eq!(*cpus.state(), Cpus::new(Arc::clone(&cpus.policy)).state);
}

/// kubernetes/kubernetes#140989.
#[test]
fn a_pod_with_cpus_of_its_own_has_them_once() {
    let own = json!({"cpu": "4", "memory": "1Mi"});
    let pod = pod(
        "p",
        json!({
            "resources": {"requests": own, "limits": own},
            "containers": [container("a", "2", 1), {"name": "shares"}]
        }),
    );
    let mut cpus = cpus(machine(1, 1, 4, 2), CpuOptions::default(), 1);
    cpus.allocate_pod(&pod, Hint::default()).unwrap();
    let (before, hints) = (cpus.state().clone(), cpus.pod_hints(&pod));
    assert_eq!(cpus.assignment("p", "a").union(&cpus.assignment("p", "shares")), before.pods["p"]);
    assert!(cpus.assignment("p", "a").is_disjoint(&cpus.assignment("p", "shares")));
    // Only the time on CPUs that a container has alone is not limited, and that of the pod if it has only such containers.
    assert!(cpus.is_exclusive(&pod, "a") && !cpus.is_exclusive(&pod, "shares") && !cpus.is_unlimited(&pod));
    let mut alone = pod.clone();
    alone.spec.as_mut().unwrap().containers.pop();
    assert!(cpus.is_unlimited(&alone));
    cpus.allocate_pod(&pod, Hint::default()).unwrap();
    assert_eq!(*cpus.state(), before);
    assert_eq!(hints["cpu"].len(), 1, "its hints are those of the CPUs that it has");
    cpus.release_container("p", "a");
    assert_eq!(cpus.state().exclusive(), before.pods["p"]);
    cpus.release_container("p", "shares");
    assert!(cpus.state().exclusive().is_empty());
}

#[test]
fn what_leaves_nothing_to_containers_that_share_is_rejected() {
    let own = json!({"cpu": "2", "memory": "1Mi"});
    let pod = pod(
        "p",
        json!({
            "resources": {"requests": own, "limits": own},
            "containers": [container("a", "2", 1), {"name": "shares"}]
        }),
    );
    let mut cpus = cpus(machine(1, 1, 4, 2), CpuOptions::default(), 1);
    assert_eq!(cpus.allocate_pod(&pod, Hint::default()), Err(GrantError::NoSharedCpus));
    assert_eq!(cpus.pod_hints(&pod)["cpu"], []);
    assert_eq!(GrantError::NoSharedCpus.rejection().reason, "EmptyPodSharedPoolError");
}

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    Add {
        uid: u8,
        init: u8,
        main: Vec<u8>,
    },
    Remove(u8),
    End(u8, u8),
    /// The daemon starts again; so many CPUs are gone, and the file may be lost.
    Restart {
        removed: Vec<u32>,
        is_lost: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let add = (0_u8..6, 0_u8..6, proptest::collection::vec(1_u8..6, 1..3));
    prop_oneof![
        4 => add.prop_map(|(uid, init, main)| Step::Add { uid, init, main }),
        2 => (0_u8..6).prop_map(Step::Remove),
        1 => (0_u8..6, 0_u8..3).prop_map(|(uid, at)| Step::End(uid, at)),
        1 => (proptest::collection::vec(0_u32..32, 0..4), any::<bool>()).prop_map(|(removed, is_lost)| Step::Restart { removed, is_lost }),
    ]
}

fn options() -> impl Strategy<Value = CpuOptions> {
    (any::<[bool; 4]>(), 0..4).prop_map(|([full, by_socket, strict, _], distribution)| CpuOptions {
        full_pcpus_only: full && distribution != 1,
        align_by_socket: by_socket,
        strict_reservation: strict,
        distribute_across_cores: distribution == 1,
        distribute_across_numa: distribution == 2,
        prefer_align_by_cache: distribution == 3,
    })
}

fn check(cpus: &Cpus) -> Result<(), TestCaseError> {
    let state = cpus.state();
    let mut all = state.shared.clone();
    for own in state.containers.values() {
        let own = own.values().fold(CpuSet::new(), |own, cpus| own.union(cpus));
        prop_assert!(own.is_disjoint(&all), "{state:?}");
        all = all.union(&own);
    }
    let machine = cpus.machine().all_cpus();
    prop_assert!(all.is_subset(&machine));
    prop_assert_eq!(all.union(&cpus.policy.reserved), machine);
    prop_assert!(!cpus.shared().is_empty());
    Ok(())
}

proptest! {
    /// CPUs are never of two pods, never more than there are, and all come back, whatever the machine loses in between.
    #[test]
    fn cpus_are_never_shared_by_accident_and_always_come_back(
        (nodes, per_socket, cores, threads) in (1_u32..5, 1_u32..3, 1_u32..5, 1_u32..3),
        options in options(),
        steps in proptest::collection::vec(step(), 1..24),
    ) {
        let mut cpus = cpus(machine(nodes, per_socket, cores, threads), options, 1);
        let mut pods = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add { uid, init, main } => {
                    let mut spec = json!({"containers": main.iter().enumerate().map(|(at, cpu)| container(&format!("{at}"), &cpu.to_string(), 1)).collect::<Vec<_>>()});
                    if init > 0 {
                        spec["initContainers"] = json!([container("init", &init.to_string(), 1)]);
                    }
                    let pod = pod(&uid.to_string(), spec);
                    let mut next = cpus.clone();
                    if !pods.contains_key(&uid) && allocate(&mut next, &pod).is_ok() {
                        for (at, own) in main.iter().enumerate() {
                            prop_assert_eq!(next.assignment(&uid.to_string(), &at.to_string()).len(), usize::from(*own));
                        }
                        cpus = next;
                        pods.insert(uid, pod);
                    }
                }
                Step::Remove(uid) => {
                    cpus.release(&uid.to_string());
                    pods.remove(&uid);
                }
                Step::End(uid, at) => cpus.release_container(&uid.to_string(), &at.to_string()),
                Step::Restart { removed, is_lost } => {
                    let mut machine = cpus.machine().clone();
                    machine.cpus.retain(|cpu, _| !removed.contains(cpu) || cpus.policy.reserved.contains(*cpu));
                    let before = cpus.state().clone();
                    let reservation = CpuReservation { milli: 1000, cpus: cpus.policy.reserved.clone() };
                    let policy = StaticCpus::new(Arc::new(machine), options, &reservation, TopologyPolicy::None, true).unwrap();
                    let running: Vec<RunningCpus<'_>> = pods.iter().map(|(uid, pod)| RunningCpus {
                        pod,
                        cpus: before.containers.get(&uid.to_string()).cloned().unwrap_or_default(),
                    }).collect();
                    let file = CpuCheckpoint { policy: "static".to_owned(), state: before.clone() };
                    let file = CpuCheckpoint::decode(file.encode().unwrap().as_bytes());
                    let all = policy.machine().all_cpus();
                    cpus = Cpus::reconcile(Arc::new(policy), Some(file).filter(|_| !is_lost), &running).0;
                    if !is_lost {
                        for (uid, containers) in &before.containers {
                            for (name, own) in containers {
                                let kept = cpus.state().container(uid, name).cloned().unwrap_or_default();
                                prop_assert_eq!(kept, own.intersection(&all));
                            }
                        }
                    }
                }
            }
            check(&cpus)?;
        }
        for uid in pods.keys() {
            cpus.release(&uid.to_string());
        }
        prop_assert_eq!(&cpus.state().shared, &cpus.policy.usable());
        prop_assert!(cpus.state().containers.is_empty() && cpus.state().pods.is_empty());
    }
}

#[test]
fn a_pod_that_is_admitted_again_keeps_its_cpus() {
    let mut cpus = cpus(machine(2, 1, 2, 2), CpuOptions::default(), 1);
    let pod = guaranteed("p", "2", 1);
    allocate(&mut cpus, &pod).unwrap();
    let (before, hints) = (cpus.state().clone(), cpus.hints(&pod, main(&pod, 0)));
    allocate(&mut cpus, &pod).unwrap();
    assert_eq!(*cpus.state(), before);
    assert_eq!(hints["cpu"].iter().filter(|hint| hint.preferred).count(), 1);
    // With another request it does not fit any node.
    let resized = guaranteed("p", "3", 1);
    assert_eq!(cpus.hints(&resized, main(&resized, 0))["cpu"], []);
}
