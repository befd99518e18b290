//! The node as its configuration and its machine define it: the value that its status reports and that admission checks
//! against. Computed by `cluster::node`.

use std::collections::BTreeMap;

use crate::ResourceList;

/// The properties of the node that need no API server.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnNode {
    /// The labels it registers with.
    pub labels: BTreeMap<String, String>,
    /// What pods can request together: the capacity without reservations (`status.allocatable`).
    pub allocatable: ResourceList,
    /// The limit of all pods together: cores, memory, processes.
    pub unreserved: ResourceList,
}
