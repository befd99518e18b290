//! The clients of a hollow node, with the limits of a KubeletConfiguration's defaults, and where its events go.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use hostlet_base::WallClock;
use hostlet_base::node::NodeEvents;
use hostlet_cluster::api::events::{EventRecord, EventRecorder, EventSink, recorder};
use hostlet_cluster::api::{
    ClientOptions, Connections, Credentials, CredentialsSource, CredentialsTask, PrioritizedClients, Purpose,
    connect, connect_prioritized,
};
use hostlet_engine::engine::EventSinks;
use hostlet_pod::PodEvents;
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
            recorder.record(EventRecord::of_pod(pod, container, event));
        });
        let (recorder, node_name) = (self.recorder.clone(), node.to_owned());
        let node: NodeEvents =
            Arc::new(move |event| recorder.record_at_once(EventRecord::of_node(&node_name, event)));
        EventSinks { pods, node }
    }
}
