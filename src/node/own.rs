//! The node as it knows itself before anybody has told it more, and alone on a host. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeStatus;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Settings;
use super::register::labels;
use super::status::{Unreserved, resources};
use crate::sys::Machine;

/// The node by its own account.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnNode {
    /// The labels it is made with.
    pub labels: BTreeMap<String, String>,
    /// What pods can have of it, by resource.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What pods are to be held to together.
    pub unreserved: Unreserved,
}

impl OwnNode {
    /// The node on this machine.
    pub fn new(settings: &Settings, machine: &Machine) -> Self {
        let mut status = NodeStatus::default();
        resources(&mut status, settings, machine);
        Self {
            labels: labels(settings),
            allocatable: status.allocatable.unwrap_or_default(),
            unreserved: Unreserved::of(settings, machine),
        }
    }
}
