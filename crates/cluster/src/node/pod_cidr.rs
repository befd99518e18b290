//! Sends the runtime the ranges of the pods' addresses, from which it may make the configuration of its network: the ranges of the Node,
//! or the configured one until the Node has any. Touches no network itself.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use hostlet_base::{Backoff, BackoffPolicy, sleep_until, watching};
use hostlet_runtime::cri::{CriError, RuntimeService};
use hostlet_telemetry::Changed;

/// Pauses before a failed call is repeated. The longest is the interval at which upstream's node status repeats it.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(10),
    reset_after: Duration::MAX,
};

/// The task that sends them.
pub struct PodCidrTask {
    /// The runtime, which receives the ranges.
    pub runtime: Arc<dyn RuntimeService>,
    /// The configured range (`podCIDR`).
    pub configured: Option<String>,
    /// The Node, whose ranges replace the configured one; stays `None` on a standalone node.
    pub node: watch::Receiver<Option<Arc<Node>>>,
}

impl PodCidrTask {
    /// Runs until cancelled. Each value is sent until the runtime has accepted it, and not again: a runtime keeps what it made of it.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: the call is idempotent.
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        let mut desired = self.configured.clone();
        let (mut sent, mut retry, mut failed) = (None, None, Changed::new());
        loop {
            if let Some(of_node) = ranges(self.node.borrow_and_update().as_deref()) {
                desired = Some(of_node);
            }
            if let Some(pod_cidr) = desired.as_ref().filter(|desired| sent.as_ref() != Some(*desired)) {
                match self.runtime.update_runtime_config(pod_cidr).await {
                    Ok(()) => {
                        tracing::info!(pod_cidr, "sent the pod CIDR to the container runtime");
                        (sent, retry) = (Some(pod_cidr.clone()), None);
                    }
                    Err(error @ CriError::Unimplemented { .. }) => {
                        tracing::info!(%error, "the container runtime does not take the pod CIDR");
                        (sent, retry) = (Some(pod_cidr.clone()), None);
                    }
                    Err(error) => {
                        if failed.see(error.to_string()) {
                            tracing::warn!(pod_cidr, %error, "cannot send the pod CIDR to the container runtime; trying again");
                        }
                        let now = Instant::now();
                        retry = Some(Backoff::next(retry, &BACKOFF, now, now));
                    }
                }
            }
            tokio::select! {
                // Cancel-safe: a watch marks its value seen only when it returns.
                () = watching::changed(&mut self.node) => {}
                // Cancel-safe: a sleep.
                () = sleep_until(retry.map(|retry| retry.updated + retry.delay)) => {}
            }
        }
    }
}

/// The ranges of a Node as the runtime takes them; `None` if it has none.
fn ranges(node: Option<&Node>) -> Option<String> {
    let ranges = node?.spec.as_ref()?.pod_cidrs.as_ref()?;
    (!ranges.is_empty()).then(|| ranges.join(","))
}

#[cfg(test)]
#[path = "pod_cidr_tests.rs"]
mod tests;
