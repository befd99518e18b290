//! Groups of CPUs that are close to each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{CpuPlace, CpuSet, Machine};

/// A level of the machine at which CPUs share something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Node,
    Socket,
    Cache,
    Core,
}

impl Level {
    /// The group of this level that a CPU is in.
    pub(crate) fn of(self, place: &CpuPlace) -> u32 {
        match self {
            Self::Node => place.node,
            Self::Socket => place.socket,
            Self::Cache => place.cache,
            Self::Core => place.core,
        }
    }
}

impl Machine {
    /// All CPUs of one group.
    pub(crate) fn group(&self, level: Level, id: u32) -> CpuSet {
        self.cpus.iter().filter(|(_, place)| level.of(place) == id).map(|(cpu, _)| *cpu).collect()
    }

    /// The CPUs of a set that are in one of these groups. CPUs that the machine does not have are in none.
    pub(crate) fn within(&self, cpus: &CpuSet, level: Level, ids: &BTreeSet<u32>) -> CpuSet {
        let is_within = |cpu: &u32| self.cpus.get(cpu).is_some_and(|place| ids.contains(&level.of(place)));
        cpus.iter().filter(is_within).collect()
    }

    /// How many CPUs of a set each group has; groups without one are not listed.
    pub(crate) fn count(&self, cpus: &CpuSet, level: Level) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for place in cpus.iter().filter_map(|cpu| self.cpus.get(&cpu)) {
            *counts.entry(level.of(place)).or_default() += 1;
        }
        counts
    }
}
