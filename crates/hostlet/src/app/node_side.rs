//! The node's facts, from its configuration and its machine.

use std::sync::Arc;

use hostlet_base::node::{CgroupLimits, NodePressure, OwnNode};
use hostlet_base::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use hostlet_cluster::node::{NodeSettings, absent_cpus, overdrawn, own_node};
use hostlet_config::Config;
use hostlet_engine::admission::NodeView;
use hostlet_engine::grants::NumaSettings;
use hostlet_host::Machine;
use hostlet_volume::NodeAmounts;
use tokio::sync::watch;

use super::numa::numa_settings;
use super::paths::SYS;
use super::startup::StartupError;

/// The node at start-up.
pub(super) struct NodeSide {
    /// As an API object.
    pub(super) settings: Arc<NodeSettings>,
    /// For admission, except for what changes at run time.
    pub(super) view: NodeView,
    /// The machine's current facts.
    pub(super) machine: watch::Sender<Machine>,
    /// The node on this machine.
    pub(super) own_node: watch::Sender<OwnNode>,
    /// The node's pressures.
    pub(super) pressure: watch::Sender<NodePressure>,
    /// How the limits of cgroups stand.
    pub(super) limits: CgroupLimits,
    /// Allocatable resources as seen by pods.
    pub(super) amounts: NodeAmounts,
    /// The sizes of the machine's huge pages, in bytes.
    pub(super) huge_page_sizes: Vec<u64>,
    /// Swap of the machine in bytes.
    pub(super) swap: u64,
    /// Memory of the machine in bytes.
    pub(super) memory: u64,
    /// What single pods can have of CPUs, memory and NUMA nodes.
    pub(super) numa: NumaSettings,
}

impl NodeSide {
    pub(super) fn new(config: &Config, machine: Machine) -> Result<Self, StartupError> {
        let settings = settings(config, &machine);
        if let Some(resource) = overdrawn(&settings, &machine) {
            return Err(StartupError::Reserved(resource));
        }
        let absent = absent_cpus(&settings, &machine);
        if !absent.is_empty() {
            return Err(StartupError::ReservedCpus { absent, online: machine.cpu_list });
        }
        let own_node = own_node(&settings, &machine);
        let allocatable = own_node.allocatable.clone();
        let reserved_cpus = config.node.reserved.system_cpus.iter().flatten().copied().collect();
        let numa = numa_settings(&config.numa, &own_node, reserved_cpus, SYS.as_ref())?;
        Ok(Self {
            settings: Arc::new(settings),
            view: NodeView {
                name: config.node_name.clone(),
                labels: own_node.labels.clone(),
                taints: config.node.taints.clone(),
                app_armor: machine.app_armor,
                is_standalone: config.cluster.is_none(),
                ..NodeView::default()
            },
            machine: watch::Sender::new(machine.clone()),
            own_node: watch::Sender::new(own_node),
            pressure: watch::Sender::default(),
            limits: CgroupLimits::default(),
            amounts: NodeAmounts {
                milli_cpu: allocatable.units(CPU),
                memory: allocatable.units(MEMORY),
                ephemeral_storage: allocatable.units(EPHEMERAL_STORAGE),
            },
            huge_page_sizes: machine.huge_pages.keys().copied().collect(),
            swap: machine.swap,
            memory: machine.memory,
            numa,
        })
    }
}

fn settings(config: &Config, machine: &Machine) -> NodeSettings {
    NodeSettings {
        name: config.node_name.clone(),
        node_ips: config.node_ips.clone(),
        max_pods: config.pods.most_pods(machine.cpus),
        server_port: config.node_api.listen.map(|address| address.port()),
        node: config.node.clone(),
    }
}
