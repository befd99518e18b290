//! Shared manifests, waits and views.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, FakeApiServer, Look, wait_for};
use hostlet_proto::cri::{Container, ContainerState};
use hostlet_store::{Store, Table};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

/// Timeout for what takes an idle machine a second or two.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// Timeout for what waits for a back-off or until a hung call is detected.
pub(crate) const LATER: Duration = Duration::from_secs(300);

/// The pods of the namespace `default` on the fake API server.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod in the namespace `default`. Its UID is derived from its name, so that faults can be set for it before it exists.
pub(crate) fn manifest(name: &str, containers: &[&str]) -> String {
    let containers: Vec<Value> =
        containers.iter().map(|name| json!({"name": name, "image": "busybox:1"})).collect();
    manifest_with(name, json!({"containers": containers}))
}

/// The same with any spec.
pub(crate) fn manifest_with(name: &str, mut spec: Value) -> String {
    if spec.get("terminationGracePeriodSeconds").is_none() {
        spec["terminationGracePeriodSeconds"] = json!(2);
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": uid(name)});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).to_string()
}

/// The UID of the pod of a [`manifest`].
pub(crate) fn uid(name: &str) -> String {
    format!("uid-of-{name}")
}

/// Writes the manifests of pods that have one container, `main`.
pub(crate) fn write_pods(host: &FakeHost, names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| host.write_manifest(&format!("{name}.json"), &manifest(name, &["main"])))
}

/// The statuses of a pod's containers.
pub(crate) fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

/// Whether a pod runs with all its containers ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    running && !statuses(pod).is_empty() && statuses(pod).iter().all(|status| status.ready)
}

/// Waits until each of these pods runs with all its containers ready.
pub(crate) async fn wait_until_ready(daemon: &Daemon, names: &[&str]) -> Result<()> {
    for name in names {
        daemon.wait_for_pod(name, SOON, is_ready).await?;
    }
    Ok(())
}

/// Waits until the API server shows a pod as wanted.
pub(crate) async fn wait_for_shown(
    server: &FakeApiServer,
    name: &str,
    is_it: impl Fn(&Pod) -> bool,
) -> Result<Pod> {
    wait_for(&format!("pod {name} as wanted on the API server"), SOON, async || {
        Ok(match server.api().get::<Pod>(&format!("{PODS}/{name}")) {
            Some(pod) if is_it(&pod) => Look::Done(pod),
            other => Look::NotYet(format!("{:?}", other.and_then(|pod| pod.status))),
        })
    })
    .await
}

/// Waits until the runtime has nothing of a pod.
pub(crate) async fn wait_until_gone(host: &FakeHost, name: &str) -> Result<()> {
    wait_for(&format!("the end of {name}"), SOON, async || {
        let sandboxes = sandboxes_of(host, name);
        Ok(if sandboxes.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{sandboxes:?}")) })
    })
    .await
}

/// The attempts of a pod's sandboxes in the runtime, in any state.
pub(crate) fn sandboxes_of(host: &FakeHost, name: &str) -> Vec<u32> {
    let sandboxes = host.runtime().wire_sandboxes().into_iter().filter_map(|sandbox| sandbox.metadata);
    sandboxes.filter(|metadata| metadata.uid == uid(name)).map(|metadata| metadata.attempt).collect()
}

/// The containers of a pod in the runtime, in any state: name, attempt and state, in order.
pub(crate) fn containers_of(host: &FakeHost, name: &str) -> Vec<(String, u32, ContainerState)> {
    let uid = uid(name);
    let ours = |c: &Container| c.labels.get("io.kubernetes.pod.uid").is_some_and(|label| *label == uid);
    let mut found: Vec<_> = host
        .runtime()
        .wire_containers()
        .into_iter()
        .filter(ours)
        .map(|c| (c.state(), c.metadata.unwrap_or_default()))
        .map(|(state, metadata)| (metadata.name, metadata.attempt, state))
        .collect();
    found.sort();
    found
}

/// The running containers: ID to attempt.
pub(crate) fn running(host: &FakeHost) -> BTreeMap<String, u32> {
    let containers = host.runtime().wire_containers().into_iter();
    let running = containers.filter(|c| c.state() == ContainerState::ContainerRunning);
    running.map(|c| (c.id, c.metadata.unwrap_or_default().attempt)).collect()
}

/// The identifier of a pod's only container.
pub(crate) fn only_container(host: &FakeHost, name: &str) -> Result<String> {
    let uid = uid(name);
    let containers = host.runtime().wire_containers();
    let mut ours = containers.iter().filter(|c| c.labels["io.kubernetes.pod.uid"] == uid);
    Ok(ours.next().with_context(|| format!("{name} has no container"))?.id.clone())
}

/// The output of `hostlet pods`, by pod and column. A column is located by its heading.
pub(crate) fn table(output: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = output.lines();
    let heading = lines.next().unwrap_or_default();
    let words: Vec<&str> = heading.split_whitespace().collect();
    let offset = |word: &&str| word.as_ptr().addr() - heading.as_ptr().addr();
    let starts: Vec<usize> = words.iter().map(offset).collect();
    let row = |line: &str| {
        let ends = starts.iter().skip(1).copied().chain([line.len()]);
        let cells = starts.iter().zip(ends);
        let cells =
            cells.map(|(start, end)| line.get(*start..end.min(line.len())).unwrap_or_default().trim());
        words.iter().map(|word| (*word).to_owned()).zip(cells.map(str::to_owned)).collect()
    };
    lines.map(row).collect()
}

/// Waits until the STATUS of a pod is one of these, and returns it.
pub(crate) async fn wait_for_status(daemon: &Daemon, name: &str, wanted: &[&str]) -> Result<String> {
    wait_for(&format!("{name} shown as {wanted:?}"), LATER, async || {
        let shown = daemon.cli(&["pods", name])?;
        let row = table(&shown).into_iter().next().context("no line")?;
        let status = row.get("STATUS").cloned().unwrap_or_default();
        Ok(if wanted.contains(&status.as_str()) { Look::Done(status) } else { Look::NotYet(shown) })
    })
    .await
}

/// The stderr of `hostlet pods`.
pub(crate) fn complaints(daemon: &Daemon) -> Result<String> {
    let output = daemon.command(&["pods"]).output()?;
    anyhow::ensure!(output.status.success(), "{output:?}");
    Ok(stderr(&output))
}

/// Waits until the stderr of `hostlet pods` satisfies `wanted`.
pub(crate) async fn wait_for_complaint(
    daemon: &Daemon,
    what: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<String> {
    wait_for(what, LATER, async || {
        let stderr = complaints(daemon)?;
        Ok(if wanted(&stderr) { Look::Done(stderr) } else { Look::NotYet(stderr) })
    })
    .await
}

/// Waits until the daemons of a host have logged this.
pub(crate) async fn wait_for_log(daemon: &Daemon, text: &str) -> Result<()> {
    wait_for(&format!("{text:?} in the log"), SOON, async || {
        let log = daemon.log();
        Ok(if log.contains(text) { Look::Done(()) } else { Look::NotYet(log) })
    })
    .await
}

/// Waits until the MESSAGE of a pod satisfies `wanted`, and returns its line.
pub(crate) async fn wait_for_message(
    daemon: &Daemon,
    name: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, String>> {
    wait_for(&format!("the message of {name}"), LATER, async || {
        let row = table(&daemon.cli(&["pods", name, "-o", "wide"])?).into_iter().next().context("no line")?;
        let is_it = row.get("MESSAGE").is_some_and(|message| wanted(message));
        Ok(if is_it { Look::Done(row) } else { Look::NotYet(format!("{row:?}")) })
    })
    .await
}

/// The daemon's own directory.
pub(crate) fn home(host: &FakeHost) -> PathBuf {
    host.directory().join("kubelet/hostlet")
}

/// The file of the store.
pub(crate) fn store_file(host: &FakeHost) -> PathBuf {
    home(host).join("store.redb")
}

/// The keys of a table's rows that a daemon would find if it started now: those of the store's last commit, read from a copy.
/// Checks committed rows: bytes in the file are not sufficient.
async fn stored(host: &FakeHost, table: Table) -> Result<BTreeSet<String>> {
    let directory = tempfile::tempdir().context("a directory for a copy of the store")?;
    let copy = directory.path().join("store.redb");
    fs::copy(store_file(host), &copy).context("copying the store")?;
    let (store, _keeper) = Store::open(copy).await;
    if let Some(trouble) = &*store.trouble().borrow() {
        bail!("{trouble}");
    }
    Ok(store.keys(table).into_iter().collect())
}

/// Waits until the keys of a table's rows that are stored satisfy `wanted`.
pub(crate) async fn wait_until_stored(
    host: &FakeHost,
    table: Table,
    wanted: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<()> {
    wait_for(&format!("rows of {table:?} in the store"), SOON, async || {
        let keys = stored(host, table).await?;
        Ok(if wanted(&keys) { Look::Done(()) } else { Look::NotYet(format!("{keys:?}")) })
    })
    .await
}

/// A program's stderr as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program's stdout as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
