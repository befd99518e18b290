//! `allocatable`: what pods can have, which is what the machine has without what is kept from them
//! (<https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/>).

use k8s_openapi::api::core::v1::NodeStatus;

use super::capacity::{HUGE_PAGES, Resources, whole, written};
use crate::config::{Reserved, Threshold};
use crate::node::Settings;
use crate::sys::Machine;
use crate::types::Quantity;

/// What of the machine is not reserved: what all pods together may use. Eviction keeps free what it keeps by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unreserved {
    /// Cores.
    pub cpu: Quantity,
    /// Bytes of memory.
    pub memory: Quantity,
    /// Processes and threads.
    pub pids: Quantity,
}

impl Unreserved {
    /// Of this machine.
    pub(in crate::node) fn of(settings: &Settings, machine: &Machine) -> Self {
        let [cpu, memory, pids] = amounts(machine).map(|(name, whole)| {
            reservations(name, &settings.node.reserved).into_iter().fold(whole, Quantity::less)
        });
        Self { cpu, memory, pids }
    }
}

/// The first resource that is reserved so far that no node can be made of this machine, by its name among the reservations:
/// above what there is, as upstream has it. Of memory and processes all there is is too much as well: pods held to none end.
pub fn overdrawn(settings: &Settings, machine: &Machine) -> Option<&'static str> {
    let is_overdrawn = |(name, whole): &(&str, Quantity)| {
        let reserved = reservations(name, &settings.node.reserved);
        let reserved = reserved.into_iter().fold(Quantity::bytes(0), Quantity::plus);
        reserved > *whole || (reserved == *whole && *name != "cpu")
    };
    amounts(machine).into_iter().find(is_overdrawn).map(|(name, _)| name)
}

/// What the machine has of what pods are held to together.
fn amounts(machine: &Machine) -> [(&'static str, Quantity); 3] {
    [
        ("cpu", whole(machine.cpus)),
        ("memory", Quantity::bytes(machine.memory)),
        ("pid", Quantity::milli(machine.pids.saturating_mul(1000))),
    ]
}

/// Comes after the capacity is set.
pub(super) fn set(status: &mut NodeStatus, reserved: &Reserved) {
    let capacity = status.capacity.clone().unwrap_or_default();
    let mut allocatable: Resources =
        capacity.iter().map(|(name, amount)| (name.clone(), left(name, &amount.0, reserved))).collect();
    // Huge pages are memory that is no longer there for anything else.
    if let Some(memory) = allocatable.get("memory").and_then(|memory| Quantity::parse(&memory.0).ok()) {
        let huge = capacity.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES));
        let huge = huge.filter_map(|(_, amount)| Quantity::parse(&amount.0).ok());
        allocatable.insert("memory".to_owned(), written(huge.fold(memory, Quantity::less)));
    }
    status.allocatable = Some(allocatable);
}

/// What is left of a resource for pods.
fn left(
    name: &str,
    capacity: &str,
    reserved: &Reserved,
) -> k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    let Ok(whole) = Quantity::parse(capacity) else {
        // Somebody else's resource, in a notation of their own.
        return k8s_openapi::apimachinery::pkg::api::resource::Quantity(capacity.to_owned());
    };
    written(kept(name, whole, reserved).into_iter().fold(whole, Quantity::less))
}

/// What is reserved of a resource.
fn reservations(name: &str, reserved: &Reserved) -> Vec<Quantity> {
    match (name, reserved.system_cpus) {
        ("cpu", Some(cpus)) => {
            vec![Quantity::milli(u64::try_from(cpus).unwrap_or(u64::MAX).saturating_mul(1000))]
        }
        _ => reserved.resources.get(name).cloned().unwrap_or_default(),
    }
}

/// What is kept of a resource of which there is `whole`: what is reserved, and what eviction keeps free.
fn kept(name: &str, whole: Quantity, reserved: &Reserved) -> Vec<Quantity> {
    let mut kept = reservations(name, reserved);
    let threshold = match name {
        "memory" => reserved.eviction_memory,
        "ephemeral-storage" => reserved.eviction_storage,
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
