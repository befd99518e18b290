//! Waits until the API server knows what it must know before the host goes down.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;

use hostlet_observe::status::{PublishProgress, StatusCache};

/// What the API server has of this node.
#[derive(Clone)]
pub struct Reports {
    /// How far it is behind with the statuses of pods.
    pub statuses: watch::Receiver<PublishProgress>,
    /// The Node, as last read or written.
    pub node: watch::Receiver<Option<Arc<Node>>>,
}

impl Reports {
    /// Waits until the API server has all statuses and a Node that is not ready. May wait forever.
    pub(super) async fn sent(mut self, status_cache: &StatusCache) {
        let version = *status_cache.changes().borrow();
        // The senders live as long as the daemon.
        let _ = self.statuses.wait_for(|progress| progress.version >= version && progress.behind == 0).await;
        let _ = self.node.wait_for(|node| node.as_deref().is_none_or(|node| !is_ready(node))).await;
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
