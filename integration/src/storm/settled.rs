//! The expected state after a storm has settled.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::Result;
use hostlet_proto::cri::{ContainerState, PodSandboxState};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::pods::{Kind, Mark, Present, StormPod};
use crate::real::{ContainerProcess, RealHost};

/// Whether the status of a pod is that of its kind at rest.
pub fn is_as_desired(kind: Kind, seen: &Pod) -> bool {
    let phase = seen.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match kind {
        Kind::Plain | Kind::Trio | Kind::HostNetwork | Kind::Deaf => {
            phase == "Running"
                && !statuses(seen).is_empty()
                && statuses(seen).iter().all(|status| status.ready)
        }
        Kind::Crash => phase == "Running" && statuses(seen).iter().any(|status| status.restart_count > 0),
        // The exit code of a container that exited while containerd was down is unknown.
        Kind::Job => phase == "Succeeded" || phase == "Failed",
        Kind::Retry => phase == "Succeeded",
    }
}

fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

/// Processes that are missing or should not run while these pods are desired, one per line.
pub fn wrong_processes(present: &Present, running: &BTreeMap<Mark, ContainerProcess>) -> Vec<String> {
    let mut wrong = Vec::new();
    for pod in present.values().filter(|pod| pod.kind.is_lasting()) {
        let missing = pod.marks().into_iter().filter(|mark| !running.contains_key(mark));
        wrong.extend(missing.map(|mark| format!("{mark} does not run")));
    }
    let may_run = |pod: &StormPod| pod.kind.is_lasting() || pod.kind == Kind::Crash;
    let is_desired =
        |mark: &Mark| present.get(&mark.pod).is_some_and(|pod| pod.version == mark.version && may_run(pod));
    wrong.extend(running.keys().filter(|mark| !is_desired(mark)).map(|mark| format!("{mark} runs")));
    wrong
}

/// What is on a host besides the pods with these UIDs, one per line.
pub async fn wrong_on_host(host: &RealHost, uids: &HashSet<String>) -> Result<Vec<String>> {
    let mut wrong = wrong_sandboxes(host, uids).await?;
    wrong.extend(wrong_containers(host).await?);
    let strays = host.strays(uids).await?;
    wrong.extend(strays.into_iter().map(|stray| format!("left behind: {stray}")));
    Ok(wrong)
}

async fn wrong_sandboxes(host: &RealHost, uids: &HashSet<String>) -> Result<Vec<String>> {
    let (mut ready, mut wrong) = (BTreeSet::new(), Vec::new());
    for sandbox in host.cri().sandboxes().await? {
        let metadata = sandbox.metadata.clone().unwrap_or_default();
        let is_ready = sandbox.state == PodSandboxState::SandboxReady as i32;
        if !uids.contains(&metadata.uid) || is_ready && !ready.insert(metadata.uid.clone()) {
            wrong.push(format!("sandbox {metadata:?} {} of nobody, or a second one", sandbox.id));
        }
    }
    Ok(wrong)
}

/// Of each container at most one instance runs, and one dead instance is kept for its exit code; or two, if one has just exited.
async fn wrong_containers(host: &RealHost) -> Result<Vec<String>> {
    let mut kept: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for container in host.cri().containers().await? {
        let label = |name: &str| container.labels.get(name).cloned().unwrap_or_default();
        let name = format!("{}/{}", label("io.kubernetes.pod.uid"), label("io.kubernetes.container.name"));
        *kept.entry((name, container.state == ContainerState::ContainerExited as i32)).or_default() += 1;
    }
    let many = kept.into_iter().filter(|((_, exited), count)| *count > 1 + usize::from(*exited));
    Ok(many.map(|((name, exited), count)| format!("{count} of {name}, exited: {exited}")).collect())
}
