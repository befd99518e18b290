//! The properties of the node that admission checks. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};

use hostlet_base::ResourceList;
use hostlet_base::node::Pressures;
use hostlet_base::resources::is_extended;
use hostlet_resources::{Allocator, NodeResources};

use crate::grants::ExclusiveResources;

/// The properties of the node that admission checks a pod against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// The node's name, for node affinity by `metadata.name`.
    pub name: String,
    /// Its labels, for node selectors and node affinity.
    pub labels: BTreeMap<String, String>,
    /// Its taints; only those with the effect `NoExecute` count.
    pub taints: Vec<Taint>,
    /// Its allocatable resources.
    pub resources: NodeResources,
    /// Its active pressure conditions.
    pub pressures: Pressures,
    /// Whether AppArmor is enabled.
    pub app_armor: bool,
    /// Whether there is no API server, and so no RuntimeClass.
    pub is_standalone: bool,
    /// Whether the runtime supports `supplementalGroupsPolicy: Strict`; `None` until it has responded.
    pub strict_groups: Option<bool>,
}

impl NodeView {
    /// This view without resources that are granted exclusively: the node has what was granted of them, whatever it advertises
    /// (upstream `sanitizeNodeAllocatable`).
    pub(super) fn without(self, exclusive: &ExclusiveResources) -> Self {
        let counted = self.resources.capacity().only(|resource| !exclusive.devices.contains(resource));
        Self { resources: NodeResources::new(counted), ..self }
    }

    /// This view with the labels and taints of the Node object, and with the extended resources advertised in its status
    /// (<https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/>).
    pub fn with_node(&self, node: &Node) -> Self {
        let status = node.status.as_ref();
        let advertised = ResourceList::read(status.and_then(|status| status.allocatable.as_ref()));
        Self {
            name: self.name.clone(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            resources: NodeResources::new(advertised.only(is_extended).overlaid(self.resources.capacity())),
            pressures: self.pressures.clone(),
            app_armor: self.app_armor,
            is_standalone: self.is_standalone,
            strict_groups: self.strict_groups,
        }
    }

    /// Those who grant pods what they need, in the order in which they are asked.
    pub(super) fn allocators(&self) -> [&dyn Allocator; 1] {
        [&self.resources]
    }
}
