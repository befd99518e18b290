//! The expected state after a storm has settled.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::Result;
use hostlet_integration::real::{ContainerProcess, Daemon, RealHost};
use hostlet_proto::cri::{ContainerState, PodSandboxState};
use k8s_openapi::api::core::v1::Pod;

use super::pods::{Kind, Mark, Present, StormPod};
use crate::support::{is_ready, statuses, uid};

/// The differences from the expected state, one per line.
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
            Some(seen) if is_as_wanted(pod, seen) => {}
            Some(seen) => wrong.push(format!("{pod:?} is {}", serde_json::to_string(&seen.status)?)),
            None => wrong.push(format!("{pod:?} is not known")),
        }
    }
    let wanted: BTreeSet<String> = present.keys().map(|name| format!("{name}-node1")).collect();
    wrong.extend(
        shown.keys().filter(|name| !wanted.contains(*name)).map(|name| format!("{name} is still known")),
    );
    let uids: HashSet<String> = pods.iter().map(uid).collect();
    wrong.extend(wrong_sandboxes(host, &uids).await?);
    wrong.extend(wrong_containers(host).await?);
    let strays = host.strays(&uids).await?;
    wrong.extend(strays.into_iter().map(|stray| format!("left behind: {stray}")));
    Ok(wrong)
}

fn wrong_processes(present: &Present, running: &BTreeMap<Mark, ContainerProcess>) -> Vec<String> {
    let mut wrong = Vec::new();
    for pod in present.values().filter(|pod| pod.kind.is_lasting()) {
        let missing = pod.marks().into_iter().filter(|mark| !running.contains_key(mark));
        wrong.extend(missing.map(|mark| format!("{mark} does not run")));
    }
    let is_wanted = |mark: &Mark| {
        let pod = present.get(&mark.pod);
        pod.is_some_and(|pod| {
            pod.version == mark.version && (pod.kind.is_lasting() || pod.kind == Kind::Crash)
        })
    };
    wrong.extend(running.keys().filter(|mark| !is_wanted(mark)).map(|mark| format!("{mark} runs")));
    wrong
}

fn is_as_wanted(pod: &StormPod, seen: &Pod) -> bool {
    let phase = seen.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match pod.kind {
        Kind::Plain | Kind::Trio | Kind::HostNetwork | Kind::Deaf => is_ready(seen),
        Kind::Crash => phase == "Running" && statuses(seen).iter().any(|status| status.restart_count > 0),
        // The exit code of a container that exited while containerd was down is unknown.
        Kind::Job => phase == "Succeeded" || phase == "Failed",
        Kind::Retry => phase == "Succeeded",
    }
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
