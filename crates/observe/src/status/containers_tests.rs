//! Tests of the container statuses.

use hostlet_base::ContainerId;
use hostlet_pod::testing::{container, exited};
use hostlet_pod::{ContainerProbes, PodProbes};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::status::generate::generate;
use crate::status::testing::Scene;

fn regular(scene: &Scene) -> Value {
    serde_json::to_value(&main_container_statuses(&scene.input())[0]).unwrap()
}

fn init(scene: &Scene) -> Vec<ApiStatus> {
    init_container_statuses(&scene.input())
}

fn running_since(name: &str, attempt: u32, second: i64) -> ContainerStatus {
    let started_at = Some(Timestamp::new(second, 5_000_000).unwrap());
    ContainerStatus { started_at, ..container(name, attempt, ContainerState::Running) }
}

#[test]
fn an_ephemeral_container_is_neither_started_nor_ready() {
    let mut scene = Scene::of("Always", vec![container("debugger", 0, ContainerState::Running)]);
    scene.edit(|pod| {
        let ephemeral = serde_json::from_value(json!([{"name": "debugger", "image": "img"}])).unwrap();
        pod.spec.as_mut().unwrap().ephemeral_containers = ephemeral;
    });
    let status = ephemeral_container_statuses(&scene.input()).remove(0);
    assert!(super::running(&status).is_some());
    assert_eq!((status.started, status.ready), (None, false));
}

#[test]
fn a_container_that_the_runtime_loses_while_all_restart_says_so() {
    let mut scene = Scene::of("Never", vec![container("c", 0, ContainerState::Running)]);
    scene.step();
    scene.observed.containers = vec![container("c", 0, ContainerState::Unknown)];
    let reason = |scene: &Scene| regular(scene)["state"]["terminated"]["reason"].clone();
    assert_eq!(reason(&scene), "ContainerStatusUnknown");
    let restarting = json!([{"type": "AllContainersRestarting", "status": "True"}]);
    scene.previous.as_mut().unwrap().conditions = serde_json::from_value(restarting).unwrap();
    assert_eq!(reason(&scene), "RestartingAllContainers");
    assert_eq!(
        generate(&scene.input()).phase.as_deref(),
        Some("Running"),
        "its restart policy does not count"
    );
}

#[test]
fn never_made() {
    let scene = Scene::of("Always", Vec::new());
    let expected = json!({
        "name": "c", "image": "img", "imageID": "", "ready": false, "started": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}
    });
    assert_eq!(regular(&scene), expected);
    let scene = scene.with_init("i", false);
    assert_eq!(regular(&scene)["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(init(&scene)[0].state, Some(waiting(Some("PodInitializing"), None)));
}

#[test]
fn probes_decide_whether_a_running_container_has_started_and_is_ready() {
    let mut scene = Scene::of("Always", vec![container("c", 0, ContainerState::Running)]);
    let probe = || serde_json::from_value(json!({"tcpSocket": {"port": 1}})).unwrap();
    scene.edit(|pod| {
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        (container.startup_probe, container.readiness_probe) = (probe(), probe());
    });
    let shown = |scene: &Scene| (regular(scene)["started"] == true, regular(scene)["ready"] == true);
    assert_eq!(shown(&scene), (false, false), "not probed yet");
    let found = |started, ready| {
        let found = ContainerProbes { started, ready, failed: None };
        PodProbes([(ContainerId::from("c-0"), found)].into())
    };
    for (started, ready, expected) in
        [(false, false, (false, false)), (true, false, (true, false)), (true, true, (true, true))]
    {
        scene.probes = found(started, ready);
        assert_eq!(shown(&scene), expected);
    }
    // A new daemon without results continues with what was reported, for this instance only.
    scene.step();
    scene.probes = PodProbes::default();
    assert_eq!(shown(&scene), (true, true));
    scene.observed.containers = vec![container("c", 1, ContainerState::Running)];
    assert_eq!(shown(&scene), (false, false));
}

#[test]
fn mounts_are_reported_with_or_without_a_container() {
    let mut scene = Scene::of("Always", Vec::new());
    let mounts =
        json!([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b", "readOnly": true}]);
    let mounts = serde_json::from_value(mounts).unwrap();
    scene.edit(|pod| pod.spec.as_mut().unwrap().containers[0].volume_mounts = mounts);
    let reported = json!([
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/b", "readOnly": true, "recursiveReadOnly": "Disabled"}
    ]);
    assert_eq!(regular(&scene)["volumeMounts"], reported);
    scene.observed.containers = vec![container("c", 0, ContainerState::Running)];
    assert_eq!(regular(&scene)["volumeMounts"], reported);
}

#[test]
fn the_images_of_volumes_are_reported_with_their_feature_gate() {
    let seen = ContainerStatus {
        image_mounts: [("/model".to_owned(), "sha256:1".to_owned())].into(),
        ..container("c", 0, ContainerState::Running)
    };
    let mut scene = Scene::of("Always", vec![seen]);
    let mounts = json!([{"name": "m", "mountPath": "model"}, {"name": "e", "mountPath": "/e"}]);
    let mounts = serde_json::from_value(mounts).unwrap();
    scene.edit(|pod| pod.spec.as_mut().unwrap().containers[0].volume_mounts = mounts);
    let other = json!({"name": "e", "mountPath": "/e"});
    assert_eq!(regular(&scene)["volumeMounts"], json!([{"name": "m", "mountPath": "model"}, other]));
    scene.gates.image_volumes = true;
    let image =
        json!({"name": "m", "mountPath": "model", "volumeStatus": {"image": {"imageRef": "sha256:1"}}});
    assert_eq!(regular(&scene)["volumeMounts"], json!([image, other]));
}

#[test]
fn stop_signals_are_reported_with_their_feature_gate() {
    let signalled = |attempt, signal| ContainerStatus {
        stop_signal: Some(signal),
        ..container("c", attempt, ContainerState::Running)
    };
    let mut scene = Scene::of("Always", vec![signalled(1, "SIGINT"), signalled(0, "SIGTERM")]);
    assert_eq!(regular(&scene)["stopSignal"], Value::Null);
    scene.gates.stop_signals = true;
    assert_eq!(regular(&scene)["stopSignal"], "SIGINT");
    scene.observed.containers = vec![container("c", 2, ContainerState::Running)];
    assert_eq!(regular(&scene)["stopSignal"], Value::Null, "the runtime does not say");
}

#[test]
fn running() {
    let scene = Scene::of("Always", vec![running_since("c", 2, 1002), exited("c", 1, 3), exited("c", 0, 4)]);
    let expected = json!({
        "name": "c", "image": "img", "imageID": "sha256:1", "containerID": "containerd://c-2", "ready": true,
        "started": true, "restartCount": 2, "resources": {},
        "state": {"running": {"startedAt": "1970-01-01T00:16:42Z"}},
        "lastState": {"terminated": {
            "containerID": "containerd://c-1", "exitCode": 3, "reason": "Error",
            "startedAt": "1970-01-01T00:16:41Z", "finishedAt": "1970-01-01T00:16:42Z"
        }}
    });
    assert_eq!(regular(&scene), expected);
}

#[test]
fn the_end_of_a_container() {
    let ended = |reason: &str, message: &str, written: &str| {
        let seen = ContainerStatus { reason: reason.into(), message: message.into(), ..exited("c", 0, 0) };
        let mut scene = Scene::of("Never", vec![seen]);
        scene.messages.insert(ContainerId::from("c-0"), written.into());
        regular(&scene)["state"]["terminated"].clone()
    };
    assert_eq!(ended("", "", "")["reason"], "Completed");
    assert_eq!(ended("OOMKilled", "", "")["reason"], "OOMKilled");
    assert_eq!(ended("", "", "")["message"], Value::Null);
    assert_eq!(ended("", "", "bye\n")["message"], "bye\n");
    assert_eq!(ended("", "cannot start", "bye")["message"], "cannot start: bye");
    let long = ended("", "", &"é".repeat(MAX_MESSAGE_BYTES));
    assert_eq!(long["message"].as_str().unwrap().len(), MAX_MESSAGE_BYTES);
}

#[test]
fn messages_of_a_pod_share_their_limit() {
    let mut scene = Scene::of("Never", vec![exited("c", 0, 0)]).with_init("i", false);
    scene.messages.insert(ContainerId::from("c-0"), "x".repeat(MAX_MESSAGE_BYTES));
    let status = regular(&scene);
    assert_eq!(status["state"]["terminated"]["message"].as_str().unwrap().len(), MAX_MESSAGE_BYTES / 2);
}

#[test]
fn a_crash_loop_waits_and_shows_the_crash_as_its_last_state() {
    let scene =
        Scene::of("Always", vec![exited("c", 4, 3), exited("c", 3, 2)]).waiting_for("c", "CrashLoopBackOff");
    let status = regular(&scene);
    assert_eq!(
        status["state"],
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "CrashLoopBackOff it is"}})
    );
    assert_eq!(status["lastState"]["terminated"]["containerID"], "containerd://c-4");
    assert_eq!(status["containerID"], "containerd://c-4");
    assert_eq!((&status["restartCount"], &status["ready"]), (&json!(4), &json!(false)));
}

#[test]
fn reasons_show_only_where_the_container_is_to_be_started() {
    let shown =
        |scene: Scene| regular(&scene.waiting_for("c", "ErrX"))["state"]["waiting"]["reason"] == "ErrX";
    assert!(shown(Scene::of("Always", Vec::new())));
    assert!(shown(Scene::of("Never", vec![container("c", 0, ContainerState::Created)])));
    assert!(shown(Scene::of("OnFailure", vec![exited("c", 0, 1)])));
    assert!(!shown(Scene::of("OnFailure", vec![exited("c", 0, 0)])));
    assert!(!shown(Scene::of("Never", vec![exited("c", 0, 1)])));
    assert!(!shown(Scene::of("Always", vec![running_since("c", 0, 1000)])));
    for lifecycle in [LifecycleSummary::Terminating, LifecycleSummary::Terminated] {
        assert!(!shown(Scene { lifecycle, ..Scene::of("Always", Vec::new()) }));
    }
}

#[test]
fn a_container_that_vanished_while_running_is_not_new() {
    let mut scene = Scene::of("Always", vec![running_since("c", 1, 1000)]);
    scene.step();
    scene.observed.containers.clear();
    let vanished = regular(&scene);
    assert_eq!(vanished["state"]["waiting"]["reason"], "ContainerCreating");
    let last = &vanished["lastState"]["terminated"];
    assert_eq!((&last["reason"], &last["exitCode"]), (&json!("ContainerStatusUnknown"), &json!(137)));
    assert_eq!(
        last["message"],
        "The container could not be located when the pod was deleted.  The container used to be Running"
    );
    assert_eq!(vanished["restartCount"], 2);
    scene.lifecycle = LifecycleSummary::Terminating;
    assert_eq!(regular(&scene)["restartCount"], 1);
}

#[test]
fn a_container_the_runtime_lost_track_of_counts_as_killed() {
    let mut scene = Scene::of("Always", vec![running_since("c", 0, 1000)]);
    scene.step();
    scene.observed.containers = vec![container("c", 0, ContainerState::Unknown)];
    let lost = regular(&scene);
    assert_eq!(lost["state"]["terminated"]["exitCode"], 137);
    assert_eq!(lost["restartCount"], 1);
    scene.previous = None;
    assert_eq!(regular(&scene)["state"], json!({"waiting": {}}));
}

#[test]
fn a_container_that_was_made_and_never_started_is_no_restart() {
    let history = || {
        [
            vec![container("c", 1, ContainerState::Created), exited("c", 0, 1)],
            vec![exited("c", 0, 1)],
            vec![running_since("c", 1, 2000), exited("c", 0, 1)],
        ]
    };
    let mut scene = Scene::of("Always", Vec::new());
    let reported = history().map(|seen| {
        scene.observed.containers = seen;
        scene.step().container_statuses.unwrap()[0].restart_count
    });
    assert_eq!(reported, [0, 0, 1], "by one daemon");
    let reported = history().map(|seen| regular(&Scene::of("Always", seen))["restartCount"].clone());
    assert_eq!(reported, [json!(0), json!(0), json!(1)], "by a new daemon each time");
}

#[test]
fn what_ended_stays_ended_after_its_removal() {
    let mut scene = Scene::of("Never", vec![exited("c", 0, 7)]);
    let before = scene.step().container_statuses;
    scene.observed.containers.clear();
    assert_eq!(scene.status().container_statuses, before);
}

#[test]
fn init_containers_are_ready_when_done_and_sidecars_when_running() {
    let seen = vec![exited("i", 0, 0), running_since("s", 0, 1000)];
    let statuses = init(&Scene::of("Always", seen).with_init("i", false).with_init("s", true));
    let shown: Vec<_> = statuses.iter().map(|s| (s.name.as_str(), s.ready, s.started)).collect();
    assert_eq!(shown, [("i", true, Some(false)), ("s", true, Some(true))]);
    let failed = init(&Scene::of("Always", vec![exited("i", 0, 1)]).with_init("i", false));
    assert!(!failed[0].ready);
}

#[test]
fn a_forgotten_init_container_of_a_running_pod_counts_as_succeeded() {
    let scene =
        Scene::of("Always", vec![running_since("c", 0, 1000)]).with_init("i", false).with_init("s", true);
    let statuses = init(&scene.waiting_for("s", "ErrX"));
    let ended = terminated(&statuses[0]).unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (0, Some("Completed")));
    assert!(statuses[0].ready);
    assert_eq!(statuses[1].state, Some(waiting(Some("ErrX"), Some("ErrX it is"))));
}

#[test]
fn regular_containers_are_sorted_by_name() {
    let pod = hostlet_pod::testing::pod("web", "u", "Always", &["b", "a"]);
    let statuses = main_container_statuses(&Scene::new(pod, Vec::new()).input());
    assert_eq!(statuses.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

fn any_instance() -> impl Strategy<Value = (u32, ContainerState, i32)> {
    let state = prop_oneof![
        Just(ContainerState::Created),
        Just(ContainerState::Running),
        Just(ContainerState::Exited),
        Just(ContainerState::Unknown)
    ];
    (0..4_u32, state, 0..2)
}

proptest! {
    /// For any order in which the runtime shows and forgets containers.
    #[test]
    fn restart_counts_never_decrease(
        history in prop::collection::vec((prop::option::of(any_instance()), any::<bool>()), 1..12),
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
    ) {
        let mut scene = Scene::of(policy, Vec::new()).waiting_for("c", "ErrX");
        let mut before = 0;
        for (seen, terminating) in history {
            scene.lifecycle = if terminating { LifecycleSummary::Terminating } else { LifecycleSummary::Active };
            scene.observed.containers = seen
                .map(|(attempt, state, exit_code)| ContainerStatus { exit_code, ..container("c", attempt, state) })
                .into_iter()
                .collect();
            let count = scene.step().container_statuses.unwrap()[0].restart_count;
            prop_assert!(count >= before, "{count} after {before}");
            before = count;
        }
    }
}

#[test]
fn the_user_is_reported_if_the_runtime_has_it() {
    let mut seen = container("c", 0, ContainerState::Running);
    let reported = |seen: &ContainerStatus| regular(&Scene::of("Always", vec![seen.clone()]))["user"].clone();
    assert_eq!(reported(&seen), Value::Null);
    seen.user = Some(Box::new(LinuxUser { uid: 1000, gid: 2000, supplemental_groups: vec![2000, 3000] }));
    let expected = json!({"linux": {"uid": 1000, "gid": 2000, "supplementalGroups": [2000, 3000]}});
    assert_eq!(reported(&seen), expected);
}

#[test]
fn a_container_that_terminated_unobserved_is_the_last_state_of_the_next() {
    let ran = regular(&Scene::of("Always", vec![running_since("c", 0, 1000)]));
    let mut scene = Scene::of("Always", vec![running_since("c", 1, 1002)]);
    let status = json!({"phase": "Running", "containerStatuses": [ran]});
    scene.previous = Some(serde_json::from_value(status).unwrap());
    let reported = regular(&scene);
    assert_eq!(reported["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(
        (&reported["lastState"]["terminated"]["exitCode"], &reported["restartCount"]),
        (&json!(137), &json!(1))
    );
}
