//! The differences from the state that is expected after a storm in a cluster has settled.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result};
use hostlet_integration::cluster::Tenant;
use hostlet_integration::real::ContainerProcess;
use hostlet_integration::storm::{Mark, Present, StormPod, is_as_desired, wrong_on_host, wrong_processes};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::support::{name, phase, uid};

/// The differences, one per line.
pub(super) async fn unsettled(
    tenant: &Tenant,
    present: &Present,
    running: &BTreeMap<Mark, ContainerProcess>,
) -> Result<Vec<String>> {
    let pods = tenant.api::<Pod>().list(&ListParams::default()).await?.items;
    let seen: BTreeMap<String, &Pod> = pods.iter().map(|pod| (name(pod), pod)).collect();
    let is_evicted = |pod: &StormPod| seen.get(&pod.name).is_some_and(|seen| was_evicted(pod, seen));
    let mut wrong = Vec::new();
    for pod in present.values().filter(|pod| !is_evicted(pod)) {
        match seen.get(&pod.name) {
            Some(seen) if is_as_desired(pod.kind, seen) => {}
            Some(seen) => wrong.push(format!("{pod:?} is {}", serde_json::to_string(&seen.status)?)),
            None => wrong.push(format!("{pod:?} does not exist")),
        }
    }
    wrong
        .extend(seen.keys().filter(|name| !present.contains_key(*name)).map(|name| format!("{name} exists")));
    let left: Present = present
        .iter()
        .filter(|(_, pod)| !is_evicted(pod))
        .map(|(name, pod)| (name.clone(), pod.clone()))
        .collect();
    wrong.extend(wrong_processes(&left, running));
    let node = tenant.nodes.first().context("no node")?;
    let uids: HashSet<String> = pods.iter().map(uid).collect();
    wrong.extend(wrong_on_host(node.host(), &uids).await?);
    Ok(wrong)
}

/// Whether memory pressure evicted or rejected a pod. Critical ones it must not.
fn was_evicted(pod: &StormPod, seen: &Pod) -> bool {
    let reason = seen.status.as_ref().and_then(|status| status.reason.as_deref());
    !pod.name.starts_with("calm") && phase(seen) == "Failed" && reason == Some("Evicted")
}
