//! Node pressure, which follows from the eviction signals. The Node's conditions report it, and admission heeds it.

use std::collections::BTreeSet;

/// A resource that the node runs out of (Kubernetes docs, "Node-pressure Eviction", node conditions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Available memory of the host.
    Memory,
    /// Space or inodes on one of its filesystems.
    Disk,
    /// Process identifiers.
    Pid,
}

/// The active pressures.
pub type Pressures = BTreeSet<Pressure>;

impl Pressure {
    /// All pressures, in the order of the conditions.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// The `type` of its condition.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        }
    }
}
