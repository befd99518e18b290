//! Tests of a pod's line; the cases follow upstream's `TestPrintPod`.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn line(spec: Value, status: Value) -> PodSummary {
    let meta = json!({"name": "web", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"});
    let pod = serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": status})).unwrap();
    summary(&pod, NOW.parse().unwrap())
}

fn cells(spec: Value, status: Value) -> (String, String, String) {
    let line = line(spec, status);
    (line.ready, line.status, line.restarts)
}

fn expect(ready: &str, status: &str, restarts: &str) -> (String, String, String) {
    (ready.into(), status.into(), restarts.into())
}

fn one() -> Value {
    json!({"containers": [{"name": "c"}]})
}

fn two() -> Value {
    json!({"containers": [{"name": "c"}, {"name": "d"}]})
}

fn container(name: &str, more: Value) -> Value {
    let mut status = json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0});
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    status
}

fn running(name: &str) -> Value {
    container(name, json!({"ready": true, "started": true, "state": {"running": {}}}))
}

fn ended(name: &str, code: i32, reason: &str) -> Value {
    container(name, json!({"state": {"terminated": {"exitCode": code, "reason": reason}}}))
}

#[test]
fn every_cell() {
    let status = json!({
        "phase": "Running", "podIP": "10.0.0.2", "qosClass": "Burstable",
        "containerStatuses": [container("c", json!({
            "ready": true, "restartCount": 3, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:55:00Z"}}
        }))]
    });
    let expected = PodSummary {
        namespace: "ns".into(),
        name: "web".into(),
        ready: "1/1".into(),
        status: "Running".into(),
        restarts: "3 (5m ago)".into(),
        restart_count: 3,
        age: "60m".into(),
        ip: "10.0.0.2".into(),
        qos: "Burstable".into(),
    };
    assert_eq!(line(one(), status), expected);
}

#[test]
fn a_pod_of_which_nothing_is_known_yet() {
    let line = line(one(), json!({"phase": "Pending"}));
    assert_eq!((line.ready, line.status, line.ip), ("0/1".into(), "Pending".into(), "<none>".into()));
}

#[test]
fn the_reason_of_the_first_container_that_waits_or_ended_is_shown() {
    let waiting = |reason: &str| container("c", json!({"state": {"waiting": {"reason": reason}}}));
    let of = |statuses: Value| cells(two(), json!({"phase": "Running", "containerStatuses": statuses}));
    assert_eq!(
        of(json!([waiting("CrashLoopBackOff"), running("d")])),
        expect("1/2", "CrashLoopBackOff", "0")
    );
    assert_eq!(of(json!([running("c"), ended("d", 1, "Error")])), expect("1/2", "Error", "0"));
    assert_eq!(of(json!([ended("c", 2, ""), running("d")])), expect("1/2", "ExitCode:2", "0"));
    let signal = container("c", json!({"state": {"terminated": {"exitCode": 137, "signal": 9}}}));
    assert_eq!(of(json!([signal, running("d")])), expect("1/2", "Signal:9", "0"));
    assert_eq!(of(json!([waiting(""), running("d")])), expect("1/2", "Running", "0"));
    assert_eq!(cells(one(), json!({"phase": "Failed", "reason": "Evicted"})), expect("0/1", "Evicted", "0"));
}

#[test]
fn a_completed_container_does_not_hide_the_others() {
    let of = |statuses: Value, ready: &str| {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        cells(two(), json!({"phase": "Running", "containerStatuses": statuses, "conditions": conditions})).1
    };
    assert_eq!(of(json!([ended("c", 0, "Completed"), running("d")]), "True"), "Running");
    assert_eq!(of(json!([ended("c", 0, "Completed"), running("d")]), "False"), "NotReady");
    assert_eq!(of(json!([ended("c", 0, "Completed"), ended("d", 1, "Error")]), "False"), "Error");
    assert_eq!(of(json!([ended("c", 0, "Completed"), ended("d", 0, "Completed")]), "False"), "Completed");
}

#[test]
fn initialization() {
    let spec = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let of = |inits: Value| cells(spec.clone(), json!({"phase": "Pending", "initContainerStatuses": inits}));
    let pending = |name: &str| container(name, json!({"state": {"waiting": {"reason": "PodInitializing"}}}));
    assert_eq!(of(json!([pending("i"), pending("j")])), expect("0/1", "Init:0/2", "0"));
    assert_eq!(of(json!([ended("i", 0, "Completed"), running("j")])), expect("0/1", "Init:1/2", "0"));
    assert_eq!(of(json!([ended("i", 1, "Error"), pending("j")])), expect("0/1", "Init:Error", "0"));
    assert_eq!(of(json!([ended("i", 3, ""), pending("j")])), expect("0/1", "Init:ExitCode:3", "0"));
    let back_off = container(
        "i",
        json!({
            "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:59:30Z"}}
        }),
    );
    assert_eq!(of(json!([back_off, pending("j")])), expect("0/1", "Init:CrashLoopBackOff", "2 (30s ago)"));
}

#[test]
fn once_initialized_only_sidecars_count_of_the_init_containers() {
    let spec = json!({
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]
    });
    let restarted = |name: &str, count: i32, mut status: Value| {
        status["restartCount"] = json!(count);
        status["name"] = json!(name);
        status
    };
    let status = json!({
        "phase": "Running",
        "initContainerStatuses": [restarted("i", 5, ended("i", 0, "Completed")), restarted("s", 2, running("s"))],
        "containerStatuses": [restarted("c", 1, running("c"))]
    });
    assert_eq!(cells(spec, status), expect("2/2", "Running", "3"));
}

#[test]
fn a_deleted_pod_is_terminating_until_it_is_over() {
    let of = |phase: &str| {
        let meta = json!({"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let status = json!({"phase": phase, "startTime": "2026-01-01T00:59:00Z"});
        let pod = serde_json::from_value(json!({"metadata": meta, "spec": one(), "status": status})).unwrap();
        summary(&pod, NOW.parse().unwrap())
    };
    assert_eq!(of("Running").status, "Terminating");
    assert_eq!(of("Failed").status, "Failed");
    assert_eq!(of("Running").age, "60s");
}
