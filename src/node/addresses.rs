//! The addresses of this node: one value for its own status, the statuses of its pods and the variables of their containers.
//! Looks for nothing itself.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

/// Where addresses are shown.
pub(in crate::node) type ShowAddresses = watch::Sender<Option<Arc<[IpAddr]>>>;

/// The addresses of this node as they are at present. All clones are one value.
#[derive(Clone, Debug)]
pub struct NodeAddresses(watch::Receiver<Option<Arc<[IpAddr]>>>);

impl NodeAddresses {
    /// What is shown from now on, and where.
    pub fn new() -> (watch::Sender<Option<Arc<[IpAddr]>>>, Self) {
        let (show, shown) = watch::channel(None);
        (show, Self(shown))
    }

    /// Addresses that never change.
    pub fn fixed(ips: impl Into<Arc<[IpAddr]>>) -> Self {
        Self(watch::channel(Some(ips.into())).1)
    }

    /// The addresses, primary first, at most one of a family; empty as long as the node has none.
    pub fn now(&self) -> Arc<[IpAddr]> {
        self.0.borrow().clone().unwrap_or_default()
    }

    /// Whether they were looked for at least once.
    pub fn is_known(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until they were looked for once. Cancel-safe.
    pub async fn known(&mut self) {
        // Nobody will look any more: what is known is all there will be.
        let _ = self.0.wait_for(Option::is_some).await;
    }

    /// Waits until they change; for ever once nobody looks for them any more. Cancel-safe.
    pub async fn changed(&mut self) {
        // A watch marks its value seen only when `changed` returns.
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
