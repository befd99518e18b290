//! Tests of the whole status.

use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_pod::testing::{container, exited, sandbox};
use hostlet_pod::{PodPhase, StatusOverride};
use hostlet_runtime::cri::{ContainerState, SandboxState};
use serde_json::json;

use crate::status::LifecycleSummary;
use crate::status::testing::Scene;

use super::*;

/// Turns the pod into one from the API server.
fn from_api(mut scene: Scene) -> Scene {
    let source = (CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
    scene.edit(|pod| pod.metadata.annotations.get_or_insert_default().extend([source]));
    scene
}

fn evicted() -> Option<StatusOverride> {
    Some(StatusOverride {
        phase: PodPhase::Failed,
        reason: "Evicted".into(),
        message: "The node was low on memory.".into(),
        disruption: None,
    })
}

/// The complete status, as reported by a stock kubelet 1.37 on a runtime that does not report users.
#[test]
fn a_crash_loop_reads_as_the_stock_kubelets() {
    let mut scene = Scene::of("Always", vec![exited("c", 4, 3)]).waiting_for("c", "CrashLoopBackOff");
    scene.edit(|pod| pod.metadata.generation = Some(1));
    scene.messages.insert("c-4".into(), "bye\n".into());
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "observedGeneration": 1, "lastTransitionTime": "1970-01-01T02:46:40Z"
        })
    };
    let unready = |type_: &str| {
        let mut condition = condition(type_, "False");
        condition["reason"] = json!("ContainersNotReady");
        condition["message"] = json!("containers with unready status: [c]");
        condition
    };
    let expected = json!({
        "conditions": [
            condition("PodReadyToStartContainers", "True"), condition("Initialized", "True"),
            unready("Ready"), unready("ContainersReady"), condition("PodScheduled", "True")
        ],
        "containerStatuses": [{
            "containerID": "containerd://c-4", "image": "img", "imageID": "sha256:1",
            "lastState": {"terminated": {
                "containerID": "containerd://c-4", "exitCode": 3, "finishedAt": "1970-01-01T00:16:45Z",
                "message": "bye\n", "reason": "Error", "startedAt": "1970-01-01T00:16:44Z"
            }},
            "name": "c", "ready": false, "resources": {}, "restartCount": 4, "started": false,
            "state": {"waiting": {"message": "CrashLoopBackOff it is", "reason": "CrashLoopBackOff"}}
        }],
        "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}],
        "observedGeneration": 1, "phase": "Running",
        "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "qosClass": "BestEffort", "resources": {}, "startTime": "1970-01-01T00:15:00Z"
    });
    assert_eq!(serde_json::to_value(scene.status()).unwrap(), expected);
}

#[test]
fn the_same_again_changes_nothing() {
    let mut scene = Scene::of("Always", vec![exited("c", 1, 1)]).waiting_for("c", "CrashLoopBackOff");
    scene.step();
    let settled = scene.step();
    assert_eq!(scene.step(), settled);
}

#[test]
fn start_time_is_set_once() {
    let mut scene = Scene::of("Always", Vec::new());
    let first = scene.step().start_time;
    assert!(first.is_some());
    assert_eq!(scene.step().start_time, first);
}

#[test]
fn addresses() {
    let mut scene = Scene::of("Always", Vec::new());
    scene.observed.ips = ["fd00::1", "10.0.0.9"].map(|ip| ip.parse().unwrap()).to_vec();
    let shown = |scene: &Scene| {
        let status = scene.status();
        (status.pod_ip, status.pod_ips.unwrap_or_default().into_iter().map(|ip| ip.ip).collect::<Vec<_>>())
    };
    assert_eq!(shown(&scene), (Some("10.0.0.9".into()), vec!["10.0.0.9".into(), "fd00::1".into()]));
    scene.observed.ips.clear();
    assert_eq!(shown(&scene), (None, Vec::new()));
    scene.edit(|pod| pod.spec.as_mut().unwrap().host_network = Some(true));
    assert_eq!(shown(&scene), (Some("192.0.2.1".into()), vec!["192.0.2.1".into()]));
}

#[test]
fn an_override_ends_the_pod_with_its_words() {
    let mut scene = Scene::of("Always", vec![container("c", 0, ContainerState::Running)]);
    scene.step();
    scene.lifecycle = LifecycleSummary::Terminating;
    scene.status_override = evicted();
    let status = scene.step();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    let ready = |status: &ApiPodStatus| status.conditions.as_ref().unwrap()[2].clone();
    assert_eq!(ready(&status).status, "True", "it still runs");

    scene.lifecycle = LifecycleSummary::Terminated;
    scene.status_override = None;
    scene.observed.containers = vec![exited("c", 0, 0)];
    let after = scene.step();
    assert_eq!((after.phase.as_deref(), after.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    assert_eq!(after.message.as_deref(), Some("The node was low on memory."));
    assert_eq!(
        (ready(&after).status.as_str(), ready(&after).reason.as_deref()),
        ("False", Some("PodFailed"))
    );
}

#[test]
fn a_terminal_phase_is_never_left() {
    let mut scene = Scene::of("Never", vec![exited("c", 0, 0)]);
    assert_eq!(scene.step().phase.as_deref(), Some("Succeeded"));
    scene.observed.containers = vec![container("c", 1, ContainerState::Running)];
    scene.status_override = evicted();
    let status = scene.step();
    assert_eq!((status.phase.as_deref(), status.reason), (Some("Succeeded"), None));
}

#[test]
fn a_terminated_pod_of_the_api_server_is_in_a_terminal_phase() {
    let end = |containers| {
        let scene = Scene { lifecycle: LifecycleSummary::Terminated, ..Scene::of("Always", containers) };
        from_api(scene).status().phase.unwrap()
    };
    assert_eq!(end(vec![exited("c", 0, 0)]), "Succeeded");
    assert_eq!(end(vec![exited("c", 0, 137)]), "Failed");
    assert_eq!(end(Vec::new()), "Failed");
}

#[test]
fn no_container_of_a_finished_pod_waits() {
    type Statuses = Option<Vec<ContainerStatus>>;
    let codes = |statuses: &Statuses| -> Vec<Option<i32>> {
        let ended = |status: &ContainerStatus| Some(status.state.as_ref()?.terminated.as_ref()?.exit_code);
        statuses.iter().flatten().map(ended).collect()
    };
    let end = |inits: &[(&str, bool)], containers| {
        let scene = Scene { lifecycle: LifecycleSummary::Terminated, ..Scene::of("Never", containers) };
        let mut scene = from_api(
            inits.iter().fold(scene, |scene, (name, is_sidecar)| scene.with_init(name, *is_sidecar)),
        );
        scene.step();
        let status = scene.step();
        (codes(&status.init_container_statuses), codes(&status.container_statuses))
    };
    let created = || vec![container("c", 0, ContainerState::Created)];
    assert_eq!(end(&[], Vec::new()), (vec![], vec![Some(137)]));
    assert_eq!(end(&[], created()), (vec![], vec![Some(137)]));
    assert_eq!(end(&[], vec![exited("c", 0, 3)]), (vec![], vec![Some(3)]));
    // Not initialized: main containers never had a turn. Upstream takes the first init container for started.
    assert_eq!(end(&[("i", false), ("j", false)], Vec::new()), (vec![Some(137), None], vec![None]));
    assert_eq!(
        end(&[("i", false), ("j", false)], vec![exited("i", 0, 0)]),
        (vec![Some(0), None], vec![None])
    );
    assert_eq!(end(&[("i", false)], vec![exited("i", 0, 0)]), (vec![Some(0)], vec![Some(137)]));
}

#[test]
fn a_killed_pod_replaces_a_stale_disruption_target() {
    for (value, is_kept) in [("False", false), ("True", true)] {
        let mut scene = Scene::of("Always", vec![container("c", 0, ContainerState::Running)]);
        let stale = serde_json::json!({"type": "DisruptionTarget", "status": value, "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": "2020-01-01T00:00:00Z"});
        scene.previous.get_or_insert_default().conditions =
            Some(vec![serde_json::from_value(stale).unwrap()]);
        scene.lifecycle = LifecycleSummary::Terminating;
        scene.status_override =
            evicted().map(|status| StatusOverride { disruption: Some("m".into()), ..status });
        let conditions = scene.step().conditions.unwrap();
        let all: Vec<_> = conditions.iter().filter(|it| it.type_ == "DisruptionTarget").collect();
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].status.as_str(), all[0].reason.as_deref()),
            ("True", Some("TerminationByKubelet"))
        );
        let since = all[0].last_transition_time.as_ref().unwrap().0.as_second();
        assert_eq!(since == 1_577_836_800, is_kept, "{value}");
    }
}

#[test]
fn a_terminated_static_pod_may_come_back() {
    let scene =
        Scene { lifecycle: LifecycleSummary::Terminated, ..Scene::of("Always", vec![exited("c", 0, 0)]) };
    assert_eq!(scene.status().phase.as_deref(), Some("Running"));
}

#[test]
fn a_sidecar_starting_over_does_not_make_the_pod_pending_again() {
    let mut scene = Scene::of("Always", Vec::new()).with_init("s", true);
    scene.observed.containers = vec![container("s", 0, ContainerState::Created)];
    assert_eq!(scene.status().phase.as_deref(), Some("Pending"));
    scene.observed.containers = vec![exited("s", 0, 1), container("c", 0, ContainerState::Running)];
    assert_eq!(scene.status().phase.as_deref(), Some("Running"));
    scene.observed.sandboxes = vec![sandbox(0, SandboxState::NotReady)];
    assert!(!is_initialized(&scene.input()));
}

#[test]
fn what_others_wrote_is_kept() {
    let mut scene = Scene::of("Always", Vec::new());
    scene.previous.get_or_insert_default().nominated_node_name = Some("n".into());
    assert_eq!(scene.status().nominated_node_name.as_deref(), Some("n"));
}
