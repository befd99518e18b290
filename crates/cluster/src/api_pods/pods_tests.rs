//! Applying watch events.

use std::sync::Arc;

use hostlet_base::testing::at;
use hostlet_base::{CONFIG_SEEN_ANNOTATION, PodUid};
use hostlet_pod::ApiPod;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::pods::ApiPods;

fn pod(uid: &str, version: u32, change: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": version.to_string(),
        "managedFields": [{"manager": "x"}]}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (pointer, value) in change.as_object().unwrap() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn listed(pods: impl IntoIterator<Item = Pod>) -> ApiPods {
    let mut state = ApiPods::default();
    relist(&mut state, pods, 1);
    state
}

fn relist(state: &mut ApiPods, pods: impl IntoIterator<Item = Pod>, second: i64) {
    state.apply(Event::Init, at(second));
    for pod in pods {
        assert!(!state.apply(Event::InitApply(pod), at(second)), "nothing shows before the listing is whole");
    }
    assert!(state.apply(Event::InitDone, at(second)));
}

fn of(state: &ApiPods, uid: &str) -> Arc<ApiPod> {
    state.state().pods[&PodUid::from(uid)].clone()
}

#[test]
fn the_state_is_ready_after_the_first_listing() {
    let mut state = ApiPods::default();
    assert!(!state.state().ready);
    state.apply(Event::Init, at(1));
    state.apply(Event::InitApply(pod("a", 1, json!({}))), at(1));
    assert!(!state.state().ready && state.state().pods.is_empty());
    state.apply(Event::InitDone, at(1));
    assert!(state.state().ready && state.state().pods.len() == 1);
}

#[test]
fn a_status_update_keeps_the_pod_and_a_new_spec_replaces_it() {
    let mut state = listed([pod("a", 1, json!({}))]);
    let first = of(&state, "a");
    state.apply(Event::Apply(pod("a", 2, json!({"/status": {"phase": "Running"}}))), at(2));
    let second = of(&state, "a");
    assert!(Arc::ptr_eq(&first.pod, &second.pod));
    assert_eq!(second.status.phase.as_deref(), Some("Running"));
    state.apply(Event::Apply(pod("a", 3, json!({"/metadata/labels": {"x": "y"}}))), at(3));
    let third = of(&state, "a");
    assert!(!Arc::ptr_eq(&second.pod, &third.pod));
    let seen = |pod: &ApiPod| pod.pod.metadata.annotations.as_ref().unwrap()[CONFIG_SEEN_ANNOTATION].clone();
    assert_eq!(seen(&first), seen(&third), "a pod is seen first once");
    assert_eq!(third.pod.metadata.managed_fields, None);
}

/// A previous daemon stored the pod at its admission.
#[test]
fn the_servers_status_replaces_the_stored_one() {
    let stored = Arc::new(pod("a", 1, json!({"/status": {"phase": "Pending"}})));
    let mut state = ApiPods::restored([stored]);
    relist(&mut state, [pod("a", 7, json!({"/status": {"phase": "Running"}}))], 1);
    let known = of(&state, "a");
    assert_eq!(known.pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
}

#[test]
fn a_readiness_gate_replaces_the_pod_and_another_condition_does_not() {
    let gated = |version, conditions: Value| {
        let gates = json!([{"conditionType": "example.com/gate"}]);
        pod("a", version, json!({"/spec/readinessGates": gates, "/status": {"conditions": conditions}}))
    };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let mut state = listed([gated(1, json!([condition("example.com/gate", "False")]))]);
    let before = of(&state, "a");
    let both = json!([condition("example.com/gate", "False"), condition("example.com/x", "True")]);
    state.apply(Event::Apply(gated(2, both)), at(2));
    assert!(Arc::ptr_eq(&before.pod, &of(&state, "a").pod));
    state.apply(Event::Apply(gated(3, json!([condition("example.com/gate", "True")]))), at(3));
    let after = of(&state, "a");
    assert_eq!(after.pod.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].status, "True");
}

#[test]
fn a_requested_resize_replaces_the_pod() {
    let sized = |version, cpu: &str| {
        let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
        pod("a", version, json!({"/spec/containers": containers}))
    };
    let mut state = listed([sized(1, "1")]);
    state.apply(Event::Apply(sized(2, "2")), at(2));
    let spec = of(&state, "a").pod.spec.clone().unwrap();
    assert_eq!(spec.containers[0].resources.clone().unwrap().requests.unwrap()["cpu"].0, "2");
}

#[test]
fn a_terminal_phase_replaces_the_pod() {
    let mut state = listed([pod("a", 1, json!({"/status": {"phase": "Running"}}))]);
    let before = of(&state, "a");
    state.apply(Event::Apply(pod("a", 2, json!({"/status": {"phase": "Failed"}}))), at(2));
    assert!(!Arc::ptr_eq(&before.pod, &of(&state, "a").pod));
}

#[test]
fn a_new_listing_replaces_everything_and_keeps_equal_pods() {
    let mut state = listed([pod("a", 1, json!({})), pod("b", 1, json!({}))]);
    let kept = of(&state, "a");
    relist(&mut state, [pod("a", 1, json!({})), pod("c", 4, json!({}))], 2);
    assert!(Arc::ptr_eq(&kept, &of(&state, "a")));
    let uids: Vec<&str> = state.state().pods.keys().map(PodUid::as_str).collect();
    assert_eq!(uids, ["a", "c"]);
}

#[test]
fn a_recreated_name_is_another_pod() {
    let mut state = listed([pod("a", 1, json!({}))]);
    state.apply(Event::Apply(pod("b", 2, json!({"/metadata/name": "a"}))), at(2));
    state.apply(Event::Delete(pod("a", 3, json!({}))), at(3));
    let uids: Vec<&str> = state.state().pods.keys().map(PodUid::as_str).collect();
    assert_eq!(uids, ["b"]);
}

#[test]
fn mirrors_are_separate_and_removed_by_their_own_uid() {
    let mirror = |uid, version| {
        let annotations = json!({"kubernetes.io/config.mirror": "hash"});
        pod(uid, version, json!({"/metadata/annotations": annotations, "/metadata/name": "web-n1"}))
    };
    let mut state = listed([mirror("m1", 1)]);
    assert!(state.state().pods.is_empty());
    let key = ("default".to_owned(), "web-n1".to_owned());
    assert_eq!(state.state().mirrors[&key].mirrored(), "hash");
    state.apply(Event::Apply(mirror("m2", 3)), at(2));
    state.apply(Event::Delete(mirror("m1", 4)), at(2));
    assert!(state.state().mirrors.contains_key(&key), "the successor stays");
    state.apply(Event::Delete(mirror("m2", 5)), at(2));
    assert!(state.state().mirrors.is_empty());
}

#[test]
fn a_problem_is_reported_once_and_ends_with_the_next_event() {
    let mut state = listed([]);
    assert!(state.failed("down".to_owned()));
    assert!(!state.failed("down".to_owned()));
    assert!(state.state().ready, "what was known stays known");
    state.apply(Event::Apply(pod("a", 1, json!({}))), at(1));
    assert_eq!(state.state().problem, None);
}
