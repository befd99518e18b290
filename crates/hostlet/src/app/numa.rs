//! The policies for CPUs, memory and NUMA nodes, from the configuration and the machine. Decides nothing.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::node::OwnNode;
use hostlet_base::resources::{CPU, HUGE_PAGES, MEMORY};
use hostlet_base::{Quantity, ResourceList};
use hostlet_config::{Numa, TopologyManagerPolicy, TopologyManagerScope};
use hostlet_engine::grants::NumaSettings;
use hostlet_host::{CpuLocation, NodeFacts, NumaTopology};
use hostlet_resources::{
    CpuOptionError, CpuOptions, CpuPlace, CpuPolicyError, CpuReservation, CpuSet, Machine, MemoryPolicyError,
    NumaNode, OptionGates, ReservedMemory, StaticCpus, StaticManagers, StaticMemory, Topology, TopologyError,
    TopologyOptionError, TopologyOptions, TopologyPolicy, TopologyScope,
};

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NumaError {
    /// An option for CPUs is wrong.
    #[error("cpuManagerPolicyOptions: {0}")]
    CpuOption(#[from] CpuOptionError),
    /// The policy for CPUs cannot be used.
    #[error("cpuManagerPolicy: {0}; see kubeReserved, systemReserved and reservedSystemCPUs")]
    Cpus(#[from] CpuPolicyError),
    /// The policy for memory cannot be used.
    #[error("memoryManagerPolicy: {0}; see reservedMemory")]
    Memory(#[from] MemoryPolicyError),
    /// An option for NUMA nodes is wrong.
    #[error("topologyManagerPolicyOptions: {0}")]
    TopologyOption(#[from] TopologyOptionError),
    /// The policy for NUMA nodes cannot be used.
    #[error("topologyManagerPolicy: {0}; see topologyManagerPolicyOptions")]
    Topology(#[from] TopologyError),
}

/// The policies on the machine with this sysfs. `reserved_cpus` are those of `reservedSystemCPUs`, if it is set.
pub(super) fn numa_settings(
    config: &Numa,
    node: &OwnNode,
    reserved_cpus: CpuSet,
    sys: &Path,
) -> Result<NumaSettings, NumaError> {
    let topology_options = TopologyOptions::parse(&config.topology_options)?;
    if !config.static_cpus && !config.static_memory && config.topology_policy == TopologyManagerPolicy::None {
        return Ok(NumaSettings::none());
    }
    let machine = Arc::new(machine(NumaTopology::read(sys), node));
    let (policy, scope) = (topology_policy(config.topology_policy), topology_scope(config.topology_scope));
    let topology = Topology::new(policy, scope, topology_options, &machine)?;
    let cpus = match config.static_cpus {
        true => Some(Arc::new(static_cpus(config, node, reserved_cpus, &machine, policy)?)),
        false => None,
    };
    let memory = match config.static_memory {
        true => Some(Arc::new(static_memory(config, node, &machine)?)),
        false => None,
    };
    let managers = Arc::new(StaticManagers { topology, pod_level: config.pod_level });
    Ok(NumaSettings { cpus, memory, managers, reconcile_period: config.cpu_reconcile_period })
}

/// The machine. One whose kernel knows no NUMA nodes has all of its memory on the first.
fn machine(topology: NumaTopology, node: &OwnNode) -> Machine {
    let place =
        |at: CpuLocation| CpuPlace { node: at.node, socket: at.socket, core: at.core, cache: at.cache };
    let of_node = |facts: NodeFacts| {
        let NodeFacts { memory, huge_pages, distances } = facts;
        NumaNode { memory, huge_pages, distances }
    };
    let mut machine = Machine {
        cpus: topology.cpus.into_iter().map(|(cpu, at)| (cpu, place(at))).collect(),
        nodes: topology.nodes.into_iter().map(|(number, facts)| (number, of_node(facts))).collect(),
    };
    if machine.nodes.values().all(|node| node.memory == 0)
        && let Some(first) = machine.nodes.values_mut().next()
    {
        first.memory = u64::try_from(node.machine.units(MEMORY)).unwrap_or_default();
    }
    machine
}

fn static_cpus(
    config: &Numa,
    node: &OwnNode,
    reserved_cpus: CpuSet,
    machine: &Arc<Machine>,
    topology: TopologyPolicy,
) -> Result<StaticCpus, NumaError> {
    let gates = OptionGates { alpha: config.cpu_gates.alpha, beta: config.cpu_gates.beta };
    let options = CpuOptions::parse(&config.cpu_options, gates)?;
    let milli = node.machine.units(CPU).saturating_sub(node.unreserved.units(CPU));
    let reservation = CpuReservation { milli, cpus: reserved_cpus };
    Ok(StaticCpus::new(machine.clone(), options, &reservation, topology, config.pod_level)?)
}

fn static_memory(config: &Numa, node: &OwnNode, machine: &Arc<Machine>) -> Result<StaticMemory, NumaError> {
    // Evictions reserve memory as well. What is in huge pages is not allocatable as memory, but not reserved either.
    let huge = node.allocatable.iter().filter(|(resource, _)| resource.starts_with(HUGE_PAGES));
    let huge: i64 = huge.map(|(resource, _)| node.allocatable.units(resource)).sum();
    let allocatable = node.allocatable.units(MEMORY).saturating_add(huge);
    let reserved = node.machine.units(MEMORY).saturating_sub(allocatable);
    let mut of_node = ResourceList::default();
    of_node.set(MEMORY, Quantity::bytes(u64::try_from(reserved).unwrap_or_default()));
    let reservations = config.reserved_memory.iter();
    let reservations: Vec<ReservedMemory> =
        reservations.map(|(node, limits)| ReservedMemory { node: *node, limits: limits.clone() }).collect();
    Ok(StaticMemory::new(machine.clone(), &of_node, &reservations, config.pod_level)?)
}

fn topology_policy(policy: TopologyManagerPolicy) -> TopologyPolicy {
    match policy {
        TopologyManagerPolicy::None => TopologyPolicy::None,
        TopologyManagerPolicy::BestEffort => TopologyPolicy::BestEffort,
        TopologyManagerPolicy::Restricted => TopologyPolicy::Restricted,
        TopologyManagerPolicy::SingleNumaNode => TopologyPolicy::SingleNumaNode,
    }
}

fn topology_scope(scope: TopologyManagerScope) -> TopologyScope {
    match scope {
        TopologyManagerScope::Container => TopologyScope::Container,
        TopologyManagerScope::Pod => TopologyScope::Pod,
    }
}

#[cfg(test)]
#[path = "numa_tests.rs"]
mod tests;
