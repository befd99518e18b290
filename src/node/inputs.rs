//! What the status is made of as it comes in: watches, so that nobody waits for anybody.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::health::{Health, unready};
use super::{Facts, HostFacts, NodeAddresses, Pressures, RuntimeFacts};
use crate::cri::RuntimeStatus;
use crate::pleg;
use crate::sys::Machine;

/// Watches of everything that is observed of this node.
#[derive(Clone)]
pub struct Inputs {
    /// The host.
    pub host: watch::Receiver<Machine>,
    /// Its addresses; nothing is reported of the node until they were looked for.
    pub addresses: NodeAddresses,
    /// What the runtime has.
    pub runtime: watch::Receiver<RuntimeFacts>,
    /// What the runtime says of itself.
    pub status: watch::Receiver<Option<RuntimeStatus>>,
    /// When the runtime last said that it is ready.
    pub ready_at: watch::Receiver<Option<Instant>>,
    /// How relisting goes.
    pub pleg: watch::Receiver<pleg::Health>,
    /// What the node is short of.
    pub pressures: watch::Receiver<Pressures>,
    /// What else keeps the node from being ready, in upstream's words: storage, a shutdown.
    pub others: watch::Receiver<Vec<String>>,
}

impl Inputs {
    /// What keeps the node from being ready at `now`.
    pub(super) fn unready(&self, now: Instant) -> Vec<String> {
        let status = self.status.borrow();
        // A node that is told to be ready is told with which runtime.
        let is_known = self.runtime.borrow().version.is_some();
        let (pleg, others) = (self.pleg.borrow(), self.others.borrow());
        let health = Health {
            status: status.as_ref().filter(|_| is_known),
            ready_at: *self.ready_at.borrow(),
            pleg: &pleg,
            others: &others,
        };
        unready(&health, now)
    }

    /// Everything as it is at `now`; none before its addresses were looked for.
    pub(super) fn facts(&self, now: Instant) -> Option<Facts> {
        let machine = self.host.borrow().clone();
        let addresses = self.addresses.is_known().then(|| self.addresses.now().to_vec())?;
        Some(Facts {
            host: HostFacts { machine, addresses },
            runtime: self.runtime.borrow().clone(),
            status: self.status.borrow().clone(),
            pressures: self.pressures.borrow().clone(),
            unready: self.unready(now),
        })
    }

    /// What is reported as soon as it changes, beside readiness.
    pub(super) fn pressing(&self) -> (Arc<[IpAddr]>, Pressures) {
        (self.addresses.now(), self.pressures.borrow().clone())
    }

    /// Waits until something changes that may change what is reported at once. Cancel-safe. A watch nobody writes any more never
    /// changes.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            // Cancel-safe, all: a watch marks its value seen only when `changed` returns.
            Ok(()) = self.host.changed() => {}
            () = self.addresses.changed() => {}
            Ok(()) = self.runtime.changed() => {}
            Ok(()) = self.status.changed() => {}
            Ok(()) = self.pressures.changed() => {}
            Ok(()) = self.others.changed() => {}
            else => std::future::pending().await,
        }
    }
}
