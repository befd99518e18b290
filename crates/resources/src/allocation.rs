//! What a pod was granted. Does not decide whether it is.

use k8s_openapi::api::core::v1::Pod;

use hostlet_base::resources::PODS;
use hostlet_base::{Quantity, ResourceList};
use hostlet_pod::resources::requested_resources;

use super::claimed::without_claimed;

/// What a pod was granted of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Its requests, and one of the node's `pods`.
    pub resources: ResourceList,
}

impl Allocation {
    /// The allocation of a pod that is admitted as it is: what it requests of the node.
    pub fn of(pod: &Pod) -> Self {
        let mut resources = requested_resources(&without_claimed(pod));
        resources.set(PODS, Quantity::count(1));
        Self { resources }
    }

    /// What these pods were granted together.
    pub fn sum(pods: &[AllocatedPod<'_>]) -> ResourceList {
        let granted = pods.iter().map(|pod| pod.allocation.resources.clone());
        granted.fold(ResourceList::default(), ResourceList::plus)
    }
}

/// An admitted pod that has not terminated.
#[derive(Clone, Copy, Debug)]
pub struct AllocatedPod<'a> {
    /// The pod as its source wants it, whose requests may differ from the allocation.
    pub pod: &'a Pod,
    /// What it was granted.
    pub allocation: &'a Allocation,
}
