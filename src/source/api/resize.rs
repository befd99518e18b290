//! In-place resizes, which are not supported: the pod keeps its resources and reports the resize as infeasible, like the stock
//! kubelet on a platform without resizes. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodCondition, PodSpec, ResourceRequirements};
use serde::Serialize;

use crate::status::{RESIZE_PENDING, whole_seconds};

/// Upstream's reason for a resize that is impossible on this node.
const INFEASIBLE: &str = "Infeasible";
/// Upstream's message on a platform without in-place resize.
const NOT_SUPPORTED: &str = "In-place pod resize is not supported on this node";

/// Replaces the resources in `pod` with those of `before`, its previous version. The condition `PodResizePending` reports
/// whether different ones were requested. Returns the message of upstream's event in that case.
pub(super) fn keep_resources(pod: &mut Pod, before: &Pod, now: Timestamp) -> Option<String> {
    let generation = pod.metadata.generation.filter(|generation| *generation != 0);
    let mut message = None;
    if let (Some(spec), Some(current)) = (&mut pod.spec, &before.spec) {
        let requested = spec.clone();
        let mut is_resized = keep(&mut spec.resources, &current.resources);
        is_resized |= keep_all(&mut spec.containers, &current.containers);
        let current = current.init_containers.as_deref().unwrap_or_default();
        is_resized |= keep_all(spec.init_containers.as_deref_mut().unwrap_or_default(), current);
        message = is_resized.then(|| summary(&requested, generation.unwrap_or_default()));
    }
    let Some(status) = &mut pod.status else { return message };
    let conditions = status.conditions.get_or_insert_default();
    let position = conditions.iter().position(|condition| condition.type_ == RESIZE_PENDING);
    let known = position.map(|at| conditions.remove(at));
    if message.is_some() {
        // The transition time of an existing condition stays.
        let since = known.and_then(|known| known.last_transition_time);
        conditions.push(PodCondition {
            last_probe_time: None,
            last_transition_time: since.or_else(|| Some(whole_seconds(now))),
            message: Some(NOT_SUPPORTED.to_owned()),
            observed_generation: generation,
            reason: Some(INFEASIBLE.to_owned()),
            status: "True".to_owned(),
            type_: RESIZE_PENDING.to_owned(),
        });
    }
    message
}

/// The requested resources in the format of upstream's events.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'p> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<RequestedResources<'p>>,
    containers: Vec<RequestedResources<'p>>,
    generation: i64,
    error: &'static str,
}

#[derive(Serialize)]
struct RequestedResources<'p> {
    name: &'p str,
    resources: ResourceRequirements,
}

fn summary(requested: &PodSpec, generation: i64) -> String {
    let of = |container: &'_ Container| container.resources.clone().unwrap_or_default();
    let init = requested.init_containers.iter().flatten();
    let summary = Summary {
        init_containers: init.map(|c| RequestedResources { name: &c.name, resources: of(c) }).collect(),
        containers: requested
            .containers
            .iter()
            .map(|c| RequestedResources { name: &c.name, resources: of(c) })
            .collect(),
        generation,
        error: NOT_SUPPORTED,
    };
    // Plain data of strings and numbers, which always becomes JSON.
    format!("Pod resize {INFEASIBLE}: {}", serde_json::to_string(&summary).unwrap_or_default())
}

fn keep_all(containers: &mut [Container], current: &[Container]) -> bool {
    let mut is_resized = false;
    for container in containers {
        if let Some(current) = current.iter().find(|current| current.name == container.name) {
            is_resized |= keep(&mut container.resources, &current.resources);
        }
    }
    is_resized
}

fn keep<T: Clone + PartialEq>(requested: &mut T, current: &T) -> bool {
    let differs = requested != current;
    if differs {
        requested.clone_from(current);
    }
    differs
}
