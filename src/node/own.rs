//! Computes the node as its configuration and its machine define it. Does no I/O.

use super::NodeSettings;
use super::register::labels;
use super::status::{allocatable, capacity, unreserved};
use crate::sys::Machine;
use crate::types::node::OwnNode;

/// The node on this machine.
pub fn own_node(settings: &NodeSettings, machine: &Machine) -> OwnNode {
    OwnNode {
        labels: labels(settings),
        allocatable: allocatable(&capacity(settings, machine), &settings.node.reserved),
        unreserved: unreserved(settings, machine),
    }
}
