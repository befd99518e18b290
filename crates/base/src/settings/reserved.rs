//! The resources that a configuration withholds from pods. `cluster::node` subtracts them from the capacity.

use std::collections::BTreeMap;

use crate::Quantity;
use crate::node::Thresholds;

/// The machine's resources that are not allocatable to pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved {
    /// Reservations for Kubernetes and system daemons, by resource (`kubeReserved`, `systemReserved`).
    pub resources: BTreeMap<String, Vec<Quantity>>,
    /// How many CPUs are reserved by number, which replaces CPU reservations (`reservedSystemCPUs`).
    pub system_cpus: Option<usize>,
    /// Hard eviction thresholds (`evictionHard`), of which a part of the signals' resources is kept.
    pub eviction_hard: Thresholds,
}
