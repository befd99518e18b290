//! CPUs that are being collected for one container, group by group: which groups are free, in which order they are considered. The smallest
//! rest first, so that large groups stay whole; among equals by number. As upstream's `cpuAccumulator`, except that a CPU which is not
//! available is never taken: where cores differ in size upstream takes whole cores of which somebody else has a part.

use std::collections::BTreeSet;

use super::combinations::Distinct;
use crate::machine::{CpuSet, Level, Machine};

/// The collection.
pub(super) struct Accumulator<'m> {
    machine: &'m Machine,
    available: CpuSet,
    taken: CpuSet,
    needed: usize,
}

impl<'m> Accumulator<'m> {
    pub(super) fn new(machine: &'m Machine, available: &CpuSet, needed: usize) -> Self {
        Self { machine, available: available.clone(), taken: CpuSet::new(), needed }
    }

    pub(super) fn needed(&self) -> usize {
        self.needed
    }

    pub(super) fn available(&self) -> &CpuSet {
        &self.available
    }

    pub(super) fn taken(&self) -> &CpuSet {
        &self.taken
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.needed == 0
    }

    /// Whether there are too few CPUs.
    pub(super) fn is_failed(&self) -> bool {
        self.needed > self.available.len()
    }

    /// Takes CPUs if all of them are available and needed.
    pub(super) fn take(&mut self, cpus: &CpuSet) {
        if cpus.len() <= self.needed && cpus.is_subset(&self.available) {
            self.available = self.available.difference(cpus);
            self.taken = self.taken.union(cpus);
            self.needed -= cpus.len();
        }
    }

    /// Takes every free group of a level that is needed as a whole.
    pub(super) fn take_groups(&mut self, level: Level) {
        for id in self.free_groups(level) {
            self.take(&self.machine.group(level, id));
        }
    }

    /// Takes single CPUs until there are enough.
    pub(super) fn take_cpus(&mut self, groups: Level) {
        for id in self.sorted(groups) {
            for cpu in self.available_in(groups, id).iter() {
                if self.is_satisfied() {
                    return;
                }
                self.take(&CpuSet::from_iter([cpu]));
            }
        }
    }

    /// The available CPUs of a group.
    pub(super) fn available_in(&self, level: Level, id: u32) -> CpuSet {
        self.machine.within(&self.available, level, &BTreeSet::from([id]))
    }

    /// Which of the two larger levels contains the other.
    pub(super) fn levels(&self) -> [Level; 2] {
        if self.machine.sockets().len() >= self.machine.nodes_with_cpus().len() {
            [Level::Node, Level::Socket]
        } else {
            [Level::Socket, Level::Node]
        }
    }

    /// All groups of a level that have available CPUs: those of one larger group after those of another.
    pub(super) fn sorted(&self, level: Level) -> Vec<u32> {
        let [first, second] = self.levels();
        let parent = match level {
            Level::Cache => Some(Level::Node),
            Level::Core => Some(second),
            level if level == second => Some(first),
            Level::Node | Level::Socket => None,
        };
        let counts = self.machine.count(&self.available, level);
        let sort = |ids: BTreeSet<u32>| {
            let mut ids: Vec<u32> = ids.into_iter().collect();
            ids.sort_by_key(|id| (counts[id], *id));
            ids
        };
        let Some(parent) = parent else { return sort(counts.keys().copied().collect()) };
        let members = |id: u32| -> BTreeSet<u32> {
            let places = self.available.iter().filter_map(|cpu| self.machine.cpus.get(&cpu));
            places.filter(|place| parent.of(place) == id).map(|place| level.of(place)).collect()
        };
        self.sorted(parent).into_iter().flat_map(|id| sort(members(id))).distinct()
    }

    /// The groups of which every CPU is available, by upstream's measure: a socket and a core by the mean size, the others by their own.
    fn free_groups(&self, level: Level) -> Vec<u32> {
        let available = self.machine.count(&self.available, level);
        let all = self.machine.count(&self.machine.all_cpus(), level);
        let is_free = |id: &u32| match level {
            Level::Socket => available[id] == self.machine.cpus_per_socket(),
            Level::Core => available[id] == self.machine.cpus_per_core(),
            Level::Node | Level::Cache => available[id] == all[id],
        };
        self.sorted(level).into_iter().filter(is_free).collect()
    }
}
