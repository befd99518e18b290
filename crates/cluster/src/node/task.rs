//! The task that registers the node and reports its status. Decides nothing: `register`, `status` and `pace` do.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::json::to_value;
use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_base::{Backoff, BackoffPolicy, WallClock, error_chain};
use hostlet_telemetry::{Changed, Heartbeat};
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use kube::Client;
use kube::api::{GetParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::register::{FormerDevices, Registered, attempt, initial, wrong_labels};
use super::request::{RequestError, within};
use super::status::{is_ready, set_heartbeats, status_event, update};
use super::{LatestNode, NodeFacts, NodeInputs, NodeSettings};
use crate::api::{ApiErrorKind, TypedApi, Wire, patch, pause};

/// Maximum attempts to send a status in one update; upstream's constant.
const ATTEMPTS: u32 = 5;

/// Pause between these attempts. Upstream has none, so that all nodes try five times at once when a server fails.
const RETRY: Duration = Duration::from_millis(200);

/// Requests of one update, each with its own time limit: a read and a write.
const UPDATE_REQUESTS: u32 = 2;

/// Requests of one attempt to register: create, read, and a write of the Node and of its status.
const REGISTER_REQUESTS: u32 = 4;

/// Pauses between attempts to register; upstream's constants, here with jitter. The back-off never resets while attempts fail.
const REGISTER_BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(100),
    max: Duration::from_secs(7),
    reset_after: Duration::MAX,
};

/// Keeps the Node object current.
pub struct NodeStatusTask {
    settings: Arc<NodeSettings>,
    nodes: TypedApi<Node>,
    inputs: NodeInputs,
    events: NodeEvents,
    clock: WallClock,
    /// The latest known Node.
    latest_node: LatestNode,
    /// Events of changes that were not sent yet.
    pending: Vec<NodeEvent>,
    unschedulable: bool,
    last_error: Changed<String>,
    former_devices: FormerDevices,
    heartbeat: Heartbeat,
}

enum UpdateOutcome {
    Done,
    /// The Node does not exist.
    NotFound,
    Failed,
}

impl NodeStatusTask {
    /// `client` should be a separate one without a rate limit, so that a status never waits behind other requests. `latest_node`
    /// receives the Node whenever it is read or written.
    pub fn new(
        client: Client,
        settings: Arc<NodeSettings>,
        inputs: NodeInputs,
        events: NodeEvents,
        clock: WallClock,
        latest_node: LatestNode,
    ) -> Self {
        Self {
            settings,
            nodes: TypedApi::all(client),
            inputs,
            events,
            clock,
            latest_node,
            pending: Vec::new(),
            unschedulable: false,
            last_error: Changed::new(),
            former_devices: FormerDevices::default(),
            heartbeat: Heartbeat::default(),
        }
    }

    /// Sets the devices that a former kubelet may have advertised to zero.
    pub fn with_former_devices(mut self, former_devices: FormerDevices) -> Self {
        self.former_devices = former_devices;
        self
    }

    /// Answers as this heartbeat.
    pub fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: a dropped request may have taken effect; the next daemon reads the Node before it writes.
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let node = &self.settings.node;
        let (frequency, report) = (node.status_update_frequency, node.status_report_frequency);
        let mut pace = Pace::new(frequency, report, Instant::now());
        if self.settings.node.register {
            self.register(&mut pace).await;
        }
        let mut reported = self.inputs.urgent();
        loop {
            let now = Instant::now();
            let urgent = self.inputs.urgent();
            if urgent != reported {
                pace.forget();
            }
            let ready = self.inputs.unready(now).is_empty();
            if self.latest_node.watched().is_some_and(|node| is_ready(&node) != Some(ready)) {
                pace.contradicted(now);
            }
            if pace.is_due(now, ready) {
                match self.update(&mut pace).await {
                    UpdateOutcome::Done => reported = urgent,
                    UpdateOutcome::NotFound if self.settings.node.register => {
                        tracing::warn!(node = self.settings.name, "the Node was deleted; registering again");
                        self.latest_node.clear();
                        self.register(&mut pace).await;
                    }
                    UpdateOutcome::NotFound | UpdateOutcome::Failed => {
                        pace.failed(Instant::now(), rand::random())
                    }
                }
            }
            tokio::select! {
                // Cancel-safe as documented there, both.
                () = self.heartbeat.asked() => {}
                () = self.inputs.changed() => {}
                // Cancel-safe: a sleep.
                () = sleep_until(pace.next_check(Instant::now())) => {}
            }
        }
    }

    /// Creates or adopts the Node, retrying until it succeeds.
    async fn register(&mut self, pace: &mut Pace) {
        let mut backoff = None;
        loop {
            let facts = self.facts().await;
            self.heartbeat.alive_for(REGISTER_REQUESTS * self.settings.request_timeout());
            let (node, events) = initial(&self.settings, &facts, self.clock.now());
            let limit = self.settings.request_timeout();
            let error = match attempt(&self.nodes, &node, limit, &self.former_devices).await {
                Ok(Registered::Created(node)) => {
                    tracing::info!(node = self.settings.name, "registered the node");
                    let now = Instant::now();
                    pace.sent(now, true, rand::random());
                    pace.done(now, facts.unready.is_empty(), rand::random());
                    self.inputs.volumes_in_use.confirm(&node);
                    self.publish_node(node);
                    return self.publish(events);
                }
                Ok(Registered::Adopted(node)) => {
                    tracing::info!(node = self.settings.name, "the node is already registered");
                    pace.forget();
                    return self.publish_node(node);
                }
                Err(error) => error,
            };
            self.log_failure("register the node", &error);
            let now = Instant::now();
            let next = Backoff::next(backoff, &REGISTER_BACKOFF, now, now);
            backoff = Some(next);
            let pause = pause(next.delay, error.retry_after(), rand::random());
            self.heartbeat.while_waiting(sleep(pause)).await;
        }
    }

    /// All facts, as soon as the first ones are complete.
    async fn facts(&mut self) -> NodeFacts {
        loop {
            if let Some(facts) = self.inputs.facts(Instant::now()) {
                return facts;
            }
            self.heartbeat.while_waiting(self.inputs.changed()).await;
        }
    }

    /// Brings the Node's status up to date, in a few attempts.
    async fn update(&mut self, pace: &mut Pace) -> UpdateOutcome {
        for number in 0..ATTEMPTS {
            let error = match self.attempt(number, pace).await {
                Ok(()) => {
                    self.last_error = Changed::new();
                    let events = std::mem::take(&mut self.pending);
                    self.publish(events);
                    return UpdateOutcome::Done;
                }
                Err(error) => error,
            };
            if error.error_kind() == ApiErrorKind::NotFound {
                self.inputs.volumes_in_use.clear();
                return UpdateOutcome::NotFound;
            }
            self.log_failure("report the status of the node", &error);
            let pause = pause(RETRY, error.retry_after(), rand::random());
            let pause = pause.min(self.settings.node.status_update_frequency);
            self.heartbeat.while_waiting(sleep(pause)).await;
        }
        UpdateOutcome::Failed
    }

    /// Computes the Node's status and sends the difference to the current one, so that concurrent changes by others survive.
    async fn attempt(&mut self, number: u32, pace: &mut Pace) -> Result<(), RequestError> {
        let limit = self.settings.request_timeout();
        self.heartbeat.alive_for(UPDATE_REQUESTS * limit);
        let name = self.settings.name.clone();
        let base = self.current(number, limit).await?;
        let mut facts = self.facts().await;
        facts.volumes_in_use = self.inputs.volumes_in_use.begin();
        let before = base.status.clone().unwrap_or_default();
        let mut status = before.clone();
        let events = update(&mut status, &self.settings, &facts, self.clock.now());
        for event in events {
            if !self.pending.contains(&event) {
                self.pending.push(event);
            }
        }
        let labels = wrong_labels(&base);
        let changed = status != before || !labels.is_empty();
        let ready = facts.unready.is_empty();
        if !changed && !pace.must_report(Instant::now()) {
            self.inputs.volumes_in_use.confirm(&base);
            self.publish_node(base);
            pace.done(Instant::now(), ready, rand::random());
            return Ok(());
        }
        set_heartbeats(&mut status, &facts.kernel, self.clock.now());
        let patch = patch::strategic(patch::Kind::Node, &in_status(&before), &in_status(&status));
        // The UID makes sure that it applies to the Node that was read, not to a successor of the same name.
        let mut patch = patch.unwrap_or_else(|| json!({}));
        patch["metadata"] = json!({"uid": base.metadata.uid});
        if !labels.is_empty() {
            patch["metadata"]["labels"] = json!(labels);
        }
        let parameters = PatchParams::default();
        let patch = Patch::Strategic(patch);
        let Wire(patched) = within(limit, self.nodes.patch_status(&name, &parameters, &patch)).await?;
        self.inputs.volumes_in_use.confirm(&patched);
        self.publish_node(patched);
        let now = Instant::now();
        pace.sent(now, changed, rand::random());
        pace.done(now, ready, rand::random());
        Ok(())
    }

    /// The Node on the API server. The first attempt takes the watched one, which saves a request each `nodeStatusUpdateFrequency`, or
    /// reads from the API server's cache, but nothing older than the latest known; after a failure it is read from etcd.
    async fn current(&self, number: u32, limit: Duration) -> Result<Node, RequestError> {
        let version = match number {
            0 => match self.latest_node.watched() {
                Some(node) => return Ok((*node).clone()),
                None => GetParams::at(self.latest_node.version().as_deref().unwrap_or("0")),
            },
            _ => GetParams::default(),
        };
        let Wire(node) = within(limit, self.nodes.get_with(&self.settings.name, &version)).await?;
        Ok(node)
    }

    /// Publishes the Node, and emits an event if it was cordoned or uncordoned.
    fn publish_node(&mut self, node: Node) {
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        if unschedulable != self.unschedulable {
            self.unschedulable = unschedulable;
            let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
            self.publish(vec![status_event(&self.settings.name, reason)]);
        }
        self.latest_node.update(node);
    }

    fn publish(&self, events: Vec<NodeEvent>) {
        for event in events {
            tracing::info!(reason = &*event.reason, "{}", event.message);
            (self.events)(event);
        }
    }

    /// Logs a failure, but only once while it stays the same.
    fn log_failure(&mut self, what: &str, error: &RequestError) {
        let error = error_chain(error);
        if self.last_error.see(error.clone()) {
            tracing::warn!(node = self.settings.name, error, "cannot {what}; trying again");
        }
    }
}

fn in_status(status: &NodeStatus) -> Value {
    // Plain data of strings and numbers, which always becomes JSON.
    json!({"status": to_value(status).unwrap_or_default()})
}
