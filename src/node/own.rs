//! The node as its configuration and its machine define it: the value that its status reports and that admission checks
//! against. Does no I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::NodeSettings;
use super::register::labels;
use super::status::{allocatable, capacity, unreserved};
use crate::sys::Machine;
use crate::types::{ResourceList, watching};

/// The properties of the node that need no API server.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnNode {
    /// The labels it registers with.
    pub labels: BTreeMap<String, String>,
    /// Its allocatable resources.
    pub allocatable: ResourceList,
    /// The limit of all pods together: cores, memory, processes.
    pub unreserved: ResourceList,
}

impl OwnNode {
    /// The node on this machine.
    pub fn new(settings: &NodeSettings, machine: &Machine) -> Self {
        Self {
            labels: labels(settings),
            allocatable: allocatable(&capacity(settings, machine), &settings.node.reserved),
            unreserved: unreserved(settings, machine),
        }
    }
}

/// The current [`OwnNode`] as the machine changes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnNodeWatch {
    settings: Arc<NodeSettings>,
    machine: watch::Receiver<Machine>,
}

impl OwnNodeWatch {
    /// Follows the observed machine.
    pub fn new(settings: Arc<NodeSettings>, machine: watch::Receiver<Machine>) -> Self {
        Self { settings, machine }
    }

    /// The current value, which is marked as seen.
    pub fn now(&mut self) -> OwnNode {
        OwnNode::new(&self.settings, &self.machine.borrow_and_update())
    }

    /// Waits until the value may have changed; forever once the observer has ended. Cancel-safe.
    pub async fn changed(&mut self) {
        watching::changed(&mut self.machine).await;
    }
}
