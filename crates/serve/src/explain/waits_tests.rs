//! Each way in which a pod that is configured as it should be may wait: what it waits for, and for how long it will.

use hostlet_observe::status::{Activity, ImageOwner, ImagePull};
use hostlet_pod::{FailingProbe, ProbeKind};
use k8s_openapi::api::core::v1::Probe;
use serde_json::{Value, json};

use super::testing::{Facts, at};
use super::{Explanation, PullSoFar, Verdict};

fn running() -> Value {
    json!({"running": {"startedAt": "1970-01-01T00:15:00Z"}})
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn status(name: &str, state: Value, started: bool) -> Value {
    json!({"name": name, "image": "img", "imageID": "", "ready": started, "started": started, "restartCount": 0,
        "containerID": format!("containerd://{name}-0"), "state": state})
}

/// A pod with the init container `setup`, the sidecar `proxy` and the container `c`, with these states.
fn with_inits(setup: Value, proxy: Value, of_c: Value) -> Facts {
    let mut facts = Facts::new();
    let inits = json!([{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]);
    facts.pod.spec.as_mut().unwrap().init_containers = serde_json::from_value(inits).unwrap();
    facts.status(json!({
        "phase": "Pending",
        "initContainerStatuses": [status("setup", setup, false), status("proxy", proxy, false)],
        "containerStatuses": [status("c", of_c, false)],
    }))
}

fn initializing() -> Value {
    json!({"waiting": {"reason": "PodInitializing"}})
}

fn done() -> Value {
    json!({"terminated": {"exitCode": 0}})
}

/// With the startup probe of the sidecar failing with this answer.
fn with_closed_gate(mut facts: Facts, answer: &str) -> Facts {
    let inits = facts.pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap();
    inits[1].startup_probe = Some(Probe::default());
    let (id, answer) = ("proxy-0".into(), answer.to_owned());
    let (container, kind) = ("proxy".to_owned(), ProbeKind::Startup);
    facts.failing_probes = vec![FailingProbe { container, id, kind, answer, since: at(950) }];
    facts
}

fn in_hook(facts: Facts, container: &str) -> Facts {
    facts.doing(Activity::PostStartHook { container: container.to_owned() })
}

fn pulling(facts: Facts) -> Facts {
    let owner = ImageOwner::Container("c".to_owned());
    let mut facts = facts.doing(Activity::PullingImage(ImagePull { owner, image: "img".to_owned() }));
    facts.pull = Some(PullSoFar { since: at(940), waits_for_turn: true, bytes: None, pulls: 1 });
    facts
}

fn created() -> Value {
    json!({"waiting": {"reason": "ContainerCreating"}})
}

/// A running pod with this condition.
fn running_but(reason: &str, message: &str) -> Facts {
    let condition = json!({"type": "Ready", "status": "False", "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:16:00Z"});
    Facts::new().status(json!({
        "phase": "Running", "conditions": [condition], "containerStatuses": [status("c", running(), true)],
    }))
}

#[test]
fn every_way_to_wait_has_its_explanation() {
    let exited = json!({"exitCode": 3, "reason": "Error", "finishedAt": "1970-01-01T00:16:00Z"});
    let restarting = waiting("RestartingAllContainers", "The container is removed");
    let (under_way, wrong) = (Verdict::UnderWay, Verdict::Wrong);
    let rows: Vec<(&str, Facts, Verdict, &str, &str)> = vec![
        (
            "an init container",
            with_inits(running(), initializing(), initializing()),
            under_way,
            "init container setup (1 of 2) has run for 100s",
            "wait until it exits",
        ),
        (
            "a sidecar without an answer yet",
            with_inits(done(), running(), initializing()),
            under_way,
            "Sidecar container proxy (2 of 2) has run for 100s, and its startup probe has not succeeded yet",
            "wait; the containers after it",
        ),
        (
            "a sidecar whose startup probe fails",
            with_closed_gate(with_inits(done(), running(), initializing()), "refused"),
            under_way,
            "Sidecar container proxy has not started yet: its startup probe fails: refused",
            "startupProbe",
        ),
        (
            "a sidecar whose hook runs",
            in_hook(with_inits(done(), running(), initializing()), "proxy"),
            under_way,
            "Sidecar container proxy (2 of 2) has run for 100s, and its postStart hook has not ended yet",
            "postStart hook has succeeded",
        ),
        (
            "the hook of a container",
            in_hook(Facts::new().container(created(), json!({}), 0), "c"),
            under_way,
            "the postStart hook of container c runs",
            "",
        ),
        (
            "readiness gates",
            running_but(
                "ReadinessGatesNotReady",
                "corresponding condition of pod readiness gate \"example.com/lb\" does not exist.",
            ),
            under_way,
            "is not ready because of its readiness gates: corresponding condition of pod readiness gate \"example.com/lb\"",
            "controllers that set these conditions",
        ),
        (
            "a Secret of the environment",
            Facts::new().waiting("CreateContainerConfigError", "secret \"db\" not found"),
            wrong,
            "a Secret that its environment refers to does not exist: secret \"db\" not found",
            "create it",
        ),
        (
            "a ConfigMap of a volume",
            Facts::new().status(json!({"phase": "Pending"})).retrying(
                "MountVolume.SetUp failed for volume \"conf\" : configmap \"conf\" not found",
            ),
            wrong,
            "the ConfigMap of a volume does not exist",
            "create it",
        ),
        (
            "a claim",
            Facts::new().status(json!({"phase": "Pending"})).retrying(
                "Unable to attach or mount volumes: unmounted volumes=[data]: error processing PVC default/data: PVC is not bound",
            ),
            wrong,
            "the claim of a volume is not bound to a PersistentVolume",
            "kubectl describe pvc",
        ),
        (
            "a pull in the queue",
            pulling(Facts::new().container(created(), json!({}), 0)),
            under_way,
            "the image img is being pulled for container c",
            "",
        ),
        (
            "a pull that backs off",
            Facts::new()
                .waiting("ImagePullBackOff", "Back-off pulling image \"img\": ErrImagePull: not found")
                .retry(1100),
            wrong,
            "cannot be pulled, because its registry does not have it",
            "name and tag",
        ),
        (
            "a range of IDs",
            Facts::new().no_sandbox(
                "Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace",
            ),
            wrong,
            "all ranges of IDs for pods with hostUsers: false are in use",
            "/etc/subuid",
        ),
        (
            "a restart",
            Facts::new().crashed(exited).doing(Activity::BackingOff).retry(1020),
            wrong,
            "Container c ended with exit code 3; restarted 3 times so far, with growing back-off",
            "--previous",
        ),
        (
            "the restart of all containers",
            Facts::new().container(restarting, json!({}), 1),
            under_way,
            "The pod is being started",
            "",
        ),
    ];
    for (what, facts, verdict, sentence, remedy) in rows {
        let explanation = facts.explained();
        assert_eq!(explanation.verdict, verdict, "{what}: {explanation:?}");
        assert!(explanation.sentence.contains(sentence), "{what}: {explanation:?}");
        let found = explanation.remedy.as_deref().unwrap_or_default();
        assert!(found.contains(remedy), "{what}: {explanation:?}");
        assert!(explanation.step.is_some(), "{what}: {explanation:?}");
    }
}

fn has_also(explanation: &Explanation, expected: &str) {
    assert!(explanation.also.iter().any(|also| also.contains(expected)), "{expected}: {explanation:?}");
}

#[test]
fn more_is_said_beside_the_sentence() {
    let closed = with_closed_gate(with_inits(done(), running(), initializing()), "refused").explained();
    has_also(&closed, "The containers after it start once its startup probe has succeeded.");
    let all = Facts::new().container(waiting("RestartingAllContainers", "removed"), json!({}), 1).explained();
    has_also(&all, "A restart rule of a container that exited has all containers of the pod start again.");
    has_also(&pulling(Facts::new().container(created(), json!({}), 0)).explained(), "in the queue");
}

#[test]
fn a_failed_pull_names_the_credentials_that_were_missing() {
    for reason in ["ErrImagePull", "ImagePullBackOff"] {
        let mut facts = Facts::new().waiting(reason, "401 Unauthorized");
        facts.doing.missing_secrets = vec!["regcred".to_owned()];
        let error = "it did not exit within 60 s and was killed".to_owned();
        facts.provider_failures = [("ecr".to_owned(), error)].into();
        let explanation = facts.says(Verdict::Wrong, "requires credentials", "imagePullSecrets");
        has_also(&explanation, "The Secret regcred, which imagePullSecrets names, does not exist");
        has_also(&explanation, "The credential provider ecr failed");
        has_also(&explanation, "it did not exit within 60 s and was killed.");
    }
    let mut invalid = Facts::new().waiting("InvalidImageName", "x: bad");
    invalid.doing.missing_secrets = vec!["regcred".to_owned()];
    assert!(invalid.explained().also.is_empty(), "it was not pulled");
    let message = "image pull secret \"regcred\": invalid JSON of registry credentials at line 1, column 2";
    Facts::new().waiting("ErrImagePull", message).says(Verdict::Wrong, "has no valid registry", "kubectl");
}

#[test]
fn a_deadline_is_explained_while_the_pod_stops_and_afterwards() {
    let message = "Pod was active on the node longer than the specified deadline";
    let late = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": message});
    Facts::new().status(late.clone()).says(Verdict::Wrong, message, "raise spec.activeDeadlineSeconds");
    let mut stopping = Facts::new().status(late).doing(Activity::StoppingContainers { grace_seconds: 20 });
    stopping.terminating_since = Some(at(990));
    stopping.says(Verdict::UnderWay, "it was active for longer than activeDeadlineSeconds; ", "wait");
}

#[test]
fn an_ephemeral_container_that_cannot_be_started_is_named() {
    let debugger = |state: Value| {
        Facts::new().status(json!({
            "phase": "Running", "containerStatuses": [status("c", running(), true)],
            "ephemeralContainerStatuses": [status("debugger", state, false)],
        }))
    };
    let fails = debugger(waiting("ErrImagePull", "img: not found"));
    let explanation = fails.says(Verdict::Fine, "The pod runs", "");
    has_also(
        &explanation,
        "The ephemeral container debugger cannot be started (ErrImagePull): img: not found.",
    );
    assert!(debugger(created()).explained().also.is_empty());
}
