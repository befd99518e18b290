//! The task that publishes what CSI drivers say of this node: on the Node, then in the CSINode. Retries forever; `csi_node` and
//! `node_change` decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_base::{Backoff, BackoffPolicy, sleep_until, watching};
use hostlet_csi::NodeInfos;
use hostlet_store::{Store, Table};
use hostlet_telemetry::Changed;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::csi_node::{CsiNodeStep, DesiredCsiNode, next_step};
use super::node_change::{DriverProblem, added, removed};
use crate::api::{ApiErrorKind, TypedApi, Wire, pause};
use crate::node::{LatestNode, NodeSettings, RequestError, within};

/// Why a node is not ready before it has a CSINode; upstream's text.
const NOT_INITIALIZED: &str = "CSINode is not yet initialized";

/// How often the CSINode is looked at without a reason: kubelets may not watch it, and somebody may delete it.
const CHECK: Duration = Duration::from_secs(300);

/// Pauses after failures.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(100),
    max: Duration::from_secs(30),
    reset_after: Duration::MAX,
};

/// Steps that may be needed in a row: a stale read, a deletion, a creation, and a race.
const STEPS: u32 = 5;

/// Dependencies of the task.
pub struct CsiNodeDeps {
    /// Should have no rate limit: until the CSINode exists, the node is not ready.
    pub client: Client,
    /// Settings of the Node.
    pub settings: Arc<NodeSettings>,
    /// The Node.
    pub latest_node: LatestNode,
    /// What the registered drivers say.
    pub drivers: watch::Receiver<NodeInfos>,
    /// Remembers that the node had a CSINode.
    pub store: Store,
    /// Receives what is wrong with a driver.
    pub events: NodeEvents,
}

/// Publishes what the drivers of this node say.
pub struct CsiNodeTask {
    nodes: TypedApi<Node>,
    csi_nodes: TypedApi<CSINode>,
    settings: Arc<NodeSettings>,
    latest_node: LatestNode,
    drivers: watch::Receiver<NodeInfos>,
    store: Store,
    events: NodeEvents,
    /// Why volumes cannot be used; `None` once the node had a CSINode.
    storage: watch::Sender<Option<String>>,
    /// The drivers that were registered at the last look.
    registered: BTreeSet<String>,
    /// Those that were deregistered, and may still be published.
    deregistered: BTreeSet<String>,
    /// What is published: the UID of the Node, and the drivers.
    published: Option<(String, NodeInfos)>,
    /// Why drivers are not published.
    problems: BTreeMap<String, DriverProblem>,
    last_error: Changed<String>,
}

impl CsiNodeTask {
    /// The task, and why volumes of CSI drivers cannot be used yet. A node that had a CSINode once is ready without asking: an API
    /// server that is away is no reason to take its pods from it.
    pub fn new(deps: CsiNodeDeps) -> (Self, watch::Receiver<Option<String>>) {
        let name = &deps.settings.name;
        let is_initialized = deps.store.get::<String>(Table::CsiNodes, name).is_some();
        let (storage, receiver) = watch::channel((!is_initialized).then(|| NOT_INITIALIZED.to_owned()));
        let task = Self {
            nodes: TypedApi::all(deps.client.clone()),
            csi_nodes: TypedApi::all(deps.client),
            settings: deps.settings,
            latest_node: deps.latest_node,
            drivers: deps.drivers,
            store: deps.store,
            events: deps.events,
            storage,
            registered: BTreeSet::new(),
            deregistered: BTreeSet::new(),
            published: None,
            problems: BTreeMap::new(),
            last_error: Changed::new(),
        };
        (task, receiver)
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: a dropped request may have taken effect; the next daemon reads before it writes.
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let mut node = self.latest_node.subscribe();
        // Nothing is sent before `hold`, and something at `check`.
        let (mut hold, mut check, mut backoff) = (Instant::now(), Instant::now(), None);
        loop {
            let drivers = self.look();
            let current = node.borrow_and_update().clone();
            let mut next = None;
            if let Some((node, uid)) =
                current.and_then(|node| Some((node.clone(), node.metadata.uid.clone()?)))
            {
                let desired = (uid, drivers);
                let is_published = self.deregistered.is_empty() && self.published.as_ref() == Some(&desired);
                let due = if is_published { check } else { hold };
                let now = Instant::now();
                if now < due {
                    next = Some(due);
                } else {
                    match self.publish(&node, &desired.0, &desired.1).await {
                        Ok(()) => {
                            (self.published, self.last_error) = (Some(desired), Changed::new());
                            (hold, backoff) = (Instant::now(), None);
                            check = hold + CHECK.mul_f64(0.75 + rand::random::<f64>() / 2.0);
                        }
                        Err(error) => {
                            self.failed(&error);
                            self.published = None;
                            let now = Instant::now();
                            let delay = Backoff::next(backoff, &BACKOFF, now, now);
                            backoff = Some(delay);
                            hold = now + pause(delay.delay, error.retry_after(), rand::random());
                        }
                    }
                    continue;
                }
            }
            tokio::select! {
                // Cancel-safe, both: a watch marks its value seen only when it returns.
                () = watching::changed(&mut self.drivers) => {}
                () = watching::changed(&mut node) => {}
                // Cancel-safe: a sleep. Without a Node there is nothing to publish.
                () = sleep_until(next) => {}
            }
        }
    }

    /// The registered drivers. Notes which of them were deregistered: what an earlier daemon published stays, since those drivers may
    /// register yet.
    fn look(&mut self) -> NodeInfos {
        let drivers = self.drivers.borrow_and_update().clone();
        let names: BTreeSet<String> = drivers.keys().cloned().collect();
        self.deregistered.extend(self.registered.difference(&names).cloned());
        self.deregistered.retain(|driver| !names.contains(driver));
        self.registered = names;
        drivers
    }

    /// Makes the API server say what the drivers say. A driver that cannot be published does not keep the others from it.
    async fn publish(&mut self, node: &Node, uid: &str, drivers: &NodeInfos) -> Result<(), RequestError> {
        if self.storage.borrow().is_some() {
            // Whatever becomes of the drivers, the node can be ready.
            self.write_csi_node(uid, &NodeInfos::new(), &BTreeSet::new()).await?;
            self.store.put(Table::CsiNodes, &self.settings.name, &uid);
            self.storage.send_replace(None);
        }
        let (mut node, mut published, mut problems) = (node.clone(), NodeInfos::new(), BTreeMap::new());
        for (driver, info) in drivers {
            let change = match added(&node, driver, info) {
                Ok(change) => self.change_node(change).await?,
                Err(problem) => Err(problem),
            };
            match change {
                Ok(changed) => {
                    node = changed.unwrap_or(node);
                    published.insert(driver.clone(), info.clone());
                }
                Err(problem) => drop(problems.insert(driver.clone(), problem)),
            }
        }
        self.report(problems);
        let deregistered = self.deregistered.clone();
        self.write_csi_node(uid, &published, &deregistered).await?;
        if !deregistered.is_empty() {
            let change = match removed(&node, &deregistered) {
                Ok(change) => self.change_node(change).await?,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = change {
                let node = &self.settings.name;
                tracing::warn!(node, %problem, "cannot remove CSI drivers from the Node");
            }
            self.deregistered.retain(|driver| !deregistered.contains(driver));
        }
        Ok(())
    }

    /// Patches the Node, and returns it if that was needed, or why the API server rejects this patch.
    async fn change_node(
        &self,
        patch: Option<Value>,
    ) -> Result<Result<Option<Node>, DriverProblem>, RequestError> {
        let Some(patch) = patch else { return Ok(Ok(None)) };
        let (limit, parameters) = (self.settings.request_timeout(), PatchParams::default());
        let patch = Patch::Strategic(patch);
        match within(limit, self.nodes.patch(&self.settings.name, &parameters, &patch)).await {
            Ok(Wire(node)) => {
                self.latest_node.update(node.clone());
                Ok(Ok(Some(node)))
            }
            Err(error) => match error.error_kind() {
                ApiErrorKind::Forbidden | ApiErrorKind::Invalid => {
                    Ok(Err(DriverProblem::Rejected(error.text())))
                }
                ApiErrorKind::NotFound
                | ApiErrorKind::AlreadyExists
                | ApiErrorKind::Conflict
                | ApiErrorKind::TooMany(_)
                | ApiErrorKind::Unavailable => Err(error),
            },
        }
    }

    /// Reads and writes the CSINode until nothing is left to write.
    async fn write_csi_node(
        &self,
        uid: &str,
        drivers: &NodeInfos,
        removed: &BTreeSet<String>,
    ) -> Result<(), RequestError> {
        let name = self.settings.name.as_str();
        let desired = DesiredCsiNode { node: name, uid, drivers, removed };
        let mut steps = 1;
        loop {
            let found = self.read(steps).await?;
            let result = self.carry_out(next_step(found.as_ref(), &desired)).await;
            let error = match result {
                Ok(true) => return Ok(()),
                Ok(false) => None,
                Err(error) => Some(error),
            };
            let is_race = error.as_ref().is_none_or(|error| match error.error_kind() {
                ApiErrorKind::NotFound | ApiErrorKind::AlreadyExists | ApiErrorKind::Conflict => true,
                ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid
                | ApiErrorKind::TooMany(_)
                | ApiErrorKind::Unavailable => false,
            });
            match error {
                Some(error) if !is_race || steps >= STEPS => return Err(error),
                Some(_) | None => steps += 1,
            }
        }
    }

    /// The CSINode. The first read may be from the API server's cache: a write that follows from an old version is rejected.
    async fn read(&self, step: u32) -> Result<Option<CSINode>, RequestError> {
        let version = if step == 1 { GetParams::at("0") } else { GetParams::default() };
        let limit = self.settings.request_timeout();
        match within(limit, self.csi_nodes.get_with(&self.settings.name, &version)).await {
            Ok(Wire(node)) => Ok(Some(node)),
            Err(error) if error.error_kind() == ApiErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request. Returns whether the CSINode is what it has to be.
    async fn carry_out(&self, step: CsiNodeStep) -> Result<bool, RequestError> {
        let (name, limit) = (self.settings.name.as_str(), self.settings.request_timeout());
        let parameters = PostParams::default();
        match step {
            CsiNodeStep::Nothing => Ok(true),
            CsiNodeStep::Create(node) => {
                within(limit, self.csi_nodes.create(&parameters, &Wire(*node))).await?;
                tracing::info!(node = name, "created the CSINode");
                Ok(true)
            }
            CsiNodeStep::Replace(node) => {
                within(limit, self.csi_nodes.replace(name, &parameters, &Wire(*node))).await?;
                Ok(true)
            }
            CsiNodeStep::Delete { uid } => {
                tracing::info!(node = name, "deleting the CSINode of an earlier Node of this name");
                let preconditions = Preconditions { uid, resource_version: None };
                let parameters = DeleteParams::default().preconditions(preconditions);
                within(limit, self.csi_nodes.delete(name, &parameters)).await?;
                Ok(false)
            }
        }
    }

    /// Reports what is wrong with drivers, once each.
    fn report(&mut self, problems: BTreeMap<String, DriverProblem>) {
        for (driver, problem) in &problems {
            if self.problems.get(driver) != Some(problem) {
                tracing::warn!(driver, %problem, "cannot publish what the CSI driver says of this node");
                let message = format!("CSI driver {driver}: {problem}");
                (self.events)(NodeEvent::warning("CSIDriverNotPublished", message));
            }
        }
        self.problems = problems;
    }

    /// Logs a failure, but only once while it stays the same, and says why the node is not ready if that is why.
    fn failed(&mut self, error: &RequestError) {
        let text = error.text();
        let was_answered = match error.error_kind() {
            ApiErrorKind::TooMany(_) | ApiErrorKind::Unavailable => false,
            ApiErrorKind::NotFound
            | ApiErrorKind::AlreadyExists
            | ApiErrorKind::Conflict
            | ApiErrorKind::Forbidden
            | ApiErrorKind::Invalid => true,
        };
        if was_answered {
            self.storage.send_if_modified(|storage| {
                let new = storage.as_ref().map(|_| format!("failed to initialize CSINode: {text}"));
                let is_changed = *storage != new;
                *storage = new;
                is_changed
            });
        }
        if self.last_error.see(text.clone()) {
            let node = &self.settings.name;
            tracing::warn!(node, error = text, "cannot publish the CSI drivers of this node; trying again");
        }
    }
}
