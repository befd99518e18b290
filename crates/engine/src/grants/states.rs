//! The values that admission and the grants task exchange. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hostlet_base::{PodUid, QosClass};
use hostlet_pod::Rejection;
use hostlet_pod::resources::qos_class;
use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::Pod;

/// The new pods that are granted something exclusive before they are admitted, in the order in which that happens.
pub(crate) type GrantRequests = Vec<Arc<Pod>>;

/// What became of the requests that were looked at, by pod.
pub(crate) type GrantStates = BTreeMap<PodUid, GrantState>;

/// What became of the request of one pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GrantState {
    /// All of its containers have what they need.
    Granted,
    /// It is not decided until what it needs is there. The reason is a clause for people.
    NotYet(String),
    /// It is never granted what it needs.
    Rejected(Rejection),
}

/// What is granted exclusively on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExclusiveResources {
    /// The resources of device plugins, also of those that are away.
    pub devices: BTreeSet<String>,
    /// Whether pods of the class Guaranteed are given CPUs or memory of NUMA nodes.
    pub numa: bool,
}

impl ExclusiveResources {
    /// Whether the pod is granted some of them.
    pub(crate) fn are_requested_by(&self, pod: &Pod) -> bool {
        if self.numa && qos_class(pod) == QosClass::Guaranteed {
            return true;
        }
        let spec = PodView::from(pod).spec;
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let mut limits = containers.filter_map(|container| container.resources.as_ref()?.limits.as_ref());
        limits.any(|limits| limits.keys().any(|resource| self.devices.contains(resource)))
    }
}
