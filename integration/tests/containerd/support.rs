//! Shared manifests and waits.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::{ContainerState, PodSandboxState};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::json;

/// Timeout for what takes a healthy host a second or two.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// Timeout for what waits for a back-off or a periodic clean-up.
pub(crate) const LATER: Duration = Duration::from_secs(300);

/// A pod in the namespace `default` whose containers, given as name and script, run `sh -c`. It terminates within 2 s.
pub(crate) fn manifest(name: &str, containers: &[(&str, &str)]) -> String {
    let containers: Vec<_> = containers
        .iter()
        .map(|(name, script)| json!({"name": name, "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": containers},
    })
    .to_string()
}

/// A script that sleeps until SIGTERM.
pub(crate) const IDLE: &str = "trap 'exit 0' TERM; sleep 100000 & wait";

/// The statuses of a pod's containers.
pub(crate) fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

/// The pod of the manifest `name`, as the daemon shows it. A static pod's name ends with the node's.
pub(crate) fn pod(daemon: &Daemon, name: &str) -> Result<Option<Pod>> {
    let name = format!("{name}-node1");
    Ok(daemon.pods()?.into_iter().find(|pod| pod.metadata.name.as_ref() == Some(&name)))
}

/// Waits until the daemon shows the pod in a state that satisfies the condition.
pub(crate) async fn wait_for_pod(
    daemon: &Daemon,
    name: &str,
    timeout: Duration,
    wanted: impl Fn(&Pod) -> bool,
) -> Result<Pod> {
    wait_for(&format!("the pod {name}"), timeout, async || {
        Ok(match pod(daemon, name)? {
            Some(pod) if wanted(&pod) => Look::Done(pod),
            Some(pod) => Look::NotYet(serde_json::to_string(&pod.status)?),
            None => Look::NotYet("no such pod".to_owned()),
        })
    })
    .await
}

/// Whether a pod runs with all its containers ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    running && !statuses(pod).is_empty() && statuses(pod).iter().all(|status| status.ready)
}

/// Waits until the pod runs with all its containers ready.
pub(crate) async fn wait_until_ready(daemon: &Daemon, name: &str) -> Result<Pod> {
    wait_for_pod(daemon, name, SOON, is_ready).await
}

/// Waits until a container of a pod in the namespace `default`, in its first attempt, has logged this.
pub(crate) async fn wait_for_log(host: &RealHost, pod: &Pod, container: &str, text: &str) -> Result<String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let log = host.logs().join(format!("default_{name}_{}/{container}/0.log", uid(pod)));
    wait_for(&format!("{text:?} in the log of {container}"), SOON, async || {
        let log = fs::read_to_string(&log)?;
        Ok(if log.contains(text) { Look::Done(log) } else { Look::NotYet(log) })
    })
    .await
}

/// Waits until the host has nothing of pods other than those with these UIDs.
pub(crate) async fn wait_until_no_strays(host: &RealHost, uids: &HashSet<String>) -> Result<()> {
    wait_for("nothing left behind", LATER, async || {
        let strays = host.strays(uids).await?;
        Ok(if strays.is_empty() { Look::Done(()) } else { Look::NotYet(strays.join("\n")) })
    })
    .await
}

/// `hostlet exec` in the only container of a pod.
pub(crate) fn exec(daemon: &Daemon, pod: &str, flags: &[&str], command: &[&str]) -> Output {
    exec_command(daemon, pod, flags, command).output().unwrap()
}

/// The same, not yet run: in the daemon's network, as on any host, where the runtime serves the streams.
pub(crate) fn exec_command(daemon: &Daemon, pod: &str, flags: &[&str], command: &[&str]) -> Command {
    let mut exec = Command::new("nsenter");
    exec.arg(format!("--net=/proc/{}/ns/net", daemon.pid())).arg(daemon.program());
    exec.args(["exec", pod]).args(flags).arg("--socket").arg(daemon.socket()).arg("--").args(command);
    exec
}

/// The UID of a pod.
pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// The running containers: ID to attempt.
pub(crate) async fn running_containers(host: &RealHost) -> Result<BTreeMap<String, u32>> {
    let containers = host.cri().containers().await?;
    let running = containers.into_iter().filter(|c| c.state == ContainerState::ContainerRunning as i32);
    running.map(|c| Ok((c.id, c.metadata.context("a container without metadata")?.attempt))).collect()
}

/// Waits until the runtime has no sandbox and no container in any state.
pub(crate) async fn wait_until_empty(host: &RealHost) -> Result<()> {
    wait_for("an empty runtime", LATER, async || {
        let (sandboxes, containers) = (host.cri().sandboxes().await?, host.cri().containers().await?);
        if sandboxes.is_empty() && containers.is_empty() {
            return Ok(Look::Done(()));
        }
        let ready = sandboxes.iter().filter(|s| s.state == PodSandboxState::SandboxReady as i32).count();
        Ok(Look::NotYet(format!(
            "{} sandboxes, {ready} of them ready; containers: {containers:?}",
            sandboxes.len()
        )))
    })
    .await
}

/// Waits until the runtime has no sandbox in any state except those of one pod.
pub(crate) async fn wait_until_only(host: &RealHost, pod: &str) -> Result<()> {
    wait_for(&format!("no sandbox but those of {pod}"), LATER, async || {
        let sandboxes = host.cri().sandboxes().await?;
        let others: Vec<_> =
            sandboxes.iter().filter(|s| s.metadata.as_ref().is_none_or(|m| m.name != pod)).collect();
        Ok(if others.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{others:?}")) })
    })
    .await
}
