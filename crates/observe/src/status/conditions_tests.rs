//! Tests of the conditions.

use hostlet_pod::resources::{Actuated, ResizeUnderWay};
use hostlet_pod::testing::{container, exited, sandbox};
use hostlet_pod::{AdmissionId, PendingResize, PendingResizeReason, ResizeState};
use hostlet_runtime::cri::ContainerState;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodReadinessGate, PodStatus as ApiPodStatus};
use proptest::prelude::*;

use super::*;
use crate::status::testing::Scene;
use crate::status::{ImageOwner, LifecycleSummary};

type Shown = (String, String, Option<String>, Option<String>);

fn shown(scene: &Scene) -> Vec<Shown> {
    let conditions = scene.status().conditions.unwrap();
    conditions.into_iter().map(|c| (c.type_, c.status, c.reason, c.message)).collect()
}

fn one(scene: &Scene, type_: &str) -> (String, Option<String>, Option<String>) {
    let found = shown(scene).into_iter().find(|condition| condition.0 == type_).unwrap();
    (found.1, found.2, found.3)
}

fn plain(type_: &str, status: &str) -> Shown {
    (type_.into(), status.into(), None, None)
}

fn why(type_: &str, reason: &str, message: Option<&str>) -> Shown {
    (type_.into(), "False".into(), Some(reason.into()), message.map(String::from))
}

fn running(name: &str) -> hostlet_runtime::cri::ContainerStatus {
    container(name, 0, ContainerState::Running)
}

#[test]
fn a_running_pod() {
    let scene = Scene::of("Always", vec![running("c")]);
    let of_every_pod = &GENERATED[..5];
    assert_eq!(shown(&scene), of_every_pod.iter().map(|type_| plain(type_, "True")).collect::<Vec<_>>());
}

#[test]
fn resizes_are_shown_while_they_are_pending_or_in_progress() {
    let mut scene = Scene::of("Always", vec![running("c")]);
    let pending = PendingResize {
        reason: PendingResizeReason::Deferred,
        message: "later".to_owned(),
        generation: Some(3),
        since: Timestamp::from_second(9_000).unwrap(),
    };
    let resize = ResizeState { allocations: 1, pending: Some(pending) };
    scene.pod = AdmittedPod::resized(scene.pod.object().clone(), resize, AdmissionId::Adopted);
    let under_way = |error: Option<&str>| {
        let resize = ResizeUnderWay { generation: Some(2), error: error.map(str::to_owned) };
        Some(Actuated { resize: Some(resize), ..Actuated::default() })
    };
    scene.actuated = under_way(None);
    let resizes = |status: ApiPodStatus| -> Vec<_> {
        let conditions = status.conditions.unwrap().into_iter();
        let resizes = conditions.filter(|c| RESIZE.contains(&c.type_.as_str()));
        let reported = resizes.map(|c| {
            let since = c.last_transition_time.unwrap().0.as_second();
            (c.reason.unwrap_or_default(), c.message.unwrap_or_default(), c.observed_generation, since)
        });
        reported.collect()
    };
    let deferred = ("Deferred".to_owned(), "later".to_owned(), Some(3), 9_000);
    let at = |second, error: &str| {
        let reason = if error.is_empty() { "" } else { "Error" };
        (reason.to_owned(), error.to_owned(), Some(2), second)
    };
    assert_eq!(resizes(scene.step()), [deferred.clone(), at(10_000, "")]);
    assert_eq!(resizes(scene.step()), [deferred.clone(), at(10_000, "")]);
    scene.actuated = under_way(Some("no"));
    assert_eq!(resizes(scene.step()), [deferred.clone(), at(10_120, "no")]);
    scene.actuated = None;
    assert_eq!(resizes(scene.step()), [deferred]);
    scene.observed.containers = vec![exited("c", 0, 0)];
    scene.edit(|pod| pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned()));
    assert_eq!(resizes(scene.step()), []);
}

#[test]
fn a_pod_whose_container_is_not_up() {
    let scene = Scene::of("Always", Vec::new());
    let message = Some("containers with unready status: [c]");
    let expected = [
        plain(READY_TO_START, "True"),
        plain(INITIALIZED, "True"),
        why(READY, "ContainersNotReady", message),
        why(CONTAINERS_READY, "ContainersNotReady", message),
        plain(SCHEDULED, "True"),
    ];
    assert_eq!(shown(&scene), expected);
}

#[test]
fn finished_pods() {
    let mut done = Scene::of("Never", vec![exited("c", 0, 0)]);
    done.observed.sandboxes = vec![sandbox(0, SandboxState::NotReady)];
    let expected = [
        why(READY_TO_START, "PodSandboxNotReady", Some("pod sandbox is not ready")),
        (INITIALIZED.into(), "True".into(), Some("PodCompleted".into()), None),
        why(READY, "PodCompleted", None),
        why(CONTAINERS_READY, "PodCompleted", None),
        plain(SCHEDULED, "True"),
    ];
    assert_eq!(shown(&done), expected);
    let failed = Scene::of("Never", vec![exited("c", 0, 1)]);
    assert_eq!(one(&failed, INITIALIZED), ("True".into(), None, None));
    assert_eq!(one(&failed, READY), ("False".into(), Some("PodFailed".into()), None));
}

#[test]
fn a_sandbox_must_stand_alone_and_have_its_network() {
    let holds = |change: fn(&mut Scene)| {
        let mut scene = Scene::of("Always", Vec::new());
        change(&mut scene);
        one(&scene, READY_TO_START).0 == "True"
    };
    assert!(holds(|_| ()));
    assert!(!holds(|scene| scene.observed.sandboxes.clear()));
    assert!(!holds(|scene| scene.observed.sandboxes.insert(0, sandbox(1, SandboxState::NotReady))));
    assert!(!holds(|scene| scene.observed.sandboxes.insert(0, sandbox(1, SandboxState::Ready))));
    assert!(!holds(|scene| scene.observed.sandboxes[0].ips.clear()));
    assert!(!holds(|scene| scene.observed.sandboxes[0].host_network = true));
    assert!(holds(|scene| {
        scene.edit(|pod| pod.spec.as_mut().unwrap().host_network = Some(true));
        scene.observed.sandboxes[0].host_network = true;
        scene.observed.sandboxes[0].ips.clear();
    }));
}

#[test]
fn what_containers_wait_for_follows_upstreams_message() {
    let mut scene = Scene::of("Always", Vec::new());
    let lacks = |text: &str| ("False".into(), Some("PodSandboxNotReady".into()), Some(text.into()));
    scene.setup_error = Some("no volume".into());
    assert_eq!(one(&scene, READY_TO_START), ("True".into(), None, Some("no volume".into())));
    scene.observed.sandboxes.clear();
    assert_eq!(one(&scene, READY_TO_START), lacks("no pod sandbox exists: no volume"));
    assert_eq!(cause_in("no pod sandbox exists: no volume"), "no volume");
    scene.lifecycle = LifecycleSummary::Terminating;
    assert_eq!(one(&scene, READY_TO_START), lacks("no pod sandbox exists"), "it no longer waits");
    scene.lifecycle = LifecycleSummary::Active;
    scene.setup_error = None;
    assert_eq!(one(&scene, READY_TO_START), lacks("no pod sandbox exists"));
    scene.observed.sandboxes.push(sandbox(0, SandboxState::NotReady));
    assert_eq!(one(&scene, READY_TO_START), lacks("pod sandbox is not ready"));
}

fn pulls(container: &str) -> ImagePull {
    ImagePull { owner: ImageOwner::Container(container.into()), image: "web:1".into() }
}

#[test]
fn a_first_pull_is_reported_while_its_container_waits_for_nothing_else() {
    let message = |scene: &Scene| one(scene, READY_TO_START).2;
    let mut scene = Scene::of("Always", Vec::new()).with_init("i", false);
    assert_eq!(message(&scene), None);
    scene.pulling.insert("c".into(), pulls("c"));
    assert_eq!(message(&scene).as_deref(), Some("pulling image \"web:1\" for container c"));
    scene.pulling.insert("i".into(), pulls("i"));
    assert!(message(&scene).unwrap().ends_with("for container i"), "the first in order of start");
    let volume = ImagePull { owner: ImageOwner::Volume("v".into()), image: "model:1".into() };
    scene.pulling.insert("i".into(), volume);
    assert_eq!(message(&scene).as_deref(), Some("pulling image \"model:1\" for volume v"));
    assert_eq!(one(&scene, READY), one(&Scene::of("Always", Vec::new()).with_init("i", false), READY));
    scene.lifecycle = LifecycleSummary::Terminating;
    assert_eq!(message(&scene), None);

    let mut failed = Scene::of("Always", Vec::new()).waiting_for("c", "ErrImagePull");
    failed.pulling.insert("c".into(), pulls("c"));
    assert_eq!(message(&failed), None, "the container has a reason of its own");
    let mut restarting = Scene::of("Always", vec![running("c")]);
    restarting.pulling.insert("c".into(), pulls("c"));
    assert_eq!(message(&restarting), None);
}

#[test]
fn initialization_waits_for_init_containers_and_is_not_taken_back() {
    let message = |containers| {
        let scene = Scene::of("Always", containers).with_init("i", false).with_init("s", true);
        one(&scene, INITIALIZED)
    };
    let incomplete = |names: &str| {
        let text = format!("containers with incomplete status: [{names}]");
        ("False".to_owned(), Some("ContainersNotInitialized".to_owned()), Some(text))
    };
    assert_eq!(message(Vec::new()), incomplete("i s"));
    assert_eq!(message(vec![exited("i", 0, 0)]), incomplete("s"));
    let initialized = ("True".to_owned(), None, None);
    assert_eq!(message(vec![running("s"), exited("i", 0, 0)]), initialized);
    assert_eq!(message(vec![running("c"), exited("s", 0, 1), exited("i", 0, 0)]), initialized);
}

#[test]
fn a_sidecar_counts_for_readiness() {
    let scene = Scene::of("Always", vec![running("c"), exited("s", 0, 1)]).with_init("s", true);
    assert_eq!(one(&scene, READY).2.unwrap(), "containers with unready status: [s]");
}

#[test]
fn readiness_gates_hold_ready_back() {
    let mut scene = Scene::of("Always", vec![running("c")]);
    let gates = ["a", "b"].map(|gate| PodReadinessGate { condition_type: gate.into() });
    scene.edit(|pod| pod.spec.as_mut().unwrap().readiness_gates = Some(gates.to_vec()));
    let foreign = PodCondition { type_: "b".into(), status: "False".into(), ..Default::default() };
    scene.previous.get_or_insert_default().conditions = Some(vec![foreign.clone()]);
    let (status, reason, message) = one(&scene, READY);
    assert_eq!((status.as_str(), reason.as_deref()), ("False", Some("ReadinessGatesNotReady")));
    assert_eq!(
        message.unwrap(),
        "corresponding condition of pod readiness gate \"a\" does not exist., the status of pod readiness gate \"b\" is not \"True\", but False"
    );
    assert_eq!(one(&scene, CONTAINERS_READY).0, "True");
    assert_eq!(scene.status().conditions.unwrap()[0], foreign, "conditions of others are kept");
}

#[test]
fn conditions_name_the_generation_they_are_about() {
    let mut scene = Scene::of("Always", Vec::new());
    scene.edit(|pod| pod.metadata.generation = Some(3));
    assert!(
        scene.status().conditions.unwrap().iter().all(|condition| condition.observed_generation == Some(3))
    );
}

/// A pod whose container `c` restarts all on exit code 9, with an init container.
fn restarts_all_scene() -> Scene {
    let mut scene = Scene::of("Never", Vec::new()).with_init("i", false);
    scene.edit(|pod| {
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        let rule = serde_json::json!([
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}
        ]);
        container.restart_policy = Some("Never".into());
        container.restart_policy_rules = serde_json::from_value(rule).unwrap();
    });
    scene
}

#[test]
fn a_restart_of_all_containers_shows_until_they_are_removed() {
    let mut scene = restarts_all_scene();
    let state = |scene: &mut Scene| {
        let status = scene.step();
        let condition = status.conditions.clone().unwrap().pop().unwrap();
        assert_eq!(
            (condition.type_.as_str(), condition.observed_generation),
            ("AllContainersRestarting", None)
        );
        let initialized =
            status.conditions.clone().unwrap().iter().any(|c| c.type_ == INITIALIZED && c.status == "True");
        (status, condition.status, condition.reason, initialized)
    };
    scene.observed.containers = vec![running("c"), exited("i", 0, 0)];
    assert_eq!(state(&mut scene).1, "False");
    scene.observed.containers = vec![exited("c", 0, 9), exited("i", 0, 0)];
    let (status, restarting, reason, _) = state(&mut scene);
    assert_eq!((restarting.as_str(), reason.as_deref()), ("True", Some("RestartAllContainersStarted")));
    assert_eq!(status.phase.as_deref(), Some("Running"));
    scene.observed.containers = Vec::new();
    let (status, restarting, _, initialized) = state(&mut scene);
    assert_eq!((restarting.as_str(), initialized), ("False", true));
    assert_eq!(status.phase.as_deref(), Some("Running"), "not Pending, and not Failed");
    for one in [&status.container_statuses.unwrap()[0], &status.init_container_statuses.unwrap()[0]] {
        let waiting = one.state.as_ref().unwrap().waiting.as_ref().unwrap();
        assert_eq!(waiting.reason.as_deref(), Some("RestartingAllContainers"));
        let last = one.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!((last.reason.as_deref(), last.exit_code), (Some("RestartingAllContainers"), 137));
        assert_eq!(one.restart_count, 1);
    }
    scene.observed.containers = vec![container("i", 1, ContainerState::Running)];
    let (status, restarting, _, initialized) = state(&mut scene);
    assert_eq!((restarting.as_str(), initialized), ("False", true));
    assert_eq!(status.init_container_statuses.unwrap()[0].restart_count, 1);
}

/// A snapshot that was taken while the containers were removed: the init container is gone, the main one was seen before.
#[test]
fn an_init_container_is_counted_once_while_all_containers_restart() {
    let mut scene = restarts_all_scene();
    scene.observed.containers = vec![running("c"), exited("i", 0, 0)];
    scene.step();
    scene.observed.containers = vec![exited("c", 0, 9)];
    for _ in 0..3 {
        let init = scene.step().init_container_statuses.unwrap().remove(0);
        assert!(init.state.unwrap().waiting.is_some(), "it has to run again");
        assert_eq!(init.restart_count, 1);
    }
}

proptest! {
    /// A transition time moves when the status does, to the time of that generation, and at no other time.
    #[test]
    fn transition_times_move_with_the_status_only(
        history in prop::collection::vec((0..5_u8, any::<bool>(), any::<bool>()), 2..10),
    ) {
        let mut scene = Scene::of("OnFailure", Vec::new());
        let mut before: Option<Vec<PodCondition>> = None;
        for (state, sandbox_ready, terminating) in history {
            scene.observed.containers = match state {
                0 => Vec::new(),
                1 => vec![running("c")],
                2 => vec![exited("c", 0, 1)],
                3 => vec![container("c", 1, ContainerState::Created)],
                _ => vec![container("c", 1, ContainerState::Unknown)],
            };
            let state = if sandbox_ready { SandboxState::Ready } else { SandboxState::NotReady };
            scene.observed.sandboxes = vec![sandbox(0, state)];
            scene.lifecycle = if terminating { LifecycleSummary::Terminating } else { LifecycleSummary::Active };
            let now = scene.now;
            let after = scene.step().conditions.unwrap();
            prop_assert_eq!(after.len(), GENERATED.len() - 1);
            for (index, condition) in after.iter().enumerate() {
                let same = before.as_ref().map(|before| &before[index]).filter(|old| old.status == condition.status);
                let expected = same.map_or_else(|| Some(whole_seconds(now)), |old| old.last_transition_time.clone());
                prop_assert_eq!(&condition.last_transition_time, &expected);
            }
            before = Some(after);
        }
    }
}
