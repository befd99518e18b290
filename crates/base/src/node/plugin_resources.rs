//! The resources of the node that device plugins offer. A value only.

use std::collections::BTreeSet;

use crate::ResourceList;

/// What device plugins offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginResources {
    /// The number of devices of each resource.
    pub capacity: ResourceList,
    /// The number of devices that can be used now.
    pub allocatable: ResourceList,
    /// The resources that are no longer offered. The node has none of them, which differs from a resource that it never had.
    pub removed: BTreeSet<String>,
}
