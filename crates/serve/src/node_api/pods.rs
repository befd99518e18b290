//! `/pods`: the pods of this node as their sources name them, with their latest statuses. `/allocatedPods`: with the resources that are
//! allocated to them. `/runningpods/`: what the runtime runs.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use hostlet_observe::pleg::Cache;
use hostlet_observe::status::{DirectoryEntry, LifecycleSummary, PodDirectory};
use hostlet_pod::has_ended;
use hostlet_runtime::cri::ContainerState;
use http::StatusCode;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::answers::{Slashes, json, only_get, text};

/// What the lists are made of.
#[derive(Clone)]
pub struct PodLists {
    /// The pods of this node.
    pub pods: PodDirectory,
    /// What the runtime has.
    pub observed: Cache,
    /// Whether there is `/allocatedPods` (gate `KubeletAllocatedPodsEndpoint`).
    pub has_allocated: bool,
}

impl PodLists {
    /// `/pods`.
    pub(super) fn routes(self) -> Router {
        Router::new().restful("/pods", only_get(pods)).with_state(self)
    }

    /// `/runningpods/` and `/allocatedPods`, which are part of the debugging handlers.
    pub(super) fn debugging_routes(self) -> Router {
        let allocated = if self.has_allocated { self.clone().allocated_routes() } else { Router::new() };
        Router::new().restful("/runningpods", only_get(running_pods)).with_state(self).merge(allocated)
    }

    fn allocated_routes(self) -> Router {
        Router::new()
            .restful("/allocatedPods", only_get(allocated_pods))
            .restful("/allocatedPods/{namespace}/{pod}", only_get(allocated_pod))
            .restful("/allocatedPods/{namespace}/{pod}/{uid}", only_get(allocated_pod_by_uid))
            .with_state(self)
    }

    /// The pod as its source names it, and its version on the API server.
    fn source(&self, entry: &DirectoryEntry) -> (Arc<Pod>, Option<String>) {
        match self.pods.api_version(&entry.reference().uid) {
            Some(given) => (given.pod.clone(), Some(given.version.clone())),
            None => (entry.object().clone(), None),
        }
    }
}

/// A pod in a list, without copying it.
#[derive(Serialize)]
struct Item<'a> {
    metadata: Cow<'a, ObjectMeta>,
    spec: Option<&'a PodSpec>,
    status: &'a PodStatus,
}

#[derive(Serialize)]
struct List<T> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Value,
    items: T,
}

impl<T> List<T> {
    fn new(items: T) -> Self {
        Self { kind: "PodList", api_version: "v1", metadata: json!({}), items }
    }
}

/// An empty list has no items, as in Go.
fn list<T: Serialize>(items: &[T]) -> Response {
    json(&List::new((!items.is_empty()).then_some(items)))
}

fn item<'a>(pod: &'a Pod, status: &'a PodStatus) -> Item<'a> {
    Item { metadata: Cow::Borrowed(&pod.metadata), spec: pod.spec.as_ref(), status }
}

/// With the version, which the daemon keeps apart from the pod.
fn versioned<'a>(mut item: Item<'a>, version: Option<&String>) -> Item<'a> {
    if let Some(version) = version {
        item.metadata.to_mut().resource_version = Some(version.clone());
    }
    item
}

async fn pods(State(lists): State<PodLists>) -> Response {
    let entries = lists.pods.sorted();
    let all: Vec<_> = entries.iter().map(|entry| (lists.source(entry), entry.status())).collect();
    let items = all.iter().map(|((pod, version), status)| versioned(item(pod, status), version.as_ref()));
    list(&items.collect::<Vec<_>>())
}

async fn allocated_pods(State(lists): State<PodLists>) -> Response {
    let (mut active, none) = (lists.pods.sorted(), PodStatus::default());
    active.retain(is_active);
    list(&active.iter().map(|entry| item(entry.object(), &none)).collect::<Vec<_>>())
}

async fn allocated_pod(lists: State<PodLists>, Path((namespace, name)): Path<(String, String)>) -> Response {
    allocated(&lists, &namespace, &name, None)
}

async fn allocated_pod_by_uid(
    lists: State<PodLists>,
    Path((namespace, name, uid)): Path<(String, String, String)>,
) -> Response {
    allocated(&lists, &namespace, &name, Some(&uid))
}

fn allocated(lists: &PodLists, namespace: &str, name: &str, uid: Option<&str>) -> Response {
    let found = lists.pods.find(namespace, name);
    let is_it = |entry: &DirectoryEntry| uid.is_none_or(|uid| entry.reference().uid.as_str() == uid);
    match found.filter(|entry| is_it(entry) && is_active(entry)) {
        Some(entry) => json(&Pod { status: Some(PodStatus::default()), ..Pod::clone(entry.object()) }),
        None => text(StatusCode::NOT_FOUND, "pod not found"),
    }
}

/// Whether a pod still has its resources: it has not ended, or terminates at this moment.
fn is_active(entry: &DirectoryEntry) -> bool {
    match entry.lifecycle() {
        LifecycleSummary::Active => !has_ended(entry.status()),
        LifecycleSummary::Terminating => true,
        LifecycleSummary::Terminated => false,
    }
}

async fn running_pods(State(lists): State<PodLists>) -> Response {
    let mut pods = lists.observed.pods();
    pods.sort();
    let running = pods.into_iter().filter_map(|pod| {
        let observed = lists.observed.get(&pod).ok().filter(|observed| observed.may_run())?;
        let runs = observed.containers.iter().filter(|container| container.state == ContainerState::Running);
        let containers: Vec<Value> = runs
            .map(|container| json!({"name": &*container.name, "image": container.image, "resources": {}}))
            .collect();
        let metadata = json!({"name": &*pod.name, "namespace": &*pod.namespace, "uid": pod.uid.as_str()});
        let containers = (!containers.is_empty()).then_some(containers);
        Some(json!({"metadata": metadata, "spec": {"containers": containers}, "status": {}}))
    });
    list(&running.collect::<Vec<_>>())
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
