//! The resources that a configuration withholds from pods: `cluster::node` subtracts them from the capacity, and they may be the limits
//! of the daemons' own cgroups.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::Thresholds;
use crate::{Quantity, ResourceList};

/// The machine's resources that are not allocatable to pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved {
    /// Reservations for Kubernetes and system daemons, by resource (`kubeReserved`, `systemReserved`).
    pub resources: BTreeMap<String, Vec<Quantity>>,
    /// The CPUs that are reserved by number, which replaces CPU reservations (`reservedSystemCPUs`).
    pub system_cpus: Option<BTreeSet<u32>>,
    /// Hard eviction thresholds (`evictionHard`), of which a part of the signals' resources is kept.
    pub eviction_hard: Thresholds,
}

/// The daemons of the host for which resources are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemons {
    /// Those of the system (`systemReserved`).
    System,
    /// Those of Kubernetes (`kubeReserved`).
    Kube,
}

/// A reservation that is the limit of a cgroup (`enforceNodeAllocatable`).
#[derive(Clone, Debug, PartialEq)]
pub struct EnforcedReservation {
    /// Whose.
    pub daemons: Daemons,
    /// Whether only its CPU is enforced (`system-reserved-compressible`, `kube-reserved-compressible`).
    pub is_compressible: bool,
    /// The cgroup as configured, which must exist (`systemReservedCgroup`, `kubeReservedCgroup`).
    pub cgroup: String,
    /// What is reserved.
    pub resources: ResourceList,
}

impl EnforcedReservation {
    /// Its value in `enforceNodeAllocatable`.
    pub fn word(&self) -> &'static str {
        match (self.daemons, self.is_compressible) {
            (Daemons::System, false) => "system-reserved",
            (Daemons::System, true) => "system-reserved-compressible",
            (Daemons::Kube, false) => "kube-reserved",
            (Daemons::Kube, true) => "kube-reserved-compressible",
        }
    }
}
