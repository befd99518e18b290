//! The task that registers the node and keeps its status told. Decides nothing: `register`, `status` and `pace` do.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeStatus};
use kube::Client;
use kube::api::{GetParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::register::{Registered, attempt, initial};
use super::request::{RequestError, within};
use super::status::{beat, update};
use super::{Facts, Inputs, NodeEvent, NodeEvents, NodeSight, Settings};
use crate::api::{ApiErrorKind, Objects, Wire, patch};
use crate::telemetry::Changed;
use crate::types::json::to_value;
use crate::types::{Backoff, BackoffPolicy, WallClock, error_chain};

/// How often a status is tried to be sent in one round; upstream's constant.
const ATTEMPTS: u32 = 5;

/// Pauses between attempts to register; upstream's constants. They never start anew while it goes on failing.
const REGISTER_BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(100),
    max: Duration::from_secs(7),
    reset_after: Duration::MAX,
};

/// Keeps the node's API object true.
pub struct StatusTask {
    settings: Arc<Settings>,
    nodes: Objects<Node>,
    inputs: Inputs,
    events: NodeEvents,
    clock: WallClock,
    /// The Node as the API server last showed it.
    sight: NodeSight,
    /// Events of changes that could not be told yet.
    pending: Vec<NodeEvent>,
    unschedulable: bool,
    trouble: Changed<String>,
}

/// How a round went.
enum Round {
    Done,
    /// There is no such Node.
    Gone,
    Failed,
}

impl StatusTask {
    /// `client` should be one of its own, without a rate limit: a status must not wait behind other requests. `sight`
    /// is shown the Node whenever it is read or written.
    pub fn new(
        client: Client,
        settings: Arc<Settings>,
        inputs: Inputs,
        events: NodeEvents,
        clock: WallClock,
        sight: NodeSight,
    ) -> Self {
        Self {
            settings,
            nodes: Objects::all(client),
            inputs,
            events,
            clock,
            sight,
            pending: Vec::new(),
            unschedulable: false,
            trouble: Changed::new(),
        }
    }

    /// Works until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waiting for a token takes nothing.
            () = cancel.cancelled() => {}
            // Cancel-safe: a request that is dropped took effect or not, and the next daemon finds out.
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
        let mut told = self.inputs.pressing();
        loop {
            let now = Instant::now();
            let pressing = self.inputs.pressing();
            if pressing != told {
                // Whoever wants to reach the node, or sends pods to it, does not wait for its next time.
                pace.forget();
            }
            let ready = self.inputs.unready(now).is_empty();
            if pace.is_due(now, ready) {
                match self.round(&mut pace).await {
                    Round::Done => told = pressing,
                    Round::Gone if self.settings.node.register => {
                        tracing::warn!(node = self.settings.name, "the Node is gone; registering again");
                        self.sight.gone();
                        self.register(&mut pace).await;
                    }
                    Round::Gone | Round::Failed => pace.failed(Instant::now(), rand::random()),
                }
            }
            tokio::select! {
                // Cancel-safe: see there.
                () = self.inputs.changed() => {}
                // Cancel-safe: a pause takes nothing.
                () = sleep_until(pace.look_at(Instant::now())) => {}
            }
        }
    }

    /// Makes the Node or adopts it, for as long as that takes.
    async fn register(&mut self, pace: &mut Pace) {
        let mut backoff = None;
        loop {
            let facts = self.facts().await;
            let (node, events) = initial(&self.settings, &facts, self.clock.now());
            let error = match attempt(&self.nodes, &node, self.settings.request_timeout()).await {
                Ok(Registered::Created(node)) => {
                    tracing::info!(node = self.settings.name, "registered the node");
                    let now = Instant::now();
                    pace.sent(now, true, rand::random());
                    pace.done(now, facts.unready.is_empty(), rand::random());
                    self.seen(node);
                    return self.tell(events);
                }
                Ok(Registered::Adopted(node)) => {
                    tracing::info!(node = self.settings.name, "the node was registered before");
                    pace.forget();
                    return self.seen(node);
                }
                Err(error) => error,
            };
            self.complain("register the node", &error);
            let now = Instant::now();
            let next = Backoff::next(backoff, &REGISTER_BACKOFF, now, now);
            backoff = Some(next);
            sleep(next.delay.max(error.retry_after())).await;
        }
    }

    /// Everything that is observed, as soon as the host was looked at.
    async fn facts(&mut self) -> Facts {
        loop {
            if let Some(facts) = self.inputs.facts(Instant::now()) {
                return facts;
            }
            self.inputs.changed().await;
        }
    }

    /// Brings the API server's status up to date, in a few attempts.
    async fn round(&mut self, pace: &mut Pace) -> Round {
        for number in 0..ATTEMPTS {
            let error = match self.attempt(number, pace).await {
                Ok(()) => {
                    self.trouble = Changed::new();
                    let events = std::mem::take(&mut self.pending);
                    self.tell(events);
                    return Round::Done;
                }
                Err(error) => error,
            };
            if error.error_kind() == ApiErrorKind::NotFound {
                return Round::Gone;
            }
            self.complain("tell the status of the node", &error);
            sleep(error.retry_after().min(self.settings.node.status_update_frequency)).await;
        }
        Round::Failed
    }

    /// Reads the Node, computes its status and sends what changed: the difference to what was read, so that what others
    /// write into it, before or meanwhile, survives.
    async fn attempt(&mut self, number: u32, pace: &mut Pace) -> Result<(), RequestError> {
        let limit = self.settings.request_timeout();
        let name = self.settings.name.clone();
        // First from the API server's cache, but no older than what is known here; after trouble, the newest there is.
        let known = self.sight.version();
        let version = match number {
            0 => GetParams::at(known.as_deref().unwrap_or("0")),
            _ => GetParams::default(),
        };
        let Wire(base) = within(limit, self.nodes.get_with(&name, &version)).await?;
        let facts = self.facts().await;
        let before = base.status.clone().unwrap_or_default();
        let mut status = before.clone();
        let events = update(&mut status, &self.settings, &facts, self.clock.now());
        for event in events {
            if !self.pending.contains(&event) {
                self.pending.push(event);
            }
        }
        let changed = status != before;
        let ready = facts.unready.is_empty();
        if !changed && !pace.must_report(Instant::now()) {
            self.seen(base);
            pace.done(Instant::now(), ready, rand::random());
            return Ok(());
        }
        beat(&mut status, self.clock.now());
        let patch = patch::strategic(patch::Kind::Node, &in_status(&before), &in_status(&status));
        // Of the Node that was read, not of another one of its name.
        let mut patch = patch.unwrap_or_else(|| json!({}));
        patch["metadata"] = json!({"uid": base.metadata.uid});
        let parameters = PatchParams::default();
        let patch = Patch::Strategic(patch);
        let Wire(patched) = within(limit, self.nodes.patch_status(&name, &parameters, &patch)).await?;
        self.seen(patched);
        let now = Instant::now();
        pace.sent(now, changed, rand::random());
        pace.done(now, ready, rand::random());
        Ok(())
    }

    /// Shows the Node to whoever wants to know, and says when it was opened to or closed for new pods.
    fn seen(&mut self, node: Node) {
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        if unschedulable != self.unschedulable {
            self.unschedulable = unschedulable;
            let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
            self.tell(vec![NodeEvent::status(&self.settings.name, reason)]);
        }
        self.sight.saw(node);
    }

    fn tell(&self, events: Vec<NodeEvent>) {
        for event in events {
            tracing::info!(reason = &*event.reason, "{}", event.message);
            (self.events)(event);
        }
    }

    /// Trouble that lasts is told once.
    fn complain(&mut self, what: &str, error: &RequestError) {
        let error = error_chain(error);
        if self.trouble.see(error.clone()) {
            tracing::warn!(node = self.settings.name, error, "cannot {what}; trying again");
        }
    }
}

fn in_status(status: &NodeStatus) -> Value {
    // Plain data of strings and numbers, which always becomes JSON.
    json!({"status": to_value(status).unwrap_or_default()})
}
