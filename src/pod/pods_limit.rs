//! Keeps all pods together within what is not reserved, and tells of it as an event of the node. Does not know how much
//! that is.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cgroup::Cgroups;
use crate::node::{NodeEvent, NodeEvents};
use crate::telemetry::Changed;
use crate::types::error_chain;

/// Sets the limit of all pods. The kernel may refuse while they use more, so it is set again with each housekeeping.
pub struct PodsLimit {
    cgroups: Arc<Cgroups>,
    events: NodeEvents,
    said: Mutex<Changed<Result<(), String>>>,
}

impl PodsLimit {
    /// Nothing is set before the first call of `apply`.
    pub fn new(cgroups: Arc<Cgroups>, events: NodeEvents) -> Self {
        Self { cgroups, events, said: Mutex::default() }
    }

    /// Sets the limit where one was asked for, and tells how that went when it went otherwise than before. Blocking.
    pub fn apply(&self) {
        let limited = match self.cgroups.limit_all_pods() {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(error) => Err(error_chain(&error).to_string()),
        };
        let is_news = self.said.lock().unwrap_or_else(PoisonError::into_inner).see(limited.clone());
        match limited {
            _ if !is_news => {}
            Ok(()) => (self.events)(NodeEvent::allocatable_enforced()),
            Err(error) => {
                tracing::warn!(error, "cannot limit what all pods use together; housekeeping tries again");
                (self.events)(NodeEvent::allocatable_not_enforced(&error));
            }
        }
    }
}
