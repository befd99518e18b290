//! The host everything is measured on, and the two ways to make a pod on it: bare CRI calls, and hostlet. Both make the
//! same pod: one sandbox, one container of the pause image, which ends at once on SIGTERM.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use hostlet_integration::Daemon;
use hostlet_integration::real::{CriSandbox, PAUSE_IMAGE, RealHost};
use hostlet_proto::cri::ContainerState;
use hostlet_serve::server::PodsView;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::watch::{Event, Watcher, What};

/// Longer than any step takes on a slow machine.
pub(crate) const LONG: Duration = Duration::from_secs(180);
/// Poll interval of the CRI or the control socket after an event.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// The grace period of every pod, seconds. Nothing here needs it.
const GRACE: i64 = 10;

/// A host with a real containerd.
pub(crate) struct Lab {
    pub(crate) host: RealHost,
    pub(crate) watcher: Watcher,
    names: Cell<usize>,
}

/// A pod made by bare CRI calls.
pub(crate) struct BarePod {
    /// How long its sandbox took.
    pub(crate) sandbox_took: Duration,
    pub(crate) sandbox: CriSandbox,
    pub(crate) sandbox_id: String,
    pub(crate) container_id: String,
}

impl Lab {
    /// Creates the host and an unmeasured first pod, which fills the page cache.
    pub(crate) async fn start() -> Result<Self> {
        let host = RealHost::start().await?;
        let watcher = Watcher::start(host.socket()).await?;
        let lab = Self { host, watcher, names: Cell::new(0) };
        let pod = lab.start_bare().await?;
        lab.stop_bare(pod).await?;
        Ok(lab)
    }

    /// A daemon with the default settings and these further ones of `HostletConfiguration`.
    pub(crate) async fn daemon(&self, hostlet: &str) -> Result<Daemon> {
        // The default, explicit because the batches are as large.
        let daemon = self.host.start_hostlet_with("maxPods: 110", hostlet).await?;
        // Past its first relists, so that its start is not measured with its work.
        sleep(Duration::from_secs(2)).await;
        Ok(daemon)
    }

    /// An unused pod name.
    pub(crate) fn name(&self) -> String {
        self.names.set(self.names.get() + 1);
        format!("p{}", self.names.get())
    }

    /// The calls that every kubelet makes: RunPodSandbox, CreateContainer, StartContainer.
    pub(crate) async fn start_bare(&self) -> Result<BarePod> {
        let sandbox = CriSandbox::new(&self.name(), self.host.id(), &self.host.logs());
        let begin = Instant::now();
        let sandbox_id = self.host.cri().run_sandbox(&sandbox).await?;
        let sandbox_took = begin.elapsed();
        let container_id = self.host.cri().run_pause(&sandbox, &sandbox_id, 0).await?;
        Ok(BarePod { sandbox_took, sandbox, sandbox_id, container_id })
    }

    /// The reverse: StopContainer, StopPodSandbox, RemovePodSandbox.
    pub(crate) async fn stop_bare(&self, pod: BarePod) -> Result<()> {
        self.host.cri().stop_container(&pod.container_id, GRACE).await?;
        self.host.cri().remove_sandbox(&pod.sandbox_id).await
    }

    /// Starts pods by bare calls with limited parallelism; returns when each ran, from the beginning.
    pub(crate) async fn start_bare_batch(
        &self,
        pods: usize,
        at_once: usize,
    ) -> Result<Vec<(BarePod, Duration)>> {
        let begin = Instant::now();
        stream::iter(0..pods)
            .map(|_| async {
                let pod = self.start_bare().await?;
                Ok((pod, begin.elapsed()))
            })
            .buffer_unordered(at_once)
            .try_collect()
            .await
    }

    /// Removes pods by bare calls, four at a time.
    pub(crate) async fn stop_bare_batch(&self, pods: Vec<(BarePod, Duration)>) -> Result<()> {
        stream::iter(pods)
            .map(|(pod, _)| self.stop_bare(pod))
            .buffer_unordered(4)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    /// Writes the manifest of a pod.
    pub(crate) fn write_pod(&self, name: &str) -> Result<()> {
        self.host.write_manifest(&format!("{name}.json"), &manifest(name))
    }

    /// Removes it.
    pub(crate) fn remove_pod(&self, name: &str) -> Result<()> {
        self.host.remove_manifest(&format!("{name}.json"))
    }

    /// Waits until the CRI shows this many pods created since `mark` as running; returns when the process of each container
    /// started. There must be no other pods.
    pub(crate) async fn until_running(&self, mark: usize, pods: usize) -> Result<Vec<Instant>> {
        let what = "all pods started";
        // A sandbox and a container each; more if a start had to be repeated.
        self.watcher
            .wait(mark, what, LONG, |events| (starts(events).count() >= 2 * pods).then_some(()))
            .await?;
        let end = Instant::now() + LONG;
        loop {
            let containers = self.host.cri().containers().await?;
            let running: HashSet<String> = containers
                .into_iter()
                .filter(|container| container.state == ContainerState::ContainerRunning as i32)
                .map(|container| container.id)
                .collect();
            if running.len() == pods {
                let events = self.watcher.since(mark);
                return Ok(starts(&events).filter(|e| running.contains(&e.id)).map(|e| e.at).collect());
            }
            if Instant::now() >= end {
                bail!("not within {LONG:?}: {what}; running: {running:?}");
            }
            // containerd reports a start slightly before its CRI plugin.
            sleep(TICK).await;
        }
    }

    /// Waits until the runtime is empty, after this many removals since `mark`.
    pub(crate) async fn until_empty(&self, mark: usize, removals: usize) -> Result<()> {
        let removed = |events: &[Event]| events.iter().filter(|e| e.what == What::Removed).count();
        self.watcher
            .wait(mark, "all pods removed", LONG, |events| (removed(events) >= removals).then_some(()))
            .await?;
        while !self.host.cri().sandboxes().await?.is_empty()
            || !self.host.cri().containers().await?.is_empty()
        {
            sleep(TICK).await;
        }
        Ok(())
    }
}

/// Waits until `hostlet pods` shows exactly this many pods, all of them running and ready.
pub(crate) async fn until_shown(daemon: &Daemon, pods: usize, tick: Duration) -> Result<()> {
    let end = Instant::now() + LONG;
    loop {
        let view = view(daemon.socket()).await?;
        let ready = view.pods.iter().filter(|pod| is_ready(pod)).count();
        if view.pods.len() == pods && ready == pods {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!("not within {LONG:?}: {pods} pods ready; last seen: {ready} of {}", view.pods.len());
        }
        sleep(tick).await;
    }
}

fn is_ready(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    status.phase.as_deref() == Some("Running")
        && status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn starts(events: &[Event]) -> impl Iterator<Item = &Event> {
    events.iter().filter(|event| matches!(event.what, What::Started(_)))
}

/// The manifest of the pod that both ways create.
pub(crate) fn manifest(name: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": GRACE,
            "containers": [{"name": "pause", "image": PAUSE_IMAGE}],
        },
    })
    .to_string()
}

/// What `hostlet pods` is made of.
async fn view(socket: &Path) -> Result<PodsView> {
    serde_json::from_slice(&ask(socket, "/v1/pods").await?).context("decoding the pods")
}

/// Asks the daemon, without the cost of starting a program for that. The answer is JSON.
pub(crate) async fn ask(socket: &Path, what: &str) -> Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).await.context("connecting to the control socket")?;
    let request = format!("GET {what} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.with_context(|| format!("asking for {what}"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.with_context(|| format!("reading {what}"))?;
    let split = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no end of the head")?;
    Ok(answer.split_off(split + 4))
}
