//! The node by its own account: what it is configured to be, on the machine it is on.

use std::sync::Arc;

use super::startup::StartupError;
use crate::admission::{Allocatable, NodeView};
use crate::cgroup::AllPods;
use crate::config::Config;
use crate::node::{OwnNode, Settings, overdrawn};
use crate::sys::Machine;
use crate::volume::NodeAmounts;

/// The node as this daemon knows it at its start.
pub(super) struct NodeSide {
    /// As an object of a cluster.
    pub(super) settings: Arc<Settings>,
    /// As pods are judged by it.
    pub(super) view: NodeView,
    /// What pods can have of it, as they see it themselves.
    pub(super) amounts: NodeAmounts,
    /// What all of them together can have.
    pub(super) all_pods: AllPods,
    /// Memory of the machine, bytes.
    pub(super) memory: u64,
}

impl NodeSide {
    pub(super) fn new(config: &Config, machine: Machine) -> Result<Self, StartupError> {
        let settings = settings(config, &machine);
        if let Some(resource) = overdrawn(&settings, &machine) {
            return Err(StartupError::Reserved(resource));
        }
        let own = OwnNode::new(&settings, &machine);
        let allocatable = Allocatable::of(&own.allocatable);
        Ok(Self {
            settings: Arc::new(settings),
            view: NodeView {
                name: config.node_name.clone(),
                labels: own.labels,
                taints: config.node.taints.clone(),
                allocatable,
            },
            amounts: NodeAmounts {
                milli_cpu: allocatable.milli_cpu,
                memory: allocatable.memory,
                ephemeral_storage: allocatable.ephemeral_storage.unwrap_or_default(),
            },
            all_pods: AllPods {
                milli_cpu: own.unreserved.cpu.milli_value(),
                memory: own.unreserved.memory.value(),
                pids: own.unreserved.pids.value(),
            },
            memory: machine.memory,
        })
    }
}

fn settings(config: &Config, machine: &Machine) -> Settings {
    Settings {
        name: config.node_name.clone(),
        node_ips: config.node_ips.clone(),
        max_pods: config.pods.most_pods(machine.cpus),
        // hostlet serves nothing over the network yet.
        server_port: None,
        node: config.node.clone(),
    }
}
