//! The node as pods are judged by it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::types::Quantity;

/// What of the node bears on which pods it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods can have of it.
    pub allocatable: Allocatable,
}

/// What pods can have of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes; none if nobody counts them.
    pub ephemeral_storage: Option<i64>,
    /// How many pods.
    pub pods: i64,
}

impl Allocatable {
    /// As a node's status has it. A resource that is not listed is not there.
    pub fn of(list: &BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>) -> Self {
        let quantity = |name: &str| Quantity::parse(&list.get(name)?.0).ok();
        Self {
            milli_cpu: quantity("cpu").map_or(0, |cpu| cpu.milli_value()),
            memory: quantity("memory").map_or(0, |memory| memory.value()),
            ephemeral_storage: quantity("ephemeral-storage").map(|storage| storage.value()),
            pods: quantity("pods").map_or(0, |pods| pods.value()),
        }
    }
}

impl NodeView {
    /// The same with the labels and taints that the API server shows of it.
    pub fn shown(&self, node: &Node) -> Self {
        Self {
            name: self.name.clone(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            allocatable: self.allocatable,
        }
    }
}
