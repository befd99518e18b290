//! The node's addresses: one value for the Node's status, the statuses of pods and the variables of containers. Does no
//! lookup itself.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::watching;

/// Where addresses are published.
pub type AddressPublisher = watch::Sender<Option<Arc<[IpAddr]>>>;

/// The node's current addresses. Clones share one value.
#[derive(Clone, Debug)]
pub struct NodeAddresses(watch::Receiver<Option<Arc<[IpAddr]>>>);

impl NodeAddresses {
    /// A value without addresses, and where to publish them.
    pub fn new() -> (AddressPublisher, Self) {
        let (publisher, published) = watch::channel(None);
        (publisher, Self(published))
    }

    /// Addresses that never change.
    pub fn fixed(ips: impl Into<Arc<[IpAddr]>>) -> Self {
        Self(watch::channel(Some(ips.into())).1)
    }

    /// The addresses, primary first, at most one per family; empty while the node has none.
    pub fn now(&self) -> Arc<[IpAddr]> {
        self.0.borrow().clone().unwrap_or_default()
    }

    /// Whether the first lookup is done.
    pub fn is_known(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the first lookup. Cancel-safe.
    pub async fn known(&mut self) {
        // An error means that the observer has ended: nothing more will come.
        let _ = self.0.wait_for(Option::is_some).await;
    }

    /// Waits until they change; forever once the observer has ended. Cancel-safe.
    pub async fn changed(&mut self) {
        watching::changed(&mut self.0).await;
    }
}
