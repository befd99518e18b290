//! The Node as it is created.

use std::collections::BTreeMap;

use hostlet_base::architecture;
use hostlet_base::node::NodeEvent;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::node::status::{set_heartbeats, update};
use crate::node::{NodeFacts, NodeSettings};

/// Lets the attach-detach controller manage the volumes of this node.
pub(super) const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// The configured addresses, for a cloud controller manager.
pub(super) const PROVIDED_IPS: &str = "alpha.kubernetes.io/provided-node-ip";

/// Keeps pods off the node until a cloud controller manager has initialized it.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The Node with its first status, and the events of that status.
pub(in crate::node) fn initial(
    settings: &NodeSettings,
    facts: &NodeFacts,
    now: Timestamp,
) -> (Node, Vec<NodeEvent>) {
    let mut status = NodeStatus::default();
    let events = update(&mut status, settings, facts, now);
    set_heartbeats(&mut status, &facts.kernel, now);
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

/// The standard labels and the configured ones, which take precedence.
pub(in crate::node) fn labels(settings: &NodeSettings) -> BTreeMap<String, String> {
    let standard = [
        ("beta.kubernetes.io/arch", architecture()),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("kubernetes.io/hostname", &settings.name),
        ("kubernetes.io/os", "linux"),
    ];
    let mut labels: BTreeMap<String, String> =
        standard.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    labels.extend(settings.node.labels.clone());
    labels
}

/// The labels of the platform that the Node lacks, or has with another value: others may not change them (kubelet_node_status.go).
pub(in crate::node) fn wrong_labels(node: &Node) -> BTreeMap<String, String> {
    let labels = node.metadata.labels.as_ref();
    let platform = [("kubernetes.io/arch", architecture()), ("kubernetes.io/os", "linux")];
    let wrong = platform.into_iter().filter(|(key, value)| {
        labels.and_then(|labels| labels.get(*key)).is_none_or(|reported| reported != value)
    });
    wrong.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn annotations(settings: &NodeSettings) -> BTreeMap<String, String> {
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

fn taints(settings: &NodeSettings) -> Vec<Taint> {
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
