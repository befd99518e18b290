//! Computes the node as its configuration and its machine define it. Does no I/O.

use hostlet_base::node::OwnNode;
use hostlet_host::Machine;

use super::NodeSettings;
use super::register::labels;
use super::status::{allocatable, capacity, limited_together, unreserved};

/// What this machine offers pods: the labels and allocatable resources that the Node will have.
pub fn own_node(settings: &NodeSettings, machine: &Machine) -> OwnNode {
    OwnNode {
        labels: labels(settings),
        allocatable: allocatable(&capacity(settings, machine), &settings.node.reserved),
        machine: limited_together(machine).into_iter().collect(),
        unreserved: unreserved(settings, machine),
        cpus: machine.cpu_list.clone(),
    }
}
