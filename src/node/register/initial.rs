//! The Node as it is made when there is none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::node::status::{beat, update};
use crate::node::{Facts, NodeEvent, Settings};
use crate::types::architecture;

/// Tells the attach-detach controller that volumes of this node are its business.
pub(super) const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Tells a cloud controller manager the addresses that were given to the node.
pub(super) const PROVIDED_IPS: &str = "alpha.kubernetes.io/provided-node-ip";

/// Keeps pods away until a cloud controller manager has seen the node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The Node with its first status, and what is worth an event about that.
pub(in crate::node) fn initial(settings: &Settings, facts: &Facts, now: Timestamp) -> (Node, Vec<NodeEvent>) {
    let mut status = NodeStatus::default();
    let events = update(&mut status, settings, facts, now);
    beat(&mut status, now);
    let annotations = annotations(settings);
    let taints = taints(settings);
    let node = Node {
        metadata: ObjectMeta {
            name: Some(settings.name.clone()),
            labels: Some(labels(settings)),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: settings.node.provider_id.clone(),
            taints: (!taints.is_empty()).then_some(taints),
            ..NodeSpec::default()
        }),
        status: Some(status),
    };
    (node, events)
}

/// The labels every node has, and those it was given, which win.
pub(in crate::node) fn labels(settings: &Settings) -> BTreeMap<String, String> {
    let every = [
        ("beta.kubernetes.io/arch", architecture()),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("kubernetes.io/hostname", &settings.name),
        ("kubernetes.io/os", "linux"),
    ];
    let mut labels: BTreeMap<String, String> =
        every.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    labels.extend(settings.node.labels.clone());
    labels
}

fn annotations(settings: &Settings) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    if settings.node.controller_attach_detach {
        annotations.insert(ATTACH_DETACH.to_owned(), "true".to_owned());
    }
    let given: Vec<String> =
        settings.node_ips.iter().filter(|ip| !ip.is_unspecified()).map(ToString::to_string).collect();
    if settings.node.external_cloud && !given.is_empty() {
        annotations.insert(PROVIDED_IPS.to_owned(), given.join(","));
    }
    annotations
}

fn taints(settings: &Settings) -> Vec<Taint> {
    let mut taints = settings.node.taints.clone();
    if settings.node.external_cloud {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    taints
}
