//! `allocatable`: the capacity without reservations and hard eviction thresholds
//! (<https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/>).

use hostlet_base::resources::{CPU, HUGE_PAGES, MEMORY, PID};
use hostlet_base::settings::Reserved;
use hostlet_base::{Quantity, ResourceList, cpu_list};
use hostlet_host::Machine;

use super::capacity::{capacity, whole};
use crate::node::NodeSettings;

/// The machine's capacity without reservations: the limit of all pods together for cores, memory and processes. Eviction
/// thresholds are not subtracted.
pub(in crate::node) fn unreserved(settings: &NodeSettings, machine: &Machine) -> ResourceList {
    let left = limited_together(machine).into_iter().map(|(name, whole)| {
        let left = reservations(name, &settings.node.reserved).into_iter().fold(whole, Quantity::less);
        (name, left)
    });
    left.collect()
}

/// The first resource whose reservations, with hard eviction thresholds, exceed the machine's capacity, as upstream checks it. For memory
/// and processes, reserving all of it is an error as well: pods limited to nothing would be killed.
pub fn overdrawn(settings: &NodeSettings, machine: &Machine) -> Option<String> {
    let reserved = &settings.node.reserved;
    let sum = |amounts: Vec<Quantity>| amounts.into_iter().fold(Quantity::bytes(0), Quantity::plus);
    let is_overdrawn = |(name, whole): &(&str, Quantity)| {
        let reserved = sum(reservations(name, reserved));
        reserved > *whole || (reserved == *whole && *name != CPU)
    };
    let together = limited_together(machine).into_iter().find(is_overdrawn).map(|(name, _)| name.to_owned());
    let withheld = |(name, whole): &(&str, Quantity)| sum(withheld(name, *whole, reserved)) > *whole;
    together.or_else(|| {
        let capacity = capacity(settings, machine);
        capacity.iter().find(withheld).map(|(name, _)| name.to_owned())
    })
}

/// The CPUs in `reservedSystemCPUs` that are not online, which upstream does not accept.
pub fn absent_cpus(settings: &NodeSettings, machine: &Machine) -> Vec<u32> {
    // Without the kernel's list none counts as absent.
    let Ok(online) = cpu_list(&machine.cpu_list) else { return Vec::new() };
    let reserved = settings.node.reserved.system_cpus.iter().flatten();
    reserved.filter(|cpu| !online.contains(cpu)).copied().collect()
}

/// The machine's capacity of the resources for which all pods together are limited.
pub(in crate::node) fn limited_together(machine: &Machine) -> [(&'static str, Quantity); 3] {
    [
        (CPU, whole(machine.cpus)),
        (MEMORY, Quantity::bytes(machine.memory)),
        (PID, Quantity::count(machine.pids)),
    ]
}

/// The allocatable part of this capacity.
pub(in crate::node) fn allocatable(capacity: &ResourceList, reserved: &Reserved) -> ResourceList {
    let left = |(name, whole): (&str, Quantity)| {
        let left = withheld(name, whole, reserved).into_iter().fold(whole, Quantity::less);
        (name.to_owned(), left)
    };
    let mut allocatable: ResourceList = capacity.iter().map(left).collect();
    // Huge pages are taken from memory.
    if let Some(memory) = allocatable.get(MEMORY) {
        let huge = capacity.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES));
        allocatable.set(MEMORY, huge.map(|(_, amount)| amount).fold(memory, Quantity::less));
    }
    allocatable
}

/// The reservations of a resource.
fn reservations(name: &str, reserved: &Reserved) -> Vec<Quantity> {
    match (name, &reserved.system_cpus) {
        (CPU, Some(cpus)) => vec![whole(cpus.len())],
        _ => reserved.resources.get(name).cloned().unwrap_or_default(),
    }
}

/// What is subtracted from `whole`: the reservations, and the hard eviction thresholds of its signals.
fn withheld(name: &str, whole: Quantity, reserved: &Reserved) -> Vec<Quantity> {
    let mut withheld = reservations(name, reserved);
    let of_this = reserved.eviction_hard.iter().filter(|(signal, _)| signal.resource() == Some(name));
    withheld.extend(of_this.map(|(_, threshold)| threshold.of(whole)));
    withheld
}
