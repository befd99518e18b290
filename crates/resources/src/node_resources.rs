//! The node's own resources, which are counted: CPU, memory, storage, huge pages, the number of pods, and whatever else its status
//! lists. In upstream's order and words. Pure.

use hostlet_base::ResourceList;
use hostlet_base::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended};
use k8s_openapi::api::core::v1::Pod;

use super::{Admission, AllocatedPod, Allocation, Allocator, Shortage};

/// The resources that are checked first, in this order; all others follow by name. The first shortage is the reason for
/// rejection.
const FIRST_CHECKED: [&str; 4] = [PODS, CPU, MEMORY, EPHEMERAL_STORAGE];

/// The node's allocatable resources. A resource that is not listed does not exist here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeResources {
    allocatable: ResourceList,
}

impl NodeResources {
    /// Grants pods these amounts together.
    pub fn new(allocatable: ResourceList) -> Self {
        Self { allocatable }
    }

    /// Whether requests for this resource are checked against the allocatable amount. An extended resource that the node does
    /// not list belongs to the cluster (a license, a DRA device) and is the scheduler's concern (upstream
    /// `removeMissingExtendedResources`). Of ephemeral storage there is none where local storage is not isolated.
    fn counts(&self, resource: &str) -> bool {
        !is_extended(resource) || self.allocatable.contains(resource)
    }

    fn shortages(&self, needed: &Allocation, allocated: &[AllocatedPod<'_>]) -> Vec<Shortage> {
        let requested = needed.resources.clone().only(|resource| self.counts(resource));
        let used = Allocation::sum(allocated);
        let shortage = |resource: &str| {
            let (requested, used) = (requested.units(resource), used.units(resource));
            let capacity = self.allocatable.units(resource);
            let is_short = requested > 0 && requested > capacity.saturating_sub(used);
            is_short.then(|| Shortage { resource: resource.to_owned(), requested, used, capacity })
        };
        let first = FIRST_CHECKED.into_iter().filter(|resource| requested.contains(resource));
        let rest = requested.iter().map(|(resource, _)| resource);
        let rest = rest.filter(|resource| !FIRST_CHECKED.contains(resource));
        first.chain(rest).filter_map(shortage).collect()
    }
}

impl Allocator for NodeResources {
    fn capacity(&self) -> ResourceList {
        self.allocatable.clone()
    }

    fn admit(&self, pod: &Pod, allocated: &[AllocatedPod<'_>]) -> Admission {
        let needed = Allocation::of(pod);
        let shortages = self.shortages(&needed, allocated);
        let Some(first) = shortages.first() else { return Admission::Granted(needed) };
        if shortages.iter().any(Shortage::is_permanent) {
            // Not the permanent one: upstream reports what it finds first.
            return Admission::Rejected(first.rejection());
        }
        Admission::NotYet(shortages)
    }
}

#[cfg(test)]
#[path = "node_resources_tests.rs"]
mod tests;
