//! The node as it knows itself before anybody has told it more, and alone on a host; and that value as the machine changes,
//! which the Node's status and admission both go by. Looks at nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeStatus;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tokio::sync::watch;

use super::Settings;
use super::register::labels;
use super::status::{Unreserved, resources};
use crate::sys::Machine;

/// The node by its own account.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnNode {
    /// The labels it is made with.
    pub labels: BTreeMap<String, String>,
    /// What pods can have of it, by resource.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What pods are to be held to together.
    pub unreserved: Unreserved,
}

impl OwnNode {
    /// The node on this machine.
    pub fn new(settings: &Settings, machine: &Machine) -> Self {
        let mut status = NodeStatus::default();
        resources(&mut status, settings, machine);
        Self {
            labels: labels(settings),
            allocatable: status.allocatable.unwrap_or_default(),
            unreserved: Unreserved::of(settings, machine),
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
