//! What events add up to.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::pods::{ApiPod, ApiPods};
use crate::types::{CONFIG_SEEN_ANNOTATION, PodUid};

fn pod(uid: &str, version: u32, change: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": version.to_string(),
        "managedFields": [{"manager": "x"}]}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (pointer, value) in change.as_object().unwrap() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
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
fn nothing_is_ready_before_all_was_listed() {
    let mut state = ApiPods::default();
    assert!(!state.state().ready);
    state.apply(Event::Init, at(1));
    state.apply(Event::InitApply(pod("a", 1, json!({}))), at(1));
    assert!(!state.state().ready && state.state().pods.is_empty());
    state.apply(Event::InitDone, at(1));
    assert!(state.state().ready && state.state().pods.len() == 1);
}

#[test]
fn a_status_of_our_own_wakes_nobody_and_a_new_spec_does() {
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

#[test]
fn a_phase_that_somebody_ended_counts() {
    let mut state = listed([pod("a", 1, json!({"/status": {"phase": "Running"}}))]);
    let before = of(&state, "a");
    state.apply(Event::Apply(pod("a", 2, json!({"/status": {"phase": "Failed"}}))), at(2));
    assert!(!Arc::ptr_eq(&before.pod, &of(&state, "a").pod));
}

#[test]
fn a_new_listing_replaces_everything_and_keeps_what_is_equal() {
    let mut state = listed([pod("a", 1, json!({})), pod("b", 1, json!({}))]);
    let kept = of(&state, "a");
    relist(&mut state, [pod("a", 1, json!({})), pod("c", 4, json!({}))], 2);
    assert!(Arc::ptr_eq(&kept, &of(&state, "a")));
    let uids: Vec<&str> = state.state().pods.keys().map(PodUid::as_str).collect();
    assert_eq!(uids, ["a", "c"]);
}

#[test]
fn a_name_made_again_is_another_pod() {
    let mut state = listed([pod("a", 1, json!({}))]);
    state.apply(Event::Apply(pod("b", 2, json!({"/metadata/name": "a"}))), at(2));
    state.apply(Event::Delete(pod("a", 3, json!({}))), at(3));
    let uids: Vec<&str> = state.state().pods.keys().map(PodUid::as_str).collect();
    assert_eq!(uids, ["b"]);
}

#[test]
fn mirrors_are_shown_apart_and_go_by_their_own_uid() {
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
fn a_problem_is_news_once_and_over_with_the_next_event() {
    let mut state = listed([]);
    assert!(state.failed("down".to_owned()));
    assert!(!state.failed("down".to_owned()));
    assert!(state.state().ready, "what was known stays known");
    state.apply(Event::Apply(pod("a", 1, json!({}))), at(1));
    assert_eq!(state.state().problem, None);
}
