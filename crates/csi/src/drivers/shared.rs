//! The state that the handler and its task share, and what follows from it for others. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::watching;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::state::State;
use crate::{NodeInfo, NodeService, Services};

/// What registered drivers said of this node, by the driver's name. Drivers that have said nothing yet are missing.
pub type NodeInfos = BTreeMap<String, NodeInfo>;

/// The shared state.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Somebody may have to be asked.
    pub(super) due: Notify,
    services: watch::Sender<Services>,
    infos: watch::Sender<NodeInfos>,
}

impl Shared {
    /// Changes the state, and publishes what follows. Every use leaves it consistent.
    pub(super) fn change<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = work(&mut state);
        // With the state locked, so that nobody publishes an older one later.
        let services = state.services();
        self.services.send_if_modified(|known| {
            let is_same = |(name, service): (&String, &Arc<dyn NodeService>)| {
                known.get(name).is_some_and(|known| Arc::ptr_eq(known, service))
            };
            let is_changed = known.len() != services.len() || !services.iter().all(is_same);
            if is_changed {
                *known = services;
            }
            is_changed
        });
        watching::publish(&self.infos, state.infos());
        result
    }

    pub(super) fn read<T>(&self, work: impl FnOnce(&State) -> T) -> T {
        work(&self.state.lock())
    }

    /// When somebody is to be asked next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.read(State::next_due)
    }

    pub(super) fn services(&self) -> watch::Receiver<Services> {
        self.services.subscribe()
    }

    pub(super) fn infos(&self) -> watch::Receiver<NodeInfos> {
        self.infos.subscribe()
    }
}
