//! The node as it knows itself before anybody has told it more, and alone on a host; and that value as the machine changes,
//! which the Node's status and admission both go by. Looks at nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::Settings;
use super::register::labels;
use super::status::{allocatable, capacity, unreserved};
use crate::sys::Machine;
use crate::types::ResourceList;

/// The node by its own account.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnNode {
    /// The labels it is made with.
    pub labels: BTreeMap<String, String>,
    /// What pods can have of it, by resource.
    pub allocatable: ResourceList,
    /// What all pods together are limited to: cores, memory, processes.
    pub unreserved: ResourceList,
}

impl OwnNode {
    /// The node on this machine.
    pub fn new(settings: &Settings, machine: &Machine) -> Self {
        Self {
            labels: labels(settings),
            allocatable: allocatable(&capacity(settings, machine), &settings.node.reserved),
            unreserved: unreserved(settings, machine),
        }
    }
}

/// The node by its own account, on its machine as it is now. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnNodeWatch {
    settings: Arc<Settings>,
    machine: watch::Receiver<Machine>,
}

impl OwnNodeWatch {
    /// The node with these settings, on the machine that is observed.
    pub fn new(settings: Arc<Settings>, machine: watch::Receiver<Machine>) -> Self {
        Self { settings, machine }
    }

    /// The node as it is now, which counts as seen.
    pub fn now(&mut self) -> OwnNode {
        OwnNode::new(&self.settings, &self.machine.borrow_and_update())
    }

    /// Waits until it may be another than was last seen; for ever once nobody looks at the machine any more. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.machine.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
