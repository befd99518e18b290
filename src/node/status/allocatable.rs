//! `allocatable`: what pods can have, which is what the machine has without what is kept from them
//! (<https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/>).

use super::capacity::whole;
use crate::config::{Reserved, Threshold};
use crate::node::Settings;
use crate::sys::Machine;
use crate::types::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, PID};
use crate::types::{Quantity, ResourceList};

/// What of the machine is not reserved: what all pods together may use, of cores, memory and processes. Eviction keeps
/// free what it keeps by itself.
pub(in crate::node) fn unreserved(settings: &Settings, machine: &Machine) -> ResourceList {
    let left = limited_together(machine).into_iter().map(|(name, whole)| {
        let left = reservations(name, &settings.node.reserved).into_iter().fold(whole, Quantity::less);
        (name, left)
    });
    left.collect()
}

/// The first resource that is reserved so far that no node can be made of this machine, by its name among the reservations:
/// above what there is, as upstream has it. Of memory and processes all there is is too much as well: pods limited to none
/// are killed.
pub fn overdrawn(settings: &Settings, machine: &Machine) -> Option<&'static str> {
    let is_overdrawn = |(name, whole): &(&str, Quantity)| {
        let reserved = reservations(name, &settings.node.reserved);
        let reserved = reserved.into_iter().fold(Quantity::bytes(0), Quantity::plus);
        reserved > *whole || (reserved == *whole && *name != CPU)
    };
    limited_together(machine).into_iter().find(is_overdrawn).map(|(name, _)| name)
}

/// What the machine has of what pods are limited to together.
fn limited_together(machine: &Machine) -> [(&'static str, Quantity); 3] {
    [
        (CPU, whole(machine.cpus)),
        (MEMORY, Quantity::bytes(machine.memory)),
        (PID, Quantity::count(machine.pids)),
    ]
}

/// What pods can have of this capacity.
pub(in crate::node) fn allocatable(capacity: &ResourceList, reserved: &Reserved) -> ResourceList {
    let left = |(name, whole): (&str, Quantity)| {
        let left = kept(name, whole, reserved).into_iter().fold(whole, Quantity::less);
        (name.to_owned(), left)
    };
    let mut allocatable: ResourceList = capacity.iter().map(left).collect();
    // Huge pages are memory that is no longer there for anything else.
    if let Some(memory) = allocatable.get(MEMORY) {
        let huge = capacity.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES));
        allocatable.set(MEMORY, huge.map(|(_, amount)| amount).fold(memory, Quantity::less));
    }
    allocatable
}

/// What is reserved of a resource.
fn reservations(name: &str, reserved: &Reserved) -> Vec<Quantity> {
    match (name, reserved.system_cpus) {
        (CPU, Some(cpus)) => vec![whole(cpus)],
        _ => reserved.resources.get(name).cloned().unwrap_or_default(),
    }
}

/// What is kept of a resource of which there is `whole`: what is reserved, and what eviction keeps free.
fn kept(name: &str, whole: Quantity, reserved: &Reserved) -> Vec<Quantity> {
    let mut kept = reservations(name, reserved);
    let threshold = match name {
        MEMORY => reserved.eviction_memory,
        EPHEMERAL_STORAGE => reserved.eviction_storage,
        _ => None,
    };
    kept.extend(threshold.map(|threshold| match threshold {
        Threshold::Amount(amount) => amount,
        Threshold::Part(part) => part_of(whole, part),
    }));
    kept
}

/// A part of an amount in whole units, cut off as upstream cuts it off.
fn part_of(whole: Quantity, part: f32) -> Quantity {
    #[expect(
        clippy::cast_precision_loss,
        reason = "upstream reckons so, and the result is compared with its"
    )]
    let bytes = whole.value() as f64 * f64::from(part);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a u64, at least 0"
    )]
    Quantity::bytes(bytes as u64)
}
