//! The order of a pod's life: init containers, sidecars, main and ephemeral containers, probes, and restarts of all of them.

use std::sync::Arc;

use hostlet_base::testing::at;
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::testing::{container, exited, pod, sandbox};
use hostlet_pod::{AdmittedPod, ContainerKind, ContainerProbes, ContainerRef, PodProbes, ProbeKind};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, SandboxState};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::actions::*;
use super::testing::*;

/// A pod of this policy with these init containers and main containers.
fn with_inits(policy: &str, inits: Value, mains: &[&str]) -> Arc<AdmittedPod> {
    AdmittedPod::new(pod("p", "u", policy, mains)).edited(|pod| {
        pod.spec.as_mut().unwrap().init_containers = serde_json::from_value(inits).unwrap();
    })
}

fn init(name: &str) -> Value {
    json!({"name": name, "image": "img"})
}

fn sidecar(name: &str) -> Value {
    json!({"name": name, "image": "img", "restartPolicy": "Always"})
}

fn running(name: &str) -> ContainerStatus {
    container(name, 0, ContainerState::Running)
}

fn here(containers: Vec<ContainerStatus>) -> PodStatus {
    observed(vec![ready()], containers)
}

fn starts(plan: &Plan) -> Vec<&str> {
    names_of(&plan.start)
}

fn kills(plan: &Plan) -> Vec<&str> {
    plan.kill.iter().map(|kill| kill.message.as_str()).collect()
}

#[test]
fn init_containers_run_one_after_the_other_and_then_the_main_ones() {
    let scene = Scene::of(&with_inits("Always", json!([init("i1"), init("i2")]), &["a", "b"]));
    let new = scene.plan(&observed(vec![], vec![]));
    assert!(matches!(new.sandbox, SandboxPlan::Create { .. }));
    assert_eq!(starts(&new), ["i1"]);
    for (seen, expected) in [
        (vec![], vec!["i1"]),
        (vec![running("i1")], vec![]),
        (vec![exited("i1", 0, 0)], vec!["i2"]),
        (vec![running("i2"), exited("i1", 0, 0)], vec![]),
        (vec![exited("i2", 0, 0), exited("i1", 0, 0)], vec!["a", "b"]),
        // The runtime forgot the first one.
        (vec![exited("i2", 0, 0)], vec!["a", "b"]),
        (vec![running("i2")], vec![]),
        // And all of them.
        (vec![running("a")], vec!["b"]),
        (vec![exited("a", 0, 1)], vec!["a", "b"]),
    ] {
        let plan = scene.plan(&here(seen.clone()));
        assert_eq!(starts(&plan), expected, "{seen:#?}");
        assert!(matches!(plan.sandbox, SandboxPlan::Keep(_)) && plan.kill.is_empty() && !plan.has_ended);
    }
}

#[test]
fn images_are_needed_in_the_order_of_the_starts_and_not_by_what_runs() {
    let scene = Scene::of(&with_inits("Always", json!([init("i1"), sidecar("s"), init("i2")]), &["a", "b"]));
    let (created, killed) = (ContainerState::Created, exited("a", 0, 137));
    let current = ContainerStatus { hash: Some(HASH), ..container("i1", 0, created) };
    for (seen, expected) in [
        (observed(vec![], vec![]), vec!["i1", "s", "i2", "a", "b"]),
        (here(vec![]), vec!["i1", "s", "i2", "a", "b"]),
        // Its image was there when it was created.
        (here(vec![current]), vec!["s", "i2", "a", "b"]),
        (here(vec![running("i1")]), vec!["s", "i2", "a", "b"]),
        (here(vec![running("s")]), vec!["i2", "a", "b"]),
        (here(vec![running("s"), running("i2")]), vec!["a", "b"]),
        (here(vec![running("s"), exited("i2", 0, 0), running("a")]), vec!["b"]),
        (here(vec![running("s"), running("a"), running("b")]), vec![]),
        (observed(vec![dead()], vec![killed]), vec!["i1", "s", "i2", "a", "b"]),
    ] {
        let plan = scene.plan(&seen);
        let needed: Vec<&str> = plan.images().map(|container| container.name.as_str()).collect();
        assert_eq!(needed, expected, "{seen:#?}");
    }
}

#[test]
fn a_failed_init_container_is_retried_or_fails_the_pod() {
    for (policy, starts_again) in [("Always", true), ("OnFailure", true), ("Never", false)] {
        let scene = Scene::of(&with_inits(policy, json!([init("i1"), init("i2")]), &["a"]));
        let plan = scene.plan(&here(vec![exited("i2", 0, 1), exited("i1", 0, 0)]));
        assert_eq!(starts(&plan), if starts_again { vec!["i2"] } else { vec![] }, "{policy}");
        assert_eq!(plan.has_ended, !starts_again);
        assert_eq!(matches!(plan.sandbox, SandboxPlan::Stop), !starts_again);
    }
    // Its own policy and rules win over the pod's.
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]);
    let own = json!([{"name": "i", "restartPolicy": "Never", "restartPolicyRules": rules}]);
    let scene = Scene::of(&with_inits("Always", own, &["a"]));
    assert_eq!(starts(&scene.plan(&here(vec![exited("i", 0, 3)]))), ["i"]);
    assert!(scene.plan(&here(vec![exited("i", 0, 1)])).has_ended);
}

#[test]
fn a_crashing_init_container_waits_out_its_back_off() {
    let pod = with_inits("Always", json!([init("i")]), &["a"]);
    let mut loops = loops();
    let ended = |attempt| ContainerStatus {
        finished_at: Some(at(NOW - 3)),
        hash: Some(HASH),
        ..exited("i", attempt, 1)
    };
    loops.restarted(&ended(1), at(NOW - 3));
    let plan = Scene { loops, ..Scene::of(&pod) }.plan(&here(vec![ended(2)]));
    assert_eq!((starts(&plan), plan.backing_off.len()), (vec![], 1));
    assert!(matches!(plan.sandbox, SandboxPlan::Keep(_)));
}

#[test]
fn a_new_sandbox_runs_everything_again() {
    let scene = Scene::of(&with_inits("Always", json!([sidecar("s"), init("i")]), &["a"]));
    let old = || vec![exited("a", 0, 137), exited("i", 0, 0), exited("s", 0, 137)];
    let plan = scene.plan(&observed(vec![dead()], old()));
    assert!(matches!(plan.sandbox, SandboxPlan::Create { attempt: 1, .. }));
    assert_eq!(starts(&plan), ["s"]);
    // Cut short after the sandbox was created: the old results do not count.
    let sandboxes = vec![sandbox(1, SandboxState::Ready), dead()];
    let plan = scene.plan(&observed(sandboxes.clone(), old()));
    assert_eq!(starts(&plan), ["s"]);
    // What still runs there is stopped.
    let mut left = old();
    left[0] = running("a");
    left[2] = ContainerStatus { id: "s-9".into(), ..running("s") };
    let plan = scene.plan(&observed(sandboxes, left));
    assert_eq!((starts(&plan), kills(&plan).len()), (vec!["s"], 1));
}

#[test]
fn a_containers_own_policy_is_about_its_exits_and_not_about_a_new_sandbox() {
    for (of_pod, own, code, starts_again) in [
        ("Always", "Never", 0, true),
        ("Always", "Never", 1, true),
        ("Always", "OnFailure", 0, false),
        ("OnFailure", "Never", 0, true),
        ("Never", "Always", 1, false),
    ] {
        let pod = with_inits(of_pod, json!([]), &["a", "b"]).edited(|pod| {
            pod.spec.as_mut().unwrap().containers[0].restart_policy = Some(own.to_owned());
        });
        let scene = Scene::of(&pod);
        let ended = vec![exited("a", 0, code), exited("b", 0, 1)];
        let new = sandbox(1, SandboxState::Ready);
        // A pod that never restarts gets no new one.
        let after = (of_pod != "Never").then(|| vec![new, dead()]);
        for sandboxes in [vec![dead()]].into_iter().chain(after) {
            let plan = scene.plan(&observed(sandboxes.clone(), ended.clone()));
            let is_started = plan.start.iter().any(|start| start.container.name == "a");
            assert_eq!(is_started, starts_again, "{of_pod} {own} {code} {sandboxes:?}");
        }
    }
}

#[test]
fn a_pod_whose_work_is_done_gets_no_new_sandbox_for_its_init_containers() {
    let scene = Scene::of(&with_inits("OnFailure", json!([init("i")]), &["a"]));
    let plan = scene.plan(&observed(vec![dead()], vec![exited("a", 0, 0), exited("i", 0, 0)]));
    assert!(matches!(plan.sandbox, SandboxPlan::Stop) && plan.has_ended && plan.start.is_empty());
    let scene = Scene::of(&with_inits("Never", json!([init("i")]), &["a"]));
    let plan = scene.plan(&observed(vec![dead()], vec![exited("i", 0, 137)]));
    assert!(matches!(plan.sandbox, SandboxPlan::Stop) && plan.has_ended);
}

#[test]
fn sidecars_start_in_order_and_gate_what_follows() {
    let mut gated = sidecar("s1");
    gated["startupProbe"] = json!({"tcpSocket": {"port": 1}});
    let mut scene = Scene::of(&with_inits("Never", json!([gated, init("i"), sidecar("s2")]), &["a"]));
    let with_s1 = |mut more: Vec<ContainerStatus>| {
        more.push(running("s1"));
        here(more)
    };
    assert_eq!(starts(&scene.plan(&with_s1(vec![]))), [""; 0], "its startup probe has not succeeded");
    scene.probes = found("s1-0", true, None);
    assert_eq!(starts(&scene.plan(&with_s1(vec![]))), ["i"]);
    assert_eq!(starts(&scene.plan(&with_s1(vec![exited("i", 0, 0)]))), ["s2"]);
    assert_eq!(starts(&scene.plan(&with_s1(vec![running("s2"), exited("i", 0, 0)]))), ["a"]);
    let all = with_s1(vec![running("a"), running("s2"), exited("i", 0, 0)]);
    assert!(scene.plan(&all).is_empty(&all));
    // An ended sidecar starts again whatever the policy, also during initialization.
    let plan = scene.plan(&here(vec![running("i"), exited("s1", 0, 0)]));
    assert_eq!(starts(&plan), ["s1"]);
    let plan =
        scene.plan(&here(vec![running("a"), exited("s2", 0, 0), exited("i", 0, 0), exited("s1", 0, 1)]));
    assert_eq!(starts(&plan), ["s1", "s2"]);
    // It does not keep the pod alive.
    let plan = scene.plan(&with_s1(vec![exited("a", 0, 0), exited("s2", 0, 1), exited("i", 0, 0)]));
    assert!(plan.has_ended && plan.start.is_empty() && matches!(plan.sandbox, SandboxPlan::Stop));
}

fn found(id: &str, started: bool, failed: Option<ProbeKind>) -> PodProbes {
    PodProbes([(id.into(), ContainerProbes { started, ready: false, failed })].into())
}

#[test]
fn a_failed_probe_replaces_its_container_within_the_probes_grace_period() {
    let with_probe = |policy: &str, own: Option<&str>| {
        with_inits(policy, json!([]), &["a", "b"]).edited(|pod| {
            let container = &mut pod.spec.as_mut().unwrap().containers[0];
            let probe = json!({"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5});
            container.liveness_probe = Some(serde_json::from_value(probe).unwrap());
            container.restart_policy = own.map(str::to_owned);
        })
    };
    let seen = || here(vec![running("a"), running("b")]);
    let failed = |kind| found("a-0", true, Some(kind));
    for (policy, own, message, again) in [
        ("Always", None, "Container a failed liveness probe, will be restarted", true),
        ("OnFailure", None, "Container a failed liveness probe, will be restarted", true),
        ("Never", None, "Container a failed liveness probe", false),
        ("Never", Some("OnFailure"), "Container a failed liveness probe, will be restarted", true),
        ("Always", Some("Never"), "Container a failed liveness probe", false),
    ] {
        let scene = Scene { probes: failed(ProbeKind::Liveness), ..Scene::of(&with_probe(policy, own)) };
        let plan = scene.plan(&seen());
        assert_eq!(kills(&plan), [message]);
        assert_eq!(plan.kill[0].grace_seconds, 5);
        assert_eq!(starts(&plan), if again { vec!["a"] } else { vec![] });
        // Cut short after the stop: it starts again even if it exited with 0.
        let cut = scene.plan(&here(vec![exited("a", 0, 0), running("b")]));
        assert_eq!(starts(&cut), if again { vec!["a"] } else { vec![] }, "{policy} {own:?}");
    }
    let scene = Scene { probes: failed(ProbeKind::Startup), ..Scene::of(&with_probe("Always", None)) };
    assert_eq!(scene.plan(&seen()).kill[0].grace_seconds, 30, "the pod's");
    let scene = Scene { probes: failed(ProbeKind::Readiness), ..Scene::of(&with_probe("Always", None)) };
    assert!(scene.plan(&seen()).is_empty(&seen()));
    // A sidecar is replaced whatever the policy.
    let scene = Scene {
        probes: found("s-0", true, Some(ProbeKind::Liveness)),
        ..Scene::of(&with_inits("Never", json!([sidecar("s")]), &["a"]))
    };
    let plan = scene.plan(&here(vec![running("a"), running("s")]));
    assert_eq!((kills(&plan), starts(&plan)), (vec!["Init container s failed liveness probe"], vec!["s"]));
}

#[test]
fn what_fails_its_probe_again_and_again_ends_in_a_crash_loop() {
    let pod = with_inits("Always", json!([]), &["a"]);
    let mut loops = loops();
    let before = ContainerStatus { finished_at: Some(at(NOW - 5)), hash: Some(HASH), ..exited("a", 1, 137) };
    loops.restarted(&before, at(NOW - 5));
    let now = ContainerStatus { id: "now".into(), ..container("a", 2, ContainerState::Running) };
    let seen = here(vec![now, before]);
    let scene = Scene { loops, probes: found("now", true, Some(ProbeKind::Liveness)), ..Scene::of(&pod) };
    let plan = scene.plan(&seen);
    assert_eq!((kills(&plan).len(), starts(&plan)), (1, vec![]));
    assert!(matches!(plan.sandbox, SandboxPlan::Keep(_)));
}

#[test]
fn a_probe_that_fails_rarely_ends_in_no_crash_loop() {
    let pod = with_inits("Always", json!([]), &["a"]);
    let mut loops = loops();
    let before = |attempt| ContainerStatus {
        finished_at: Some(at(NOW - 700)),
        hash: Some(HASH),
        ..exited("a", attempt, 137)
    };
    for attempt in 1..6 {
        loops.restarted_after(&before(attempt), &before(attempt + 1), at(NOW - 700));
    }
    let now = ContainerStatus { id: "now".into(), ..container("a", 7, ContainerState::Running) };
    let seen = here(vec![now, before(6)]);
    let scene = Scene { loops, probes: found("now", true, Some(ProbeKind::Liveness)), ..Scene::of(&pod) };
    assert_eq!(starts(&scene.plan(&seen)), ["a"], "it ran for more than ten minutes");
}

#[test]
fn a_changed_definition_does_not_wait_for_what_the_old_one_did() {
    let pod = with_inits("Always", json!([]), &["a"]);
    let old = |attempt| ContainerStatus {
        finished_at: Some(at(NOW - 1)),
        hash: Some(1),
        ..exited("a", attempt, 1)
    };
    let mut loops = loops();
    for attempt in 0..4 {
        loops.restarted(&old(attempt), at(NOW - 1));
    }
    assert!(loops.in_force(&old(4), at(NOW)).is_some());
    let scene = Scene { loops, ..Scene::of(&pod) };
    assert_eq!(starts(&scene.plan(&here(vec![old(4)]))), ["a"]);
}

#[test]
fn a_changed_sidecar_is_replaced_and_a_changed_init_container_is_not() {
    let scene = Scene::of(&with_inits("Always", json!([sidecar("s"), init("i")]), &["a"]));
    let changed = |name| ContainerStatus { hash: Some(1), ..running(name) };
    let plan = scene.plan(&here(vec![changed("i"), changed("s")]));
    assert_eq!((kills(&plan), starts(&plan)), (vec!["Init container s definition changed"], vec!["s"]));
}

#[test]
fn an_ephemeral_container_starts_once_and_keeps_no_pod_alive() {
    let pod = with_inits("Never", json!([init("i")]), &["a"]).edited(|pod| {
        let debug = json!([{"name": "debug", "image": "img"}]);
        pod.spec.as_mut().unwrap().ephemeral_containers = serde_json::from_value(debug).unwrap();
    });
    let scene = Scene::of(&pod);
    let plan = scene.plan(&here(vec![running("i")]));
    assert_eq!((starts(&plan), plan.start[0].container.kind), (vec!["debug"], ContainerKind::Ephemeral));
    for state in [ContainerState::Running, ContainerState::Exited] {
        let debug = ContainerStatus { state, ..exited("debug", 0, 1) };
        let seen = here(vec![debug.clone(), running("a"), exited("i", 0, 0)]);
        assert!(scene.plan(&seen).is_empty(&seen));
        assert!(scene.plan(&here(vec![debug, exited("a", 0, 0), exited("i", 0, 0)])).has_ended);
    }
}

#[test]
fn an_exit_code_can_restart_all_containers_and_its_instance_is_removed_last() {
    let pod = with_inits("Never", json!([init("i"), sidecar("s")]), &["a", "b"]).edited(|pod| {
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        let rule =
            json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]);
        container.restart_policy = Some("Never".to_owned());
        container.restart_policy_rules = serde_json::from_value(rule).unwrap();
    });
    let scene = Scene::of(&pod);
    let mut world = World {
        status: here(vec![exited("a", 0, 9), running("b"), running("s"), exited("i", 0, 0)]),
        made: 0,
    };
    let names = |plan: &Plan| plan.reset.iter().map(|it| (it.name.clone(), it.stop)).collect::<Vec<_>>();
    let expected = [("b", true), ("i", false), ("s", true), ("a", false)];
    let expected = expected.map(|(name, stop)| (name.to_owned(), stop));
    let plan = scene.plan(&world.status);
    assert_eq!(names(&plan), expected);
    assert!(!plan.has_ended && plan.start.is_empty());
    // Cut short anywhere, it goes on.
    for cut in 0..6 {
        let mut cut_short = world.clone();
        cut_short.apply(&plan, cut);
        cut_short.apply(&scene.plan(&cut_short.status), usize::MAX);
        assert!(cut_short.status.containers.is_empty(), "cut {cut}: {:?}", cut_short.status.containers);
        assert_eq!(starts(&scene.plan(&cut_short.status)), ["i"], "cut {cut}");
    }
    world.apply(&plan, usize::MAX);
    assert!(world.status.containers.is_empty());
    assert_eq!(starts(&scene.plan(&world.status)), ["i"]);
    // Another exit code does not.
    let other = here(vec![exited("a", 0, 1), running("b"), running("s"), exited("i", 0, 0)]);
    assert!(scene.plan(&other).reset.is_empty());
}

/// A pod of up to three init containers or sidecars, and two main containers.
fn any_pod() -> impl Strategy<Value = Arc<AdmittedPod>> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    (policy, prop::collection::vec(any::<bool>(), 0..4)).prop_map(|(policy, kinds)| {
        let inits = kinds.iter().enumerate();
        let inits: Vec<Value> = inits
            .map(
                |(n, is_sidecar)| {
                    if *is_sidecar { sidecar(&format!("x{n}")) } else { init(&format!("x{n}")) }
                },
            )
            .collect();
        with_inits(policy, json!(inits), &["a", "b"])
    })
}

/// What happens between two plans.
#[derive(Clone, Debug)]
enum Event {
    /// The nth running container exits with this code.
    Exits(usize, i32),
    /// The sandbox dies with everything in it.
    SandboxDies,
    /// The next plan is performed up to this action: the daemon dies.
    Cut(usize),
    /// The next plan is performed.
    Works,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0usize..5, prop_oneof![4 => Just(0), 1 => Just(1)]).prop_map(|(n, code)| Event::Exits(n, code)),
        1 => Just(Event::SandboxDies),
        4 => (0usize..6).prop_map(Event::Cut),
        6 => Just(Event::Works),
    ]
}

fn exit(world: &mut World, n: usize, code: i32) {
    let mut running = world.status.containers.iter_mut().filter(|c| c.state == ContainerState::Running);
    if let Some(container) = running.nth(n) {
        end(container);
        container.exit_code = code;
    }
}

/// Whether the order of life is kept: a main container runs only if every init container before it succeeded in its sandbox, or
/// was forgotten.
fn check_order(pod: &AdmittedPod, world: &World) {
    let status = &world.status;
    let runs = |name: &str| {
        status.containers.iter().filter(|c| &*c.name == name && c.state == ContainerState::Running).count()
    };
    for container in pod.containers() {
        assert!(runs(&container.spec.name) <= 1, "{} runs twice: {status:#?}", container.spec.name);
    }
    let inits = pod.init_containers();
    for (index, init) in inits.iter().enumerate() {
        if ContainerKind::of_init(init) == ContainerKind::Init && runs(&init.name) > 0 {
            let later = inits[index + 1..].iter().map(|later| later.name.as_str()).chain(["a", "b"]);
            let early: Vec<&str> = later.filter(|name| runs(name) > 0).collect();
            assert!(early.is_empty(), "{} runs together with {early:?}: {status:#?}", init.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever happens, the order of life is kept, a daemon killed anywhere converges, and a pod that has ended starts nothing.
    #[test]
    fn any_life_keeps_its_order(pod in any_pod(), events in prop::collection::vec(any_event(), 0..40)) {
        let scene = Scene::of(&pod);
        let mut world = World { status: observed(vec![], vec![]), made: 0 };
        let mut has_ended = false;
        for event in events {
            match event {
                Event::Exits(n, code) => exit(&mut world, n, code),
                Event::SandboxDies => {
                    world.status.sandboxes.iter_mut().for_each(|s| s.state = SandboxState::NotReady);
                    while world.status.containers.iter().any(|c| c.state == ContainerState::Running) {
                        exit(&mut world, 0, 137);
                    }
                }
                Event::Cut(_) | Event::Works => {
                    let plan = scene.plan(&world.status);
                    prop_assert!(!(has_ended && plan.has_starts()), "{:#?}", &plan);
                    has_ended |= plan.has_ended;
                    world.apply(&plan, if let Event::Cut(cut) = event { cut } else { usize::MAX });
                }
            }
            check_order(&pod, &world);
        }
        // Init containers succeed from here on, and the pod settles.
        let mut foreseen: Option<Vec<ContainerRef>> = None;
        for round in 0.. {
            prop_assert!(round < 40, "does not settle: {:#?}", &world);
            let plan = scene.plan(&world.status);
            for new in plan.start.iter().filter(|start| world.status.container(&start.container.name).is_none()) {
                let is_surprise = foreseen.as_ref().is_some_and(|foreseen| !foreseen.contains(&new.container));
                prop_assert!(!is_surprise, "its image could have been pulled before: {:#?}", &plan);
            }
            foreseen = Some(plan.images().cloned().collect());
            if plan.has_ended {
                break;
            }
            let is_idle = plan.is_empty(&world.status);
            world.apply(&plan, usize::MAX);
            check_order(&pod, &world);
            let inits: Vec<usize> = world
                .status
                .containers
                .iter()
                .filter(|c| c.state == ContainerState::Running)
                .enumerate()
                .filter(|(_, c)| pod.kind_of(&c.name) == Some(ContainerKind::Init))
                .map(|(n, _)| n)
                .collect();
            if is_idle && inits.is_empty() {
                let running = |name: &str| world.shape(&[name])[0].1;
                prop_assert!(running("a") + running("b") > 0, "{:#?}", &world);
                break;
            }
            inits.into_iter().rev().for_each(|n| exit(&mut world, n, 0));
        }
    }
}
