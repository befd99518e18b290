//! The records of events, of pods and of the node.

use std::collections::BTreeMap;

use hostlet_base::node::NodeEvent;
use hostlet_base::{PodEvent, PodRef};
use hostlet_pod::ContainerRef;
use k8s_openapi::api::core::v1::ObjectReference;

use super::correlate::EventRecord;

impl EventRecord {
    /// An event of a pod, or of a container in it.
    pub fn of_pod(pod: &PodRef, container: Option<&ContainerRef>, event: &PodEvent) -> Self {
        Self {
            object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(pod.namespace.to_string()),
                name: Some(pod.name.to_string()),
                uid: Some(pod.uid.to_string()),
                field_path: container.map(ContainerRef::field_path),
                resource_version: None,
            },
            kind: event.kind,
            reason: event.reason.clone().into_owned(),
            message: event.message.clone(),
            annotations: event.annotations.clone(),
        }
    }

    /// An event of the node of this name. As upstream, events refer to a Node with its name as UID.
    pub fn of_node(name: &str, event: NodeEvent) -> Self {
        Self {
            object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(name.to_owned()),
                uid: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            kind: event.kind,
            reason: event.reason.into_owned(),
            message: event.message,
            annotations: BTreeMap::new(),
        }
    }
}
