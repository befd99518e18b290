//! The differences from the state that is expected after a storm of manifests has settled.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::Result;
use hostlet_integration::real::{ContainerProcess, Daemon, RealHost};
use hostlet_integration::storm::{Mark, Present, is_as_desired, wrong_on_host, wrong_processes};
use k8s_openapi::api::core::v1::Pod;

use crate::support::uid;

/// The differences, one per line.
pub(super) async fn unsettled(
    host: &RealHost,
    daemon: &Daemon,
    present: &Present,
    running: &BTreeMap<Mark, ContainerProcess>,
) -> Result<Vec<String>> {
    let mut wrong = wrong_processes(present, running);
    let pods = daemon.pods()?;
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let shown: BTreeMap<String, &Pod> = pods.iter().map(|pod| (name(pod), pod)).collect();
    for pod in present.values() {
        match shown.get(&format!("{}-node1", pod.name)) {
            Some(seen) if is_as_desired(pod.kind, seen) => {}
            Some(seen) => wrong.push(format!("{pod:?} is {}", serde_json::to_string(&seen.status)?)),
            None => wrong.push(format!("{pod:?} is not known")),
        }
    }
    let desired: BTreeSet<String> = present.keys().map(|name| format!("{name}-node1")).collect();
    wrong.extend(
        shown.keys().filter(|name| !desired.contains(*name)).map(|name| format!("{name} is still known")),
    );
    let uids: HashSet<String> = pods.iter().map(uid).collect();
    wrong.extend(wrong_on_host(host, &uids).await?);
    Ok(wrong)
}
