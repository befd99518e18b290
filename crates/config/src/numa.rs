//! What single pods can have of CPUs, memory and NUMA nodes: the fields of upstream's managers of CPUs, memory and topology, their rules
//! and their settings. Knows no machine.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::ResourceList;

use super::breach::Breach;
use super::gates;
use super::values::time;
use super::wire::{
    CpuManagerPolicy, KubeletConfiguration, MemoryManagerPolicy, TopologyManagerPolicy, TopologyManagerScope,
};

/// What single pods can have of CPUs, memory and NUMA nodes. The options are not checked: that needs what reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numa {
    /// Whether guaranteed pods have whole CPUs for themselves (`cpuManagerPolicy: static`).
    pub static_cpus: bool,
    /// How these are chosen (`cpuManagerPolicyOptions`).
    pub cpu_options: BTreeMap<String, String>,
    /// The longest time in which a container does not run on the CPUs that it should (`cpuManagerReconcilePeriod`).
    pub cpu_reconcile_period: Duration,
    /// Whether guaranteed pods have memory of certain NUMA nodes (`memoryManagerPolicy: Static`).
    pub static_memory: bool,
    /// What is kept from these, by NUMA node (`reservedMemory`).
    pub reserved_memory: Vec<(u32, ResourceList)>,
    /// How NUMA nodes are chosen (`topologyManagerPolicy`).
    pub topology_policy: TopologyManagerPolicy,
    /// For what NUMA nodes are chosen (`topologyManagerScope`).
    pub topology_scope: TopologyManagerScope,
    /// Options of that choice (`topologyManagerPolicyOptions`).
    pub topology_options: BTreeMap<String, String>,
    /// Their feature gates.
    pub cpu_gates: OptionGates,
    /// Whether pods with resources of their own have them for themselves (feature gate `PodLevelResourceManagers`).
    pub pod_level: bool,
}

/// Which options for CPUs may be used besides stable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionGates {
    /// Whether those in alpha (`CPUManagerPolicyAlphaOptions`).
    pub alpha: bool,
    /// Whether those in beta (`CPUManagerPolicyBetaOptions`).
    pub beta: bool,
}

impl Numa {
    pub(super) fn new(kc: &KubeletConfiguration) -> Self {
        let gate = |name| gates::enabled(name, kc.feature_gates.as_ref());
        Self {
            static_cpus: kc.cpu_manager_policy == Some(CpuManagerPolicy::Static),
            cpu_options: kc.cpu_manager_policy_options.clone().unwrap_or_default(),
            cpu_reconcile_period: time(kc.cpu_manager_reconcile_period),
            static_memory: kc.memory_manager_policy == Some(MemoryManagerPolicy::Static),
            reserved_memory: reserved_memory(kc),
            topology_policy: kc.topology_manager_policy.unwrap_or(TopologyManagerPolicy::None),
            topology_scope: kc.topology_manager_scope.unwrap_or(TopologyManagerScope::Container),
            topology_options: kc.topology_manager_policy_options.clone().unwrap_or_default(),
            cpu_gates: OptionGates {
                alpha: gate(gates::CPU_ALPHA_OPTIONS),
                beta: gate(gates::CPU_BETA_OPTIONS),
            },
            pod_level: gate(gates::POD_LEVEL_MANAGERS),
        }
    }
}

/// The reservations of a valid configuration.
fn reserved_memory(kc: &KubeletConfiguration) -> Vec<(u32, ResourceList)> {
    let reservations = kc.reserved_memory.iter().flatten().filter_map(|reservation| {
        let node = u32::try_from(reservation.numa_node.unwrap_or_default()).ok()?;
        let limits = reservation.limits.iter();
        let limits = limits.filter_map(|(kind, text)| Some((kind.clone(), text.amount()?)));
        Some((node, limits.collect()))
    });
    reservations.collect()
}

/// The violations of rules, beside those of `reservedMemory` itself.
pub(super) fn breaches(kc: &KubeletConfiguration) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut add = |path: &str, message: &str| breaches.push((path.to_owned(), message.to_owned()));
    match kc.memory_manager_policy {
        Some(MemoryManagerPolicy::BestEffort) => {
            add("memoryManagerPolicy", "policy \"BestEffort\" is not available on Linux; use None or Static");
        }
        Some(MemoryManagerPolicy::None | MemoryManagerPolicy::Static) | None => {}
    }
    let has_cpu_options = kc.cpu_manager_policy_options.as_ref().is_some_and(|options| !options.is_empty());
    match kc.cpu_manager_policy {
        Some(CpuManagerPolicy::None) | None if has_cpu_options => {
            add(
                "cpuManagerPolicyOptions",
                "the policy \"none\" has no options; set cpuManagerPolicy: static",
            );
        }
        Some(CpuManagerPolicy::None | CpuManagerPolicy::Static) | None => {}
    }
    for (index, reservation) in kc.reserved_memory.iter().flatten().enumerate() {
        if reservation.numa_node.is_some_and(i32::is_negative) {
            add(&format!("reservedMemory[{index}].numaNode"), "must not be negative");
        }
    }
    breaches
}
