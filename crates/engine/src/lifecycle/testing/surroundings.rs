//! What the daemons of an in-memory node find around them: by default an API server without pods, and a disk that nobody fills.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::{NodeEvents, NodePressure};
use hostlet_base::settings::{EvictionSettings, LogLimits};
use hostlet_host::FilesystemUsage;
use hostlet_image::gc::MeasureFilesystem;
use hostlet_pod::ApiState;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;

use crate::eviction::{NodeObserver, Unobserved};

/// Limits of logs: the defaults of a KubeletConfiguration.
const LOG_LIMITS: LogLimits =
    LogLimits { max_size: 10 << 20, max_files: 5, workers: 1, interval: Duration::from_secs(10) };

/// The surroundings, which outlive daemons.
#[derive(Clone)]
pub(in crate::lifecycle) struct Surroundings {
    /// How many pods the engine admits.
    pub(in crate::lifecycle) places: usize,
    /// The Node object; none on a standalone node.
    pub(in crate::lifecycle) object: Option<Arc<Node>>,
    /// The pods of the API server, as the daemon knows them.
    pub(in crate::lifecycle) api: watch::Sender<ApiState>,
    /// The filesystem of everything.
    pub(in crate::lifecycle) measure: MeasureFilesystem,
    pub(in crate::lifecycle) observer: Arc<dyn NodeObserver>,
    pub(in crate::lifecycle) eviction: EvictionSettings,
    /// None if logs are not rotated.
    pub(in crate::lifecycle) log_limits: Option<LogLimits>,
    /// The node's pressures, which the daemon publishes.
    pub(in crate::lifecycle) pressure: watch::Sender<NodePressure>,
    /// Receives the events of the node.
    pub(in crate::lifecycle) events: NodeEvents,
}

impl Surroundings {
    /// Nothing is ever short.
    pub(super) fn plenty(rotates_logs: bool) -> Self {
        let usage =
            FilesystemUsage { capacity: 100 << 30, available: 50 << 30, ..FilesystemUsage::default() };
        Self {
            places: super::PLACES,
            object: None,
            api: watch::Sender::new(ApiState { ready: true, ..ApiState::default() }),
            measure: Arc::new(move |_| Ok(usage)),
            observer: Arc::new(Unobserved),
            eviction: EvictionSettings::default(),
            log_limits: rotates_logs.then_some(LOG_LIMITS),
            pressure: watch::Sender::default(),
            events: Arc::new(|_| {}),
        }
    }
}
