//! The fake behaves like a server, tested with the real client.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use hostlet_base::WallClock;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams,
};
use serde_json::json;

use super::{ApiFault, ApiRule, FakeApi};
use crate::api::{ApiErrorKind, error_kind};

fn pod(name: &str, node: &str) -> Pod {
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c"}]}});
    serde_json::from_value(pod).unwrap()
}

fn server() -> (FakeApi, Api<Pod>) {
    let api = FakeApi::new(WallClock::system());
    let pods = Api::namespaced(api.client(), "default");
    (api, pods)
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_listed_by_field_and_read() {
    let (_, pods) = server();
    let made = pods.create(&PostParams::default(), &pod("a", "n1")).await.unwrap();
    pods.create(&PostParams::default(), &pod("b", "n2")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    let here = pods.list(&ListParams::default().fields("spec.nodeName=n1")).await.unwrap();
    assert_eq!(here.items, std::slice::from_ref(&made));
    assert_eq!(pods.get("a").await.unwrap(), made);
    let again = pods.create(&PostParams::default(), &pod("a", "n1")).await.unwrap_err();
    assert_eq!(error_kind(&again), ApiErrorKind::AlreadyExists);
    assert_eq!(error_kind(&pods.get("c").await.unwrap_err()), ApiErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_is_marked_first_and_deleted_with_grace_zero() {
    let (api, pods) = server();
    let made = pods.create(&PostParams::default(), &pod("a", "n1")).await.unwrap();
    pods.delete("a", &DeleteParams::default().grace_period(5)).await.unwrap();
    let marked = pods.get("a").await.unwrap();
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(5));
    let uid = |uid: Option<String>| Preconditions { uid, resource_version: None };
    let zero = DeleteParams::default().grace_period(0);
    let other = zero.clone().preconditions(uid(Some("another".to_owned())));
    assert_eq!(error_kind(&pods.delete("a", &other).await.unwrap_err()), ApiErrorKind::Conflict);
    pods.delete("a", &zero.preconditions(uid(made.metadata.uid))).await.unwrap();
    assert_eq!(api.get::<Pod>("/api/v1/namespaces/default/pods/a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_status_patch_changes_nothing_but_the_status_and_checks_the_uid() {
    let (_, pods) = server();
    let made = pods.create(&PostParams::default(), &pod("a", "n1")).await.unwrap();
    let patch =
        json!({"metadata": {"uid": made.metadata.uid, "labels": {"x": "y"}}, "status": {"phase": "Running"}});
    let patched = pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(patched.metadata.labels, None);
    let other = json!({"metadata": {"uid": "another"}, "status": {"phase": "Failed"}});
    let rejected =
        pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(other)).await.unwrap_err();
    assert_eq!(error_kind(&rejected), ApiErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_status_is_rejected_with_the_servers_message() {
    let (_, pods) = server();
    pods.create(&PostParams::default(), &pod("a", "n1")).await.unwrap();
    let patch = async |status: serde_json::Value| {
        let patch = Patch::Strategic(json!({"status": status}));
        pods.patch_status("a", &PatchParams::default(), &patch).await.map_err(|error| error.to_string())
    };
    patch(json!({"hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}]})).await.unwrap();
    // Merged by `ip` instead of replacing the list.
    let error = patch(json!({"hostIP": "192.0.2.2", "hostIPs": [{"ip": "192.0.2.2"}]})).await.unwrap_err();
    assert!(error.contains("may specify no more than one IP for each IP family"), "{error}");
    let error = patch(json!({"podIPs": [{"address": "192.0.2.2"}]})).await.unwrap_err();
    assert!(error.contains("does not contain declared merge key: ip"), "{error}");
    let error = patch(json!({"hostIP": "192.0.2.2"})).await.unwrap_err();
    assert!(error.contains("must be equal to `hostIP`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_past_and_new_events() {
    let (api, pods) = server();
    pods.create(&PostParams::default(), &pod("a", "n1")).await.unwrap();
    let mut events =
        pods.watch(&WatchParams::default().fields("spec.nodeName=n1"), "0").await.unwrap().boxed();
    let name = |event: Option<WatchEvent<Pod>>| match event {
        Some(WatchEvent::Added(pod)) => format!("added {}", pod.metadata.name.unwrap()),
        Some(WatchEvent::Deleted(pod)) => format!("deleted {}", pod.metadata.name.unwrap()),
        Some(WatchEvent::Bookmark(mark)) => format!("bookmark {}", mark.metadata.resource_version),
        Some(WatchEvent::Error(status)) => format!("error {}", status.code),
        other => format!("{other:?}"),
    };
    assert_eq!(name(events.try_next().await.unwrap()), "added a");
    pods.create(&PostParams::default(), &pod("b", "n2")).await.unwrap();
    pods.create(&PostParams::default(), &pod("c", "n1")).await.unwrap();
    assert_eq!(name(events.try_next().await.unwrap()), "added c");
    api.delete("/api/v1/namespaces/default/pods/c", Some(0));
    assert_eq!(name(events.try_next().await.unwrap()), "deleted c");
    api.bookmark();
    assert_eq!(name(events.try_next().await.unwrap()), "bookmark 4");
    pods.create(&PostParams::default(), &pod("d", "n1")).await.unwrap();
    api.compact();
    let mut late = pods.watch(&WatchParams::default(), "1").await.unwrap().boxed();
    assert_eq!(name(late.try_next().await.unwrap()), "error 410");
}

#[tokio::test(start_paused = true)]
async fn faults_happen_as_scripted() {
    let (api, pods) = server();
    api.fail(ApiRule::once("POST", "/pods", ApiFault::LostAnswer));
    assert!(pods.create(&PostParams::default(), &pod("a", "n1")).await.is_err());
    assert!(pods.get("a").await.is_ok());
    api.fail(ApiRule::once(
        "GET",
        "/pods/a",
        ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 3 },
    ));
    let busy = pods.get("a").await.unwrap_err();
    assert_eq!(error_kind(&busy), ApiErrorKind::TooMany(Some(Duration::from_secs(3))));
    api.fail(ApiRule::once("WATCH", "/pods", ApiFault::HalfOpenWatch(1)));
    let mut events = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(events.try_next().await.unwrap().is_some());
    pods.create(&PostParams::default(), &pod("b", "n1")).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_secs(3600), events.try_next()).await;
    assert!(silence.is_err(), "a half-open watch is silent");
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_object_keeps_its_version() {
    let api = FakeApi::new(WallClock::system());
    let maps: Api<ConfigMap> = Api::namespaced(api.client(), "default");
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"k": "v"}})).unwrap();
    let made = maps.create(&PostParams::default(), &map).await.unwrap();
    let same = Patch::Merge(json!({"data": {"k": "v"}}));
    let patched = maps.patch("m", &PatchParams::default(), &same).await.unwrap();
    assert_eq!(patched.metadata.resource_version, made.metadata.resource_version);
}
