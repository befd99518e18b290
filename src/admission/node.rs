//! The node as pods are judged by it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::node::Pressures;
use crate::types::ResourceList;
use crate::types::resources::{EPHEMERAL_STORAGE, is_extended};

/// What of the node bears on which pods it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods can have of it. A resource that is not listed is not there.
    pub allocatable: ResourceList,
    /// What it is short of.
    pub pressures: Pressures,
}

impl NodeView {
    /// The same with the labels and taints that the API server shows of it, and with the extended resources that others
    /// advertise there (<https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/>).
    pub fn shown(&self, node: &Node) -> Self {
        let status = node.status.as_ref();
        let advertised = ResourceList::read(status.and_then(|status| status.allocatable.as_ref()));
        Self {
            name: self.name.clone(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            allocatable: advertised.only(is_extended).overlaid(self.allocatable.clone()),
            pressures: self.pressures.clone(),
        }
    }

    /// Whether what pods request of a resource is held against what there is of it. An extended resource that the node does
    /// not list is the cluster's (a license, a device of DRA), and the scheduler has seen to it (upstream
    /// `removeMissingExtendedResources`); storage that is not isolated has no end.
    pub(super) fn counts(&self, resource: &str) -> bool {
        let may_be_missing = is_extended(resource) || resource == EPHEMERAL_STORAGE;
        !may_be_missing || self.allocatable.contains(resource)
    }
}
