//! The resources that a configuration withholds from pods. `cluster::node` subtracts them from the capacity.

use std::collections::BTreeMap;

use crate::Quantity;

/// The machine's resources that are not allocatable to pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved {
    /// Reservations for Kubernetes and system daemons, by resource (`kubeReserved`, `systemReserved`).
    pub resources: BTreeMap<String, Vec<Quantity>>,
    /// How many CPUs are reserved by number, which replaces CPU reservations (`reservedSystemCPUs`).
    pub system_cpus: Option<usize>,
    /// Hard eviction threshold of memory (`evictionHard`, `memory.available`).
    pub eviction_memory: Option<Threshold>,
    /// Hard eviction threshold of the filesystem with the daemon's directory (`evictionHard`, `nodefs.available`).
    pub eviction_storage: Option<Threshold>,
}

/// An eviction threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// An absolute amount.
    Amount(Quantity),
    /// A fraction of the capacity, above 0 and below 1. Single precision, as upstream, which affects the result.
    Part(f32),
}
