//! The node as its configuration and its machine define it: the value that its status reports and that admission checks
//! against. Computed by `cluster::node`.

use std::collections::BTreeMap;

use crate::ResourceList;

/// The properties of the node that need no API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnNode {
    /// The labels it registers with.
    pub labels: BTreeMap<String, String>,
    /// What pods can request together: the capacity without reservations (`status.allocatable`).
    pub allocatable: ResourceList,
    /// All that the machine has for processes: cores, memory, processes.
    pub machine: ResourceList,
    /// The same without reservations: the limit of all pods together, if that is enforced.
    pub unreserved: ResourceList,
    /// The online CPUs as a list, e.g. `0-3`; empty if unknown.
    pub cpus: String,
}
