//! `capacity`: what the machine has. Resources that others tell of it (extended resources) stay.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeStatus;
use k8s_openapi::apimachinery::pkg::api::resource;

use crate::node::Settings;
use crate::sys::Machine;
use crate::types::Quantity;

/// Resources by name, as the API has them.
pub(super) type Resources = BTreeMap<String, resource::Quantity>;

/// How the names of huge pages begin; the size follows.
pub(super) const HUGE_PAGES: &str = "hugepages-";

pub(super) fn set(status: &mut NodeStatus, settings: &Settings, machine: &Machine) {
    let capacity = status.capacity.get_or_insert_default();
    // Page sizes and storage that there are no more.
    capacity.retain(|name, _| !name.starts_with(HUGE_PAGES) && name != "ephemeral-storage");
    capacity.extend(own(settings, machine).map(|(name, amount)| (name, written(amount))));
}

/// What the machine has, by resource.
fn own(settings: &Settings, machine: &Machine) -> impl Iterator<Item = (String, Quantity)> {
    // In plain bytes since 1.37, unlike memory.
    let storage = settings.node.local_storage_isolation.then(|| Quantity::count(machine.filesystem));
    let fixed = [
        ("cpu", Some(whole(machine.cpus))),
        ("memory", Some(Quantity::bytes(machine.memory))),
        ("ephemeral-storage", storage),
        ("pods", Some(whole(settings.max_pods))),
    ];
    let fixed = fixed.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?)));
    let huge = machine.huge_pages.iter();
    fixed.chain(
        huge.map(|(size, bytes)| {
            (format!("{HUGE_PAGES}{}", Quantity::bytes(*size)), Quantity::bytes(*bytes))
        }),
    )
}

/// So many of something.
pub(super) fn whole(count: usize) -> Quantity {
    Quantity::milli(u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(1000))
}

/// As the API has it.
pub(super) fn written(amount: Quantity) -> resource::Quantity {
    resource::Quantity(amount.to_string())
}
