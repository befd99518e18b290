//! The clients of a hollow node, with the limits of a KubeletConfiguration's defaults, and where its events go.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use hostlet_base::WallClock;
use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_base::{PodEvent, PodRef};
use hostlet_cluster::api::events::{EventRecord, EventRecorder, EventSink, recorder};
use hostlet_cluster::api::{
    ClientOptions, Connections, Credentials, CredentialsSource, CredentialsTask, PrioritizedClients, Purpose,
    connect, connect_prioritized,
};
use hostlet_engine::engine::EventSinks;
use hostlet_pod::{ContainerRef, PodEvents};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;

/// Requests per second, and burst, of pods and of events.
const RATE: (u32, u32) = (50, 100);

/// The clients.
pub(super) struct Clients {
    pub(super) credentials: CredentialsTask,
    pub(super) pods: PrioritizedClients,
    pub(super) node: Client,
    pub(super) recorder: EventRecorder,
    pub(super) sink: EventSink,
}

impl Clients {
    pub(super) fn new(kubeconfig: &Path, node: &str) -> Result<Self> {
        let connections = Connections::default();
        let options = |purpose, limit| ClientOptions {
            user_agent: "hostlet/hollow".to_owned(),
            limit,
            purpose,
            connections: connections.clone(),
        };
        let limit = NonZeroU32::new(RATE.0).zip(NonZeroU32::new(RATE.1));
        let (task, credentials) = Credentials::new(CredentialsSource::new(kubeconfig.to_owned()));
        let pods = connect_prioritized(&options(Purpose::Pods, limit), credentials.clone())?;
        let node_client = connect(&options(Purpose::Node, None), credentials.clone())?;
        let event_client = connect(&options(Purpose::Events, limit), credentials)?;
        let (recorder, sink) = recorder(event_client, node.to_owned(), WallClock::system());
        Ok(Self { credentials: task, pods, node: node_client, recorder, sink })
    }

    /// Where events of pods and of the node go.
    pub(super) fn events(&self, node: &str) -> EventSinks {
        let recorder = self.recorder.clone();
        let pods: PodEvents = Arc::new(move |pod, container, event| {
            recorder.record(of_pod(pod, container, event));
        });
        let (recorder, node_name) = (self.recorder.clone(), node.to_owned());
        let node: NodeEvents = Arc::new(move |event| recorder.record_at_once(of_node(&node_name, event)));
        EventSinks { pods, node }
    }
}

fn of_pod(pod: &PodRef, container: Option<&ContainerRef>, event: &PodEvent) -> EventRecord {
    EventRecord {
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

fn of_node(name: &str, event: NodeEvent) -> EventRecord {
    EventRecord {
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
