//! The node by its own account: what it is configured to be, on the machine it is on.

use std::sync::Arc;

use tokio::sync::watch;

use super::startup::StartupError;
use crate::admission::NodeView;
use crate::cgroup::AllPods;
use crate::config::Config;
use crate::node::{NodeSettings, OwnNode, OwnNodeWatch, Pressures, overdrawn};
use crate::sys::Machine;
use crate::types::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PID};
use crate::volume::NodeAmounts;

/// The node as this daemon knows it at its start.
pub(super) struct NodeSide {
    /// As an object of a cluster.
    pub(super) settings: Arc<NodeSettings>,
    /// As pods are judged by it, but for what they can have of it.
    pub(super) view: NodeView,
    /// The machine as it is now.
    pub(super) machine: watch::Sender<Machine>,
    /// What it is short of. Nothing watches over that yet, so nothing is ever in it.
    pub(super) pressures: watch::Sender<Pressures>,
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
        let (allocatable, unreserved) = (own.allocatable, own.unreserved);
        Ok(Self {
            settings: Arc::new(settings),
            view: NodeView {
                name: config.node_name.clone(),
                labels: own.labels,
                taints: config.node.taints.clone(),
                allocatable: allocatable.clone(),
                pressures: Pressures::default(),
            },
            machine: watch::Sender::new(machine.clone()),
            pressures: watch::Sender::default(),
            amounts: NodeAmounts {
                milli_cpu: allocatable.units(CPU),
                memory: allocatable.units(MEMORY),
                ephemeral_storage: allocatable.units(EPHEMERAL_STORAGE),
            },
            all_pods: AllPods {
                milli_cpu: unreserved.units(CPU),
                memory: unreserved.units(MEMORY),
                pids: unreserved.units(PID),
            },
            memory: machine.memory,
        })
    }

    /// The node by its own account, as its machine is at the time.
    pub(super) fn own(&self) -> OwnNodeWatch {
        OwnNodeWatch::new(self.settings.clone(), self.machine.subscribe())
    }
}

fn settings(config: &Config, machine: &Machine) -> NodeSettings {
    NodeSettings {
        name: config.node_name.clone(),
        node_ips: config.node_ips.clone(),
        max_pods: config.pods.most_pods(machine.cpus),
        // hostlet serves nothing over the network yet.
        server_port: None,
        node: config.node.clone(),
    }
}
