//! CPUs as close to each other as possible: whole NUMA nodes and sockets, caches, cores, then single CPUs (upstream
//! `takeByTopologyNUMAPacked`).

use super::accumulator::Accumulator;
use crate::error::GrantError;
use crate::machine::{CpuSet, Level, Machine};

/// How CPUs are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// On different cores, if there are enough.
    pub(super) spread: bool,
    /// Within one last-level cache, if one has enough.
    pub(super) by_cache: bool,
}

/// Takes this many of the available CPUs.
pub(super) fn take_packed(
    machine: &Machine,
    available: &CpuSet,
    number: usize,
    packing: Packing,
) -> Result<CpuSet, GrantError> {
    let mut cpus = Accumulator::new(machine, available, number);
    if cpus.is_failed() {
        return Err(GrantError::NotEnoughCpus { requested: number, available: available.len() });
    }
    // A step that needs nothing any more takes nothing.
    for level in cpus.levels() {
        cpus.take_groups(level);
    }
    if packing.by_cache {
        take_caches(machine, &mut cpus);
    }
    if packing.spread {
        cpus.take_cpus(Level::Socket);
    } else {
        cpus.take_groups(Level::Core);
        cpus.take_cpus(Level::Core);
    }
    if cpus.is_satisfied() { Ok(cpus.taken().clone()) } else { Err(GrantError::NoCpus) }
}

/// Takes whole caches, and the rest from the first cache in which it fits.
fn take_caches(machine: &Machine, cpus: &mut Accumulator<'_>) {
    for cache in cpus.sorted(Level::Cache) {
        if cpus.is_satisfied() {
            return;
        }
        if cpus.needed() >= machine.cpus_per_cache() {
            cpus.take_groups(Level::Cache);
        }
        if !cpus.is_satisfied() {
            take_part_of_cache(machine, cpus, cache);
        }
    }
}

fn take_part_of_cache(machine: &Machine, cpus: &mut Accumulator<'_>, cache: u32) {
    let per_core = machine.cpus_per_core();
    let cores = machine.count(&cpus.available_in(Level::Cache, cache), Level::Core);
    let cores = cores.into_keys().take(cpus.needed().div_ceil(per_core)).collect();
    let mut part = machine.within(cpus.available(), Level::Core, &cores);
    if !cpus.needed().is_multiple_of(2) && per_core > 1 && part.len() > cpus.needed() {
        part = part.iter().take(part.len() - 1).collect();
    }
    if part.len() == cpus.needed() {
        cpus.take(&part);
    }
}
