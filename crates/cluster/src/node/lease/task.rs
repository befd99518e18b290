//! The task that renews the lease.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy, WallClock, error_chain};
use hostlet_telemetry::{Changed, Heartbeat};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::PostParams;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::spec::{NAMESPACE, interval, renewed};
use crate::api::{ApiErrorKind, TypedApi, Wire, pause};
use crate::node::NodeSettings;
use crate::node::request::{RequestError, within};

/// Maximum attempts of one renewal; upstream's constant.
const ATTEMPTS: u32 = 5;

/// Pause between the attempts of a renewal. Upstream has none, so that all nodes try five times at once when a server fails.
const RETRY: Duration = Duration::from_millis(200);

/// Pauses while the lease can be neither read nor created; upstream's constants, here with jitter.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(7),
    reset_after: Duration::MAX,
};

/// Renews the lease of this node.
pub struct LeaseTask {
    settings: Arc<NodeSettings>,
    leases: TypedApi<Lease>,
    node: watch::Receiver<Option<Arc<Node>>>,
    clock: WallClock,
    /// The lease as last written here. Normally no other client writes it, so it is renewed without
    /// reading it first.
    latest: Option<Lease>,
    last_error: Changed<String>,
    heartbeat: Heartbeat,
}

impl LeaseTask {
    /// `client` should be a separate one without a rate limit. The lease is created once `node` has a Node, and renewed even if
    /// that is deleted.
    pub fn new(
        client: Client,
        settings: Arc<NodeSettings>,
        node: watch::Receiver<Option<Arc<Node>>>,
        clock: WallClock,
    ) -> Self {
        let leases = TypedApi::namespaced(client, NAMESPACE);
        Self {
            settings,
            leases,
            node,
            clock,
            latest: None,
            last_error: Changed::new(),
            heartbeat: Heartbeat::default(),
        }
    }

    /// Answers as this heartbeat.
    pub fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Renews until cancelled. Cancel it last: a node that shuts down is alive until its pods have terminated.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: it does not matter whether a dropped renewal took effect.
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        loop {
            self.renew().await;
            let pause = sleep(self.interval(rand::random()));
            tokio::pin!(pause);
            tokio::select! {
                // Cancel-safe: pinned outside.
                () = self.heartbeat.while_waiting(&mut pause) => {}
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.node.changed(), if self.latest.is_none() => {}
            }
        }
    }

    async fn renew(&mut self) {
        if let Some(latest) = self.latest.take()
            && self.update(latest).await
        {
            return;
        }
        match self.ensure().await {
            Some((lease, true)) => self.latest = Some(lease),
            Some((lease, false)) => {
                self.update(lease).await;
            }
            None => {}
        }
    }

    /// Renews `base` in a few attempts; returns whether one succeeded.
    async fn update(&mut self, mut base: Lease) -> bool {
        for _ in 0..ATTEMPTS {
            let lease = Wire(self.renewed(Some(&base)));
            let name = &self.settings.name;
            let parameters = PostParams::default();
            let error = match self.within(self.leases.replace(name, &parameters, &lease)).await {
                Ok(Wire(lease)) => {
                    self.latest = Some(lease);
                    self.last_error = Changed::new();
                    return true;
                }
                Err(error) => error,
            };
            match error.error_kind() {
                // Another client wrote it, or our own write whose response was lost.
                ApiErrorKind::Conflict => match self.ensure().await {
                    Some((lease, false)) => base = lease,
                    Some((lease, true)) => {
                        self.latest = Some(lease);
                        return true;
                    }
                    None => return false,
                },
                // It cannot be renewed, only created again.
                ApiErrorKind::NotFound => return false,
                ApiErrorKind::AlreadyExists
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid
                | ApiErrorKind::TooMany(_)
                | ApiErrorKind::Unavailable => {
                    self.log_failure(&error);
                    let pause = pause(RETRY, error.retry_after(), rand::random());
                    self.heartbeat.while_waiting(sleep(pause.min(self.interval(0.0)))).await;
                }
            }
        }
        false
    }

    /// Returns the lease and whether it was just created, retrying until that succeeds. `None` while there is neither a lease
    /// nor a Node that could own one.
    async fn ensure(&mut self) -> Option<(Lease, bool)> {
        let mut backoff = None;
        loop {
            let error = match self.get_or_create().await {
                Ok(result) => return result,
                Err(error) => error,
            };
            self.log_failure(&error);
            let now = Instant::now();
            let next = Backoff::next(backoff, &BACKOFF, now, now);
            backoff = Some(next);
            let pause = pause(next.delay, error.retry_after(), rand::random());
            self.heartbeat.while_waiting(sleep(pause.min(self.interval(0.0)))).await;
        }
    }

    async fn get_or_create(&mut self) -> Result<Option<(Lease, bool)>, RequestError> {
        match self.within(self.leases.get(&self.settings.name)).await {
            Ok(Wire(lease)) => return Ok(Some((lease, false))),
            Err(error) if error.error_kind() == ApiErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if self.node.borrow_and_update().is_none() {
            return Ok(None);
        }
        let lease = Wire(self.renewed(None));
        let Wire(created) = self.within(self.leases.create(&PostParams::default(), &lease)).await?;
        self.last_error = Changed::new();
        Ok(Some((created, true)))
    }

    /// The time between two renewals, which is also the longest pause after a failure: a lease must not wait as long as other requests
    /// may have to.
    fn interval(&self, random: f64) -> Duration {
        interval(self.settings.node.lease_duration, random)
    }

    fn renewed(&self, base: Option<&Lease>) -> Lease {
        let node = self.node.borrow().clone();
        let NodeSettings { name, node: settings, .. } = &*self.settings;
        renewed(base, name, settings.lease_duration, node.as_deref(), self.clock.now())
    }

    /// Awaits a request within its time limit.
    async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>> + Send,
    ) -> Result<T, RequestError> {
        let limit = self.settings.request_timeout();
        self.heartbeat.alive_for(limit);
        within(limit, request).await
    }

    /// Logs a failure, but only once while it stays the same.
    fn log_failure(&mut self, error: &RequestError) {
        let error = error_chain(error);
        if self.last_error.see(error.clone()) {
            tracing::warn!(
                node = self.settings.name,
                error,
                "cannot renew the lease of the node; trying again"
            );
        }
    }
}
