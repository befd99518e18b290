//! The measured cluster: a node of each agent, the pods, and their observation.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use hostlet_integration::cluster::{Agent, Node, Tenant};
use hostlet_integration::real::PAUSE_IMAGE;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::pods::PodWatch;
use crate::lab::LONG;
use crate::watch::Watcher;

/// Seconds. The pause container exits at once, so only an agent that waits unnecessarily needs this.
const GRACE: u32 = 1;

/// Whether a pod has a service account token, which is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    With,
    Without,
}

/// A measured node.
pub(super) struct Side {
    pub(super) agent: Agent,
    /// Its index among the tenant's nodes.
    index: usize,
    /// containerd's events on it.
    pub(super) watcher: Watcher,
}

/// A cluster with a node of hostlet and one of the stock kubelet.
pub(crate) struct ClusterLab {
    pub(super) sides: [Side; 2],
    tenant: Tenant,
    pods: PodWatch,
    api: Api<Pod>,
    names: Cell<usize>,
}

impl ClusterLab {
    /// Starts it, and runs an unmeasured first pod on each node.
    pub(crate) async fn start() -> Result<Self> {
        Self::configured(&json!({"maxPods": 110})).await
    }

    /// The same with these fields of `KubeletConfiguration`.
    pub(super) async fn configured(extra: &Value) -> Result<Self> {
        let agents = [Agent::Hostlet, Agent::Stock];
        let tenant = Tenant::of("bench", &agents, extra).await?;
        let side = async |index: usize| -> Result<Side> {
            let watcher = Watcher::start(tenant.nodes[index].host().socket()).await?;
            Ok(Side { agent: agents[index], index, watcher })
        };
        let sides = [side(0).await?, side(1).await?];
        let pods = PodWatch::start(tenant.client(), tenant.namespace()).await?;
        let api = tenant.api();
        let lab = Self { sides, tenant, pods, api, names: Cell::new(0) };
        for side in &lab.sides {
            let (name, _) = lab.run_one(side, Token::With).await?;
            lab.end_one(side, name).await?;
        }
        Ok(lab)
    }

    /// The node of a side.
    pub(super) fn node(&self, side: &Side) -> &Node {
        &self.tenant.nodes[side.index]
    }

    /// The cluster, and the namespace of the pods.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Kills the agent of the side with this index.
    pub(super) fn kill_agent(&mut self, index: usize) -> Result<()> {
        self.tenant.nodes[index].kill_agent()
    }

    /// Starts it again.
    pub(super) fn start_agent(&mut self, index: usize) -> Result<()> {
        self.tenant.nodes[index].start_agent()
    }

    /// Asks the API of a node for a path; returns the size of the answer in bytes, and how long it took. By curl, because this program is
    /// not optimized.
    pub(super) async fn ask(&self, side: &Side, path: &str) -> Result<(usize, Duration)> {
        self.request("GET", side, path).await
    }

    /// The same with another method.
    pub(super) async fn request(&self, method: &str, side: &Side, path: &str) -> Result<(usize, Duration)> {
        let command = self.tenant.cluster().ask_node(self.node(side).address(), path);
        let mut command = tokio::process::Command::from(command);
        command.args([
            "--request",
            method,
            "--output",
            "/dev/null",
            "--write-out",
            "%{size_download} %{time_total}",
        ]);
        let done = command.output().await.context("curl")?;
        let said = || String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "asking {:?} for {path}: {}", side.agent, said());
        let told = String::from_utf8_lossy(&done.stdout);
        let (bytes, seconds) = told.split_once(' ').context("curl told nothing")?;
        Ok((bytes.parse()?, Duration::from_secs_f64(seconds.parse()?)))
    }

    /// The path of a pod's container `main` below an endpoint of its node.
    pub(super) fn path(&self, endpoint: &str, pod: &str) -> String {
        format!("{endpoint}/{}/{pod}/main", self.tenant.namespace())
    }

    /// The runtime's ID of a pod's first container.
    pub(super) async fn container_id(&self, pod: &str) -> Result<String> {
        let status = self.api.get(pod).await?.status.unwrap_or_default();
        let container = status.container_statuses.and_then(|all| all.into_iter().next());
        let id = container.and_then(|container| container.container_id);
        let id = id.as_deref().and_then(|id| id.split_once("://")).context("no container")?;
        Ok(id.1.to_owned())
    }

    /// The measured pods on the API server.
    pub(super) fn api(&self) -> &Api<Pod> {
        &self.api
    }

    /// The API server's audit log.
    pub(super) fn audit_log(&self) -> std::path::PathBuf {
        self.tenant.cluster().audit_log()
    }

    /// Creates pods on a node at once; returns their names, and how long after the beginning each was Ready.
    pub(super) async fn run(
        &self,
        side: &Side,
        count: usize,
        token: Token,
    ) -> Result<(Vec<String>, Vec<Duration>)> {
        self.run_specs(side, vec![spec(token); count]).await
    }

    /// The same with pods of these specs.
    pub(super) async fn run_specs(
        &self,
        side: &Side,
        specs: Vec<Value>,
    ) -> Result<(Vec<String>, Vec<Duration>)> {
        let node = self.node(side).name();
        let pods = specs.into_iter().map(|spec| self.pod(node, spec));
        let pods: Vec<(String, Pod)> = pods.collect::<Result<_>>()?;
        let names: Vec<String> = pods.iter().map(|(name, _)| name.clone()).collect();
        let begin = Instant::now();
        try_join_all(pods.iter().map(async |(_, pod)| self.api.create(&PostParams::default(), pod).await))
            .await
            .context("creating pods")?;
        let what = format!("pods ready on {:?}", side.agent);
        let ready = self.pods.wait(&names, &what, |times| times.ready).await?;
        Ok((names, ready.into_iter().map(|at| at.duration_since(begin)).collect()))
    }

    /// Deletes pods of a node at once; returns how long after that each was removed.
    pub(super) async fn end(&self, side: &Side, names: &[String]) -> Result<Vec<Duration>> {
        let begin = Instant::now();
        let params = DeleteParams::default();
        try_join_all(names.iter().map(async |name| self.api.delete(name, &params).await))
            .await
            .context("deleting pods")?;
        let what = format!("pods gone from {:?}", side.agent);
        let gone = self.pods.wait(names, &what, |times| times.gone).await?;
        Ok(gone.into_iter().map(|at| at.duration_since(begin)).collect())
    }

    /// One pod, from its creation until it was Ready.
    pub(super) async fn run_one(&self, side: &Side, token: Token) -> Result<(String, Duration)> {
        let (names, took) = self.run(side, 1, token).await?;
        let pod = names.into_iter().zip(took).next();
        pod.context("no pod")
    }

    /// The same for its removal.
    pub(super) async fn end_one(&self, side: &Side, name: String) -> Result<Duration> {
        self.end(side, &[name]).await?.pop().context("no pod")
    }

    /// Removes the remains of removed pods from the runtime of a node. The stock kubelet does this once a minute, which could be
    /// during another measurement.
    pub(super) async fn clean(&self, side: &Side) -> Result<()> {
        let cri = self.node(side).host().cri();
        let end = Instant::now() + LONG;
        loop {
            let sandboxes = cri.sandboxes().await?;
            let removals = stream::iter(&sandboxes).map(|it| cri.remove_sandbox(&it.id)).buffer_unordered(4);
            let removed: Vec<Result<()>> = removals.collect().await;
            match removed.into_iter().collect() {
                // The agent may be removing some of them at the same time, in which case one of the two calls fails.
                Err(_) if Instant::now() < end => sleep(Duration::from_millis(100)).await,
                done => return done,
            }
        }
    }

    fn pod(&self, node: &str, mut spec: Value) -> Result<(String, Pod)> {
        self.names.set(self.names.get() + 1);
        let name = format!("p{}", self.names.get());
        // Bound directly, to exclude the scheduler's time.
        spec["nodeName"] = node.into();
        spec["terminationGracePeriodSeconds"] = GRACE.into();
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        Ok((name, serde_json::from_value(pod)?))
    }
}

/// A pod of the pause image.
fn spec(token: Token) -> Value {
    json!({
        "automountServiceAccountToken": token == Token::With,
        "containers": [{"name": "pause", "image": PAUSE_IMAGE}],
    })
}
