//! The plan of pods with main containers only, case by case and against the model.

use std::collections::BTreeSet;

use hostlet_base::ContainerId;
use hostlet_base::testing::at;
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::testing::{container, exited, pod, sandbox};
use hostlet_pod::{AdmittedPod, ContainerKind, ContainerRef};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};
use proptest::prelude::*;
use serde_json::json;

use super::actions::*;
use super::testing::*;

fn planned(policy: &str, names: &[&str], observed: &PodStatus) -> Plan {
    restarted(policy, names, observed, &BTreeSet::new())
}

fn restarted(policy: &str, names: &[&str], observed: &PodStatus, restarts: &BTreeSet<ContainerId>) -> Plan {
    let pod = AdmittedPod::new(pod("p", "u", policy, names));
    Scene { restarts: restarts.clone(), ..Scene::of(&pod) }.plan(observed)
}

fn main(name: &str) -> ContainerRef {
    ContainerRef { kind: ContainerKind::Main, name: name.to_owned() }
}

#[test]
fn a_new_pod_gets_a_sandbox_and_all_its_containers() {
    let nothing = observed(vec![], vec![]);
    let plan = planned("Always", &["a", "b"], &nothing);
    assert!(matches!(plan.sandbox, SandboxPlan::Create { attempt: 0, .. }));
    assert_eq!(names_of(&plan.start), ["a", "b"]);
    assert!(!plan.has_ended);
}

#[test]
fn a_running_pod_needs_nothing() {
    let fine = observed(vec![ready()], vec![container("a", 0, ContainerState::Running)]);
    assert!(planned("Always", &["a"], &fine).is_empty(&fine));
}

#[test]
fn each_flaw_of_the_sandbox_asks_for_a_new_one() {
    let without_ip = SandboxStatus { ips: vec![], ..ready() };
    let of_host = SandboxStatus { host_network: true, ..ready() };
    let twins = vec![sandbox(1, SandboxState::Ready), ready()];
    for (sandboxes, attempt, word) in [
        (vec![], 0, "No sandbox"),
        (vec![dead()], 1, "No ready sandbox"),
        (vec![without_ip], 1, "IP address"),
        (vec![of_host], 1, "has changed"),
        (twins, 2, "Multiple"),
    ] {
        match planned("Always", &["a"], &observed(sandboxes, vec![])).sandbox {
            SandboxPlan::Create { attempt: n, reason } => {
                assert_eq!(n, attempt, "{word}");
                assert!(reason.contains(word), "{reason}");
            }
            other => panic!("{word}: {other:?}"),
        }
    }
}

#[test]
fn restart_policies_decide_over_ended_containers() {
    for (policy, code, starts, ends) in [
        ("Always", 0, true, false),
        ("Always", 1, true, false),
        ("OnFailure", 0, false, true),
        ("OnFailure", 1, true, false),
        ("Never", 0, false, true),
        ("Never", 1, false, true),
    ] {
        let status = observed(vec![ready()], vec![exited("a", 0, code)]);
        let plan = planned(policy, &["a"], &status);
        assert_eq!(!plan.start.is_empty(), starts, "{policy} {code}");
        assert_eq!(plan.has_ended, ends, "{policy} {code}");
        assert_eq!(matches!(plan.sandbox, SandboxPlan::Stop), ends, "{policy} {code}");
    }
}

#[test]
fn one_ended_container_does_not_end_the_pod() {
    let status = observed(vec![ready()], vec![exited("a", 0, 0), container("b", 0, ContainerState::Running)]);
    let plan = planned("Never", &["a", "b"], &status);
    assert!(!plan.has_ended && plan.is_empty(&status));
}

#[test]
fn a_crashing_container_waits_out_its_back_off() {
    let mut loops = loops();
    let end = at(NOW - 3);
    loops.restarted(&exited("a", 0, 1), at(NOW - 5));
    let status = ContainerStatus { finished_at: Some(end), hash: Some(HASH), ..exited("a", 1, 1) };
    // The entry is kept by name and hash.
    loops.restarted(&ContainerStatus { finished_at: Some(at(NOW - 6)), ..status.clone() }, at(NOW - 5));
    let seen = observed(vec![ready()], vec![status]);
    let pod = AdmittedPod::new(pod("p", "u", "Always", &["a"]));
    let plan = Scene { loops, ..Scene::of(&pod) }.plan(&seen);
    assert!(plan.start.is_empty());
    assert_eq!(plan.backing_off.len(), 1);
    assert!(plan.backing_off[0].until > at(NOW));
    assert!(matches!(plan.sandbox, SandboxPlan::Keep(_)));
}

#[test]
fn a_changed_definition_replaces_a_running_container_whatever_the_policy() {
    let old = ContainerStatus { hash: Some(1), ..container("a", 0, ContainerState::Running) };
    for policy in ["Always", "OnFailure", "Never"] {
        let plan = planned(policy, &["a"], &observed(vec![ready()], vec![old.clone()]));
        assert_eq!(plan.kill[0].message, "Container a definition changed, will be restarted");
        assert_eq!(plan.start, [Start { container: main("a"), adopt: None, replace: None }]);
    }
}

#[test]
fn a_requested_restart_replaces_that_instance_whatever_the_policy() {
    let (running, ended) = (container("a", 0, ContainerState::Running), exited("a", 0, 0));
    let requested = BTreeSet::from([running.id.clone()]);
    for policy in ["Always", "OnFailure", "Never"] {
        let runs = observed(vec![ready()], vec![running.clone()]);
        let plan = restarted(policy, &["a"], &runs, &requested);
        assert_eq!(plan.kill[0].message, "Container a will be restarted on request");
        assert_eq!(plan.start, [Start { container: main("a"), adopt: None, replace: None }]);
        // Cut short after the stop: its exit code does not end the pod.
        let cut = observed(vec![ready()], vec![ended.clone()]);
        let plan = restarted(policy, &["a"], &cut, &requested);
        assert_eq!((names_of(&plan.start), plan.has_ended), (vec!["a"], false), "{policy}");
        // The next instance is not restarted again.
        let next = observed(vec![ready()], vec![container("a", 1, ContainerState::Running), ended.clone()]);
        assert!(restarted(policy, &["a"], &next, &requested).is_empty(&next));
    }
}

#[test]
fn a_requested_restart_waits_for_no_back_off() {
    let mut loops = loops();
    let status = ContainerStatus { hash: Some(HASH), ..exited("a", 1, 1) };
    let status = ContainerStatus { finished_at: Some(at(NOW - 3)), ..status };
    loops.restarted(&ContainerStatus { finished_at: Some(at(NOW - 6)), ..status.clone() }, at(NOW - 5));
    let seen = observed(vec![ready()], vec![status.clone()]);
    let pod = AdmittedPod::new(pod("p", "u", "Always", &["a"]));
    let started =
        |restarts| Scene { restarts, loops: loops.clone(), ..Scene::of(&pod) }.plan(&seen).start.len();
    assert_eq!((started(BTreeSet::new()), started([status.id].into())), (0, 1));
}

#[test]
fn a_container_made_but_not_started_is_adopted_only_in_its_own_sandbox() {
    let made = container("a", 0, ContainerState::Created);
    let plan = planned("Always", &["a"], &observed(vec![ready()], vec![made.clone()]));
    assert_eq!(plan.start, [Start { container: main("a"), adopt: Some(made.id.clone()), replace: None }]);
    assert!(plan.leftovers.containers.is_empty());
    let elsewhere = ContainerStatus { sandbox: Some("other".into()), ..made.clone() };
    let plan = planned("Always", &["a"], &observed(vec![ready()], vec![elsewhere]));
    assert_eq!(plan.start, [Start { container: main("a"), adopt: None, replace: Some(made.id) }]);
    // Removed first: the new one has the same name.
    assert!(plan.leftovers.containers.is_empty());
}

#[test]
fn a_pod_that_never_restarts_gets_no_second_sandbox() {
    let lost = observed(vec![dead()], vec![container("a", 0, ContainerState::Unknown)]);
    let plan = planned("Never", &["a"], &lost);
    assert!(matches!(plan.sandbox, SandboxPlan::Stop) && plan.has_ended && plan.start.is_empty());
    let never_ran = observed(vec![dead()], vec![]);
    let plan = planned("Never", &["a"], &never_ran);
    assert!(matches!(plan.sandbox, SandboxPlan::Create { attempt: 1, .. }));
}

#[test]
fn one_dead_instance_of_each_container_is_kept() {
    let status = observed(
        vec![ready()],
        vec![
            container("a", 3, ContainerState::Running),
            exited("a", 2, 1),
            exited("a", 1, 1),
            exited("a", 0, 1),
        ],
    );
    let plan = planned("Always", &["a"], &status);
    assert_eq!(plan.leftovers.containers, ["a-1".into(), "a-0".into()]);
}

#[test]
fn running_containers_of_every_kind_are_at_home_in_their_pod() {
    let pod = AdmittedPod::new(pod("p", "u", "Always", &["a"])).edited(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        let sidecar = json!([{"name": "sidecar", "restartPolicy": "Always"}]);
        spec.init_containers = serde_json::from_value(sidecar).unwrap();
        spec.ephemeral_containers = serde_json::from_value(json!([{"name": "debug"}])).unwrap();
    });
    let running = |name| container(name, 0, ContainerState::Running);
    let all = observed(vec![ready()], ["a", "sidecar", "debug", "stranger"].map(running).to_vec());
    let plan = Scene::of(&pod).plan(&all);
    assert_eq!(plan.kill.iter().map(|kill| kill.name.as_str()).collect::<Vec<_>>(), ["stranger"]);
}

#[test]
fn twins_and_strangers_are_stopped() {
    let twin = ContainerStatus { id: "twin".into(), ..container("a", 0, ContainerState::Running) };
    let status = observed(
        vec![ready()],
        vec![container("a", 1, ContainerState::Running), twin, container("x", 0, ContainerState::Running)],
    );
    let killed: Vec<_> = planned("Always", &["a"], &status).kill.into_iter().map(|k| k.id).collect();
    assert_eq!(killed, ["twin".into(), "x-0".into()]);
}

fn any_container(name: &'static str) -> impl Strategy<Value = Vec<ContainerStatus>> {
    let state = prop_oneof![
        Just(ContainerState::Created),
        Just(ContainerState::Running),
        Just(ContainerState::Exited),
        Just(ContainerState::Unknown),
    ];
    let one = (state, 0i32..2, any::<bool>(), 0u32..2);
    prop::collection::vec(one, 0..4).prop_map(move |instances| {
        let mut all: Vec<_> = instances
            .into_iter()
            .enumerate()
            .map(|(n, (state, code, same_hash, sandbox))| ContainerStatus {
                state,
                exit_code: code,
                hash: Some(if same_hash { HASH } else { 1 }),
                sandbox: Some(format!("s{sandbox}").into()),
                ..exited(name, u32::try_from(n).unwrap(), code)
            })
            .collect();
        all.reverse();
        all
    })
}

fn any_world() -> impl Strategy<Value = World> {
    let sandboxes = prop::collection::vec(any::<bool>(), 0..3).prop_map(|ready| {
        let mut all: Vec<_> = ready
            .into_iter()
            .enumerate()
            .map(|(n, ready)| {
                let state = if ready { SandboxState::Ready } else { SandboxState::NotReady };
                sandbox(u32::try_from(n).unwrap(), state)
            })
            .collect();
        all.reverse();
        all
    });
    (sandboxes, any_container("a"), any_container("b")).prop_map(|(sandboxes, a, b)| World {
        status: observed(sandboxes, a.into_iter().chain(b).collect()),
        made: 0,
    })
}

fn any_policy() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")]
}

const NAMES: [&str; 2] = ["a", "b"];

fn converge(world: &mut World, policy: &str) -> usize {
    for round in 0..8 {
        let plan = planned(policy, &NAMES, &world.status);
        if plan.is_empty(&world.status) {
            return round;
        }
        world.apply(&plan, usize::MAX);
    }
    panic!("does not converge: {world:#?}\n{:#?}", planned(policy, &NAMES, &world.status));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// After a plan was performed there is nothing to start or stop; at most leftovers of the old instances to remove.
    #[test]
    fn a_plan_applied_to_its_own_result_is_empty(mut world in any_world(), policy in any_policy()) {
        let first = planned(policy, &NAMES, &world.status);
        world.apply(&first, usize::MAX);
        let second = planned(policy, &NAMES, &world.status);
        prop_assert!(second.start.is_empty() && second.kill.is_empty(), "{second:?}");
        let makes_sandbox = matches!(second.sandbox, SandboxPlan::Create { .. });
        prop_assert!(!makes_sandbox, "{second:?}");
        converge(&mut world, policy);
    }

    /// A daemon killed between any two actions reaches the same result, and nothing runs twice.
    #[test]
    fn a_plan_cut_short_anywhere_converges_to_the_same_end(
        world in any_world(), policy in any_policy(), cut in 0usize..12,
    ) {
        let mut whole = world.clone();
        converge(&mut whole, policy);
        let mut broken = world;
        let first = planned(policy, &NAMES, &broken.status);
        broken.apply(&first, cut);
        converge(&mut broken, policy);
        for (name, running) in broken.shape(&NAMES) {
            prop_assert!(running <= 1, "{name} runs {running} times");
        }
        // Under Always the result is the same. Otherwise a container that terminated at the interruption stays terminated.
        if policy == "Always" {
            prop_assert_eq!(whole.shape(&NAMES), broken.shape(&NAMES));
        }
    }

    /// Requested restarts converge too, also cut short, and replace each of these instances at most once.
    #[test]
    fn requested_restarts_converge(mut world in any_world(), policy in any_policy(), cut in 0usize..12) {
        let newest = NAMES.iter().filter_map(|name| world.status.container(name));
        let requested: BTreeSet<ContainerId> = newest.map(|c| c.id.clone()).collect();
        let first = restarted(policy, &NAMES, &world.status, &requested);
        world.apply(&first, cut);
        let mut made = Vec::new();
        for _ in 0..8 {
            let plan = restarted(policy, &NAMES, &world.status, &requested);
            world.apply(&plan, usize::MAX);
            made.push(world.made);
        }
        prop_assert_eq!(made[2], made[7], "{:#?}", &world);
        for (name, running) in world.shape(&NAMES) {
            prop_assert!(running <= 1, "{name} runs {running} times");
        }
    }

    /// Nothing is started in a pod that has terminated.
    #[test]
    fn an_ended_pod_starts_nothing(world in any_world(), policy in any_policy()) {
        let plan = planned(policy, &NAMES, &world.status);
        if plan.has_ended {
            prop_assert!(plan.start.is_empty() && plan.backing_off.is_empty());
            let makes_sandbox = matches!(plan.sandbox, SandboxPlan::Create { .. });
            prop_assert!(!makes_sandbox);
        }
    }
}
