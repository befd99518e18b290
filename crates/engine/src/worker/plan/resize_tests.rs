//! Plans of resizes, case by case and against the model.

use std::collections::BTreeSet;
use std::sync::Arc;

use hostlet_observe::pleg::PodStatus;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::{Actuated, Enforced};
use hostlet_pod::testing::{container, exited, pod};
use hostlet_runtime::cri::{ContainerState, ContainerStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::actions::Plan;
use super::resize::{LowerLimit, ResizeStep};
use super::testing::*;

const MIB: i64 = 1 << 20;

/// CPU in cores and memory in MiB, requested and limited.
type Size = (u32, u32);

fn resources((cpu, memory): Size) -> Value {
    let list = json!({"cpu": cpu.to_string(), "memory": format!("{memory}Mi")});
    json!({"requests": list, "limits": list})
}

/// A pod whose containers have these sizes, and their policies for CPU and memory.
fn sized(sizes: &[Size], restarts: &[(bool, bool)]) -> Arc<AdmittedPod> {
    let names: Vec<String> = (0..sizes.len()).map(|index| format!("c{index}")).collect();
    let mut pod = pod("p", "u", "Always", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let containers = pod.spec.as_mut().unwrap().containers.iter_mut();
    for (index, container) in containers.enumerate() {
        let (cpu, memory) = restarts.get(index).copied().unwrap_or_default();
        let policy = |name: &str, restarts: bool| {
            let policy = if restarts { "RestartContainer" } else { "NotRequired" };
            json!({"resourceName": name, "restartPolicy": policy})
        };
        container.resources = serde_json::from_value(resources(sizes[index])).unwrap();
        container.resize_policy =
            serde_json::from_value(json!([policy("cpu", cpu), policy("memory", memory)])).unwrap();
    }
    AdmittedPod::new(pod)
}

fn running(count: usize) -> PodStatus {
    let all = (0..count).map(|index| container(&format!("c{index}"), 0, ContainerState::Running));
    observed(vec![ready()], all.collect())
}

/// The plan for a pod of these sizes that had others.
fn resized(from: &[Size], to: &[Size], restarts: &[(bool, bool)]) -> Plan {
    let scene = Scene { actuated: enforced(&sized(from, &[])), ..Scene::of(&sized(to, restarts)) };
    scene.plan(&running(from.len()))
}

/// The steps in words: `pod` with its limit of memory in MiB and of CPU in cores, or a container with both.
fn steps(plan: &Plan) -> Vec<String> {
    let step = |step: &ResizeStep| match step {
        ResizeStep::Pod(to) => format!("pod {} {}", to.memory_limit / MIB, to.cpu_limit / 1000),
        ResizeStep::Container { container, to, .. } => {
            format!("{} {} {}", container.name, to.memory_limit / MIB, to.cpu_limit / 1000)
        }
    };
    plan.resize.steps.iter().map(step).collect()
}

#[test]
fn a_pod_that_grows_does_so_before_its_containers() {
    let plan = resized(&[(1, 10), (1, 10)], &[(2, 20), (1, 10)], &[]);
    assert_eq!(steps(&plan), ["pod 30 2", "c0 20 1", "pod 30 3", "c0 20 2"]);
    assert!(plan.kill.is_empty() && plan.resize.lower.is_empty() && plan.resize.is_under_way);
}

#[test]
fn a_pod_that_shrinks_does_so_after_its_containers() {
    let plan = resized(&[(2, 20), (1, 10)], &[(1, 10), (1, 10)], &[]);
    assert_eq!(steps(&plan), ["c0 10 2", "pod 20 3", "c0 10 1", "pod 20 2"]);
    let id = running(1).containers[0].id.clone();
    let expected = [
        LowerLimit { container: None, bytes: 20 * MIB },
        LowerLimit { container: Some(id), bytes: 10 * MIB },
    ];
    assert_eq!(plan.resize.lower, expected);
}

#[test]
fn containers_that_shrink_make_room_for_those_that_grow() {
    let plan = resized(&[(1, 10), (3, 30)], &[(3, 30), (1, 10)], &[]);
    assert_eq!(steps(&plan), ["c1 10 3", "c0 30 1", "c1 10 1", "c0 30 3"]);
}

#[test]
fn a_container_restarts_only_if_its_policy_for_what_changes_demands_it() {
    for (to, restarts, is_restarted) in [
        ((2, 10), (true, false), true),
        ((2, 10), (false, true), false),
        ((1, 20), (false, true), true),
        ((1, 20), (true, false), false),
        ((1, 10), (true, true), false),
    ] {
        let plan = resized(&[(1, 10)], &[to], &[restarts]);
        assert_eq!(!plan.kill.is_empty(), is_restarted, "{to:?} {restarts:?}");
        assert_eq!(names_of(&plan.start).is_empty(), !is_restarted);
        if is_restarted {
            assert_eq!(plan.kill[0].message, "Container c0 resize requires restart");
            assert!(plan.resize.is_under_way && plan.backing_off.is_empty());
        }
    }
}

#[test]
fn what_does_not_run_is_started_with_the_new_resources() {
    let from = [(1, 10), (1, 10)];
    let scene =
        Scene { actuated: enforced(&sized(&from, &[])), ..Scene::of(&sized(&[(1, 10), (2, 10)], &[])) };
    let seen = observed(vec![ready()], vec![container("c0", 0, ContainerState::Running), exited("c1", 0, 0)]);
    let plan = scene.plan(&seen);
    assert_eq!((steps(&plan), names_of(&plan.start)), (vec!["pod 20 3".to_owned()], vec!["c1"]));
}

#[test]
fn a_running_init_container_is_resized_and_a_sidecar_may_restart() {
    let of = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}});
        let restart = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        let spec = json!({"initContainers": [
            {"name": "side", "image": "i", "restartPolicy": "Always", "resources": resources, "resizePolicy": restart},
            {"name": "init", "image": "i", "resources": resources}
        ]});
        let mut pod = pod("p", "u", "Always", &["a"]);
        let inits = serde_json::from_value(spec["initContainers"].clone()).unwrap();
        pod.spec.as_mut().unwrap().init_containers = Some(inits);
        AdmittedPod::new(pod)
    };
    let seen = observed(
        vec![ready()],
        vec![container("side", 0, ContainerState::Running), container("init", 0, ContainerState::Running)],
    );
    let plan = Scene { actuated: enforced(&of("1")), ..Scene::of(&of("2")) }.plan(&seen);
    assert_eq!(plan.kill[0].message, "Container side resize requires restart");
    let updated = plan.resize.steps.iter().filter_map(|step| match step {
        ResizeStep::Container { container, to, .. } => Some((container.name.as_str(), to.cpu_request)),
        ResizeStep::Pod(_) => None,
    });
    assert_eq!(updated.collect::<Vec<_>>(), [("init", 2000)]);
}

#[test]
fn a_limit_that_is_no_longer_set_stays() {
    let mut unlimited = k8s_openapi::api::core::v1::Pod::clone(sized(&[(1, 10)], &[]).object());
    let resources = unlimited.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap();
    resources.limits.as_mut().unwrap().remove("memory");
    let scene =
        Scene { actuated: enforced(&sized(&[(1, 10)], &[])), ..Scene::of(&AdmittedPod::new(unlimited)) };
    let plan = scene.plan(&running(1));
    assert_eq!(steps(&plan), ["c0 0 1"]);
}

/// What is enforced after the first `count` steps.
fn perform(actuated: &mut Actuated, steps: &[ResizeStep], count: usize, check: impl Fn(&Actuated)) {
    for step in steps.iter().take(count) {
        match step {
            ResizeStep::Pod(to) => actuated.pod = Some(*to),
            ResizeStep::Container { container, to, .. } => {
                actuated.containers.insert(container.name.clone(), *to);
            }
        }
        check(actuated);
    }
}

fn is_within(actuated: &Actuated) {
    let pod = actuated.pod.unwrap();
    let memory: i64 = actuated.containers.values().map(|c| c.memory_limit).sum();
    let cpu: i64 = actuated.containers.values().map(|c| c.cpu_limit).sum();
    assert!(memory <= pod.memory_limit && cpu <= pod.cpu_limit, "{actuated:?}");
}

proptest! {
    /// Wherever a resize is interrupted, the plans that follow end at the desired resources, containers never have more than
    /// their pod, and only those restart whose policy says so.
    #[test]
    fn resizes_converge_in_order(
        from in proptest::collection::vec((1_u32..6, 1_u32..6), 3),
        to in proptest::collection::vec((1_u32..6, 1_u32..6), 3),
        restarts in proptest::collection::vec((any::<bool>(), any::<bool>()), 3),
        budgets in proptest::collection::vec((0_usize..4, 0_usize..4), 6),
    ) {
        let pod = sized(&to, &restarts);
        let mut scene = Scene { actuated: enforced(&sized(&from, &restarts)), ..Scene::of(&pod) };
        let mut world = World { status: running(3), made: 0 };
        let mut known: BTreeSet<_> = world.status.containers.iter().map(|c| c.id.clone()).collect();
        let is_all_in_place = restarts.iter().all(|(cpu, memory)| !cpu && !memory);
        for (steps, actions) in budgets.into_iter().chain([(usize::MAX, usize::MAX); 4]) {
            let plan = scene.plan(&world.status);
            let mut actuated = scene.actuated.clone();
            perform(&mut actuated, &plan.resize.steps, steps, |actuated| {
                if is_all_in_place {
                    is_within(actuated);
                }
            });
            scene.actuated = actuated;
            world.apply(&plan, actions);
            let new: Vec<ContainerStatus> =
                world.status.containers.iter().filter(|c| known.insert(c.id.clone())).cloned().collect();
            for made in new {
                let spec = pod.containers().find(|c| c.spec.name == *made.name).unwrap();
                scene.actuated.containers.insert(made.name.to_string(), Enforced::of(&pod, spec.spec));
            }
        }
        prop_assert!(scene.plan(&world.status).is_empty(&world.status));
        prop_assert_eq!(scene.actuated.pod, Some(Enforced::of_pod(&pod)));
        for (index, (cpu, memory)) in restarts.iter().enumerate() {
            let name = format!("c{index}");
            let spec = &pod.spec().containers[index];
            prop_assert_eq!(scene.actuated.containers[&name], Enforced::of(&pod, spec));
            let is_demanded = (from[index].0 != to[index].0 && *cpu) || (from[index].1 != to[index].1 && *memory);
            let attempts = world.status.container(&name).unwrap().attempt;
            prop_assert_eq!(attempts > 0, is_demanded, "{}", name);
        }
    }
}
