//! `capacity`: the machine's resources. Pure.

use hostlet_base::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, PODS};
use hostlet_base::{Quantity, ResourceList};
use hostlet_host::Machine;

use crate::node::NodeSettings;

/// The capacity of the node on this machine.
pub(in crate::node) fn capacity(settings: &NodeSettings, machine: &Machine) -> ResourceList {
    // In plain bytes since 1.37, unlike memory.
    let storage = settings.node.local_storage_isolation.then(|| Quantity::count(machine.filesystem));
    let fixed = [
        (CPU, Some(whole(machine.cpus))),
        (MEMORY, Some(Quantity::bytes(machine.memory))),
        (EPHEMERAL_STORAGE, storage),
        (PODS, Some(whole(settings.max_pods))),
    ];
    let fixed = fixed.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?)));
    let huge = machine.huge_pages.iter();
    let huge = huge
        .map(|(size, bytes)| (format!("{HUGE_PAGES}{}", Quantity::bytes(*size)), Quantity::bytes(*bytes)));
    fixed.chain(huge).collect()
}

/// Whether a resource is the machine's own: if [`capacity`] does not list it, it is removed from the Node.
pub(super) fn is_of_machine(resource: &str) -> bool {
    matches!(resource, CPU | MEMORY | EPHEMERAL_STORAGE | PODS) || resource.starts_with(HUGE_PAGES)
}

/// A count as a quantity.
pub(super) fn whole(count: usize) -> Quantity {
    Quantity::count(u64::try_from(count).unwrap_or(u64::MAX))
}
