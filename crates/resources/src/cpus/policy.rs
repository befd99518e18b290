//! The static policy on a machine: what never changes while the daemon runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::distributed::{Distribution, take_distributed};
use super::options::CpuOptions;
use super::packed::{Packing, take_packed};
use crate::error::GrantError;
use crate::machine::{CpuSet, Level, Machine};
use crate::topology::TopologyPolicy;

/// Why the policy cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuPolicyError {
    /// Nothing is reserved, so that containers could take all CPUs.
    #[error(
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    )]
    NothingReserved,
    /// The machine has fewer CPUs than are reserved, or others.
    #[error(
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of {cpus} did not equal {number})"
    )]
    NotReserved {
        /// The CPUs that can be reserved.
        cpus: CpuSet,
        /// How many are to be reserved.
        number: usize,
    },
    /// The machine does not have a CPU that is to be reserved.
    #[error(
        "new static policy error: [cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: {0}"
    )]
    UnknownCpu(u32),
    /// Sockets and single NUMA nodes contradict each other.
    #[error(
        "new static policy error: Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
    )]
    SocketOfOneNode,
    /// Sockets are smaller than NUMA nodes.
    #[error(
        "new static policy error: Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    )]
    SmallSockets,
}

/// CPUs that no container has for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuReservation {
    /// Thousandths of a CPU that are reserved for the system and its daemons.
    pub milli: i64,
    /// Which CPUs these are (`reservedSystemCPUs`); empty to choose them.
    pub cpus: CpuSet,
}

/// The static policy on a machine.
#[derive(Clone, Debug)]
pub struct StaticCpus {
    pub(super) machine: Arc<Machine>,
    pub(super) options: CpuOptions,
    pub(super) reserved: CpuSet,
    /// The CPUs of cores of which a CPU is reserved.
    pub(super) reserved_cores: CpuSet,
    /// Feature gate `PodLevelResourceManagers`: whether pods with resources of their own have CPUs for themselves.
    pub(super) pod_level: bool,
}

impl StaticCpus {
    /// Prepares the policy for a machine.
    pub fn new(
        machine: Arc<Machine>,
        options: CpuOptions,
        reservation: &CpuReservation,
        topology: TopologyPolicy,
        pod_level: bool,
    ) -> Result<Self, CpuPolicyError> {
        let number = usize::try_from(reservation.milli).unwrap_or_default().div_ceil(1000);
        if number == 0 {
            return Err(CpuPolicyError::NothingReserved);
        }
        if options.align_by_socket {
            if topology == TopologyPolicy::SingleNumaNode {
                return Err(CpuPolicyError::SocketOfOneNode);
            }
            if machine.sockets().len() > machine.nodes_with_cpus().len() {
                return Err(CpuPolicyError::SmallSockets);
            }
        }
        let none = CpuSet::new();
        let mut policy = Self { machine, options, reserved: none.clone(), reserved_cores: none, pod_level };
        policy.reserved = if reservation.cpus.is_empty() {
            policy.take(&policy.machine.all_cpus(), number).unwrap_or_default()
        } else {
            reservation.cpus.clone()
        };
        if policy.reserved.len() != number {
            return Err(CpuPolicyError::NotReserved { cpus: policy.reserved, number });
        }
        let core = |cpu| {
            policy.machine.cpus.get(&cpu).map(|place| place.core).ok_or(CpuPolicyError::UnknownCpu(cpu))
        };
        let cores = policy.reserved.iter().map(core).collect::<Result<BTreeSet<u32>, _>>()?;
        policy.reserved_cores = policy.machine.within(&policy.machine.all_cpus(), Level::Core, &cores);
        Ok(policy)
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether no two containers share a core (`full-pcpus-only`).
    pub fn aligns_cores(&self) -> bool {
        self.options.full_pcpus_only
    }

    /// The CPUs that no container has for itself.
    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// The CPUs that containers can have for themselves, or share.
    pub(super) fn usable(&self) -> CpuSet {
        let all = self.machine.all_cpus();
        if self.options.strict_reservation { all.difference(&self.reserved) } else { all }
    }

    /// Takes this many of the available CPUs, by the options.
    pub(super) fn take(&self, available: &CpuSet, number: usize) -> Result<CpuSet, GrantError> {
        let options = self.options;
        let packing =
            Packing { spread: options.distribute_across_cores, by_cache: options.prefer_align_by_cache };
        if !options.distribute_across_numa {
            return take_packed(&self.machine, available, number, packing);
        }
        let group = if options.full_pcpus_only { self.machine.cpus_per_core().max(1) } else { 1 };
        let how = Distribution { group, by_socket: options.align_by_socket, packing };
        take_distributed(&self.machine, available, number, how)
    }

    /// Whether only whole cores are allocated, as the options may want, if this many CPUs are. `shared` are the free ones.
    pub(super) fn check_cores(&self, shared: &CpuSet, requested: usize) -> Result<(), GrantError> {
        let per_core = self.machine.cpus_per_core();
        if !self.options.full_pcpus_only || per_core == 0 {
            return Ok(());
        }
        if !requested.is_multiple_of(per_core) {
            return Err(GrantError::PartOfCore { requested, per_core });
        }
        // A core of which one CPU is reserved cannot be allocated as a whole.
        let available = shared.difference(&self.reserved_cores).len();
        if requested > available {
            return Err(GrantError::NotEnoughCores { requested, per_core, available });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
