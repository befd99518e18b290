//! Where each CPU is, and what each NUMA node has.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::CpuSet;

/// The place of a CPU, which is a hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlace {
    /// The NUMA node.
    pub node: u32,
    /// The socket, also called physical package.
    pub socket: u32,
    /// The core: its lowest CPU that is online, because the kernel's own numbers repeat in each socket.
    pub core: u32,
    /// The last-level cache that only some of a socket's cores share; the socket where there is none.
    pub cache: u32,
}

/// Memory of a NUMA node, and its distances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Bytes of memory, huge pages included.
    pub memory: u64,
    /// How many huge pages there are, by their size in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// The distance to each node of the machine, in the order of their numbers; empty if the kernel does not know them.
    pub distances: Vec<u64>,
}

/// A machine. Only CPUs that are online are part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Every CPU, by number.
    pub cpus: BTreeMap<u32, CpuPlace>,
    /// Every NUMA node, by number, also those without CPUs.
    pub nodes: BTreeMap<u32, NumaNode>,
}

impl Machine {
    /// All CPUs.
    pub fn all_cpus(&self) -> CpuSet {
        self.cpus.keys().copied().collect()
    }

    /// How many CPUs a core has: the mean, rounded down, as upstream counts (`CPUsPerCore`). Where cores differ it is that of no
    /// particular one.
    pub fn cpus_per_core(&self) -> usize {
        self.mean(|place| place.core)
    }

    /// How many CPUs a socket has, counted like [`cpus_per_core`](Self::cpus_per_core).
    pub(crate) fn cpus_per_socket(&self) -> usize {
        self.mean(|place| place.socket)
    }

    /// How many CPUs share a last-level cache, counted like [`cpus_per_core`](Self::cpus_per_core).
    pub(crate) fn cpus_per_cache(&self) -> usize {
        self.mean(|place| place.cache)
    }

    /// The NUMA nodes that have CPUs.
    pub(crate) fn nodes_with_cpus(&self) -> BTreeSet<u32> {
        self.distinct(|place| place.node)
    }

    /// The sockets.
    pub(crate) fn sockets(&self) -> BTreeSet<u32> {
        self.distinct(|place| place.socket)
    }

    fn mean(&self, part: impl Fn(&CpuPlace) -> u32) -> usize {
        self.cpus.len().checked_div(self.distinct(part).len()).unwrap_or_default()
    }

    fn distinct(&self, part: impl Fn(&CpuPlace) -> u32) -> BTreeSet<u32> {
        self.cpus.values().map(part).collect()
    }
}
