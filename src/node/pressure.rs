//! What the node is short of. Whoever watches over it publishes a set of these; the Node's conditions and admission go by it.

use std::collections::BTreeSet;

/// Something the node runs out of (Kubernetes docs, "Node-pressure Eviction", node conditions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Memory.
    Memory,
    /// Space or inodes on one of its filesystems.
    Disk,
    /// Process identifiers.
    Pid,
}

/// All that the node is short of; empty while nothing is.
pub type Pressures = BTreeSet<Pressure>;

impl Pressure {
    /// Every one, in the order of the conditions.
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
