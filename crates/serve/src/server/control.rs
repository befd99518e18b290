//! The inputs of the control socket's endpoints, and what several of them show. Knows no endpoint.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::view::{CertificateView, Problem};
use crate::explain::NodeProblem;
use hostlet_cluster::api::{CertificateReport, Connections};
use hostlet_cluster::node::NodeDescriber;
use hostlet_engine::container_logs::ContainerLogs;
use hostlet_engine::shutdown::ShutdownView;
use hostlet_engine::source::SourceState;
use hostlet_engine::worker::RestartRequests;
use hostlet_image::preload::PreloadProblem;
use hostlet_image::{Arrivals, Images};
use hostlet_observe::pleg::PlegHandle;
use hostlet_observe::stats::UsageStats;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{PodActivities, PodDirectory, RecentEvents};
use hostlet_plugins::PluginList;
use hostlet_pod::{ApiState, DesiredPods, FailingProbes};
use hostlet_runtime::cri::{Calls, ImageService, RuntimeService, RuntimeStatus};
use hostlet_telemetry::Metrics;

/// The server's inputs, published by the parts of the daemon.
#[derive(Clone)]
pub struct ControlServer {
    /// Name of the node.
    pub node: String,
    /// The pods of this node.
    pub pods: PodDirectory,
    /// What their workers do.
    pub activities: PodActivities,
    /// Their timelines.
    pub timeline: Timeline,
    /// The admitted pods.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// State of the manifests.
    pub source: watch::Receiver<SourceState>,
    /// State of the API server's pods.
    pub api: watch::Receiver<ApiState>,
    /// Status of the runtime.
    pub runtime: watch::Receiver<Option<RuntimeStatus>>,
    /// The runtime's pods and the state of relisting.
    pub pleg: PlegHandle,
    /// The logs of containers.
    pub logs: ContainerLogs,
    /// Runtime calls in progress.
    pub calls: Calls,
    /// The runtime's images.
    pub runtime_images: Arc<dyn ImageService>,
    /// Pulls in progress.
    pub images: Images,
    /// Their download progress.
    pub arrivals: Arc<dyn Arrivals>,
    /// The directory of image archives, if configured, and their problems.
    pub preload: Option<(PathBuf, watch::Receiver<Vec<PreloadProblem>>)>,
    /// Problems of the local store.
    pub store: watch::Receiver<Option<String>>,
    /// Leftover shims that cannot be killed.
    pub shims: watch::Receiver<Option<String>>,
    /// What pods of others have on this host.
    pub foreign: watch::Receiver<Option<String>>,
    /// Other kubelets on this runtime.
    pub kubelets: watch::Receiver<Option<String>>,
    /// Who else can read the API server's credentials.
    pub exposure: watch::Receiver<Option<String>>,
    /// The state of the client certificate.
    pub certificate: watch::Receiver<Option<CertificateReport>>,
    /// The shutdown of the host.
    pub shutdown: watch::Receiver<ShutdownView>,
    /// The connections to the API server.
    pub connections: Connections,
    /// The recent events.
    pub events: RecentEvents,
    /// The runtime, for commands in containers.
    pub service: Arc<dyn RuntimeService>,
    /// Describes this node.
    pub describer: NodeDescriber,
    /// Takes requests to restart containers.
    pub restarts: RestartRequests,
    /// The plugins of this host.
    pub plugins: PluginList,
    /// What everything uses; `None` until the runtime has answered.
    pub usage: watch::Receiver<Option<UsageStats>>,
    /// The metrics.
    pub metrics: Metrics,
    /// The metrics of probes.
    pub probe_metrics: Metrics,
    /// The failing probes of all pods.
    pub failing_probes: FailingProbes,
}

impl ControlServer {
    /// The state of the client certificate now, if the node has or needs one.
    pub(super) fn certificate_view(&self) -> Option<CertificateView> {
        let now = Timestamp::now();
        let report = self.certificate.borrow();
        let view = |report: &CertificateReport| CertificateView {
            state: report.sentences(now),
            is_problem: report.is_problem(now),
        };
        report.as_ref().map(view)
    }

    /// Problems of image archives.
    pub(super) fn archives(&self) -> Vec<Problem> {
        let Some((_, problems)) = &self.preload else { return Vec::new() };
        let reported = problems.borrow();
        let shown = reported.iter().map(|problem| Problem {
            file: problem.path.display().to_string(),
            pod: None,
            message: problem.message.clone(),
            since: problem.since,
        });
        shown.collect()
    }

    pub(super) fn node_problem(&self) -> Option<NodeProblem> {
        let health = self.pleg.health();
        let relist = health.borrow();
        if let Some(error) = &relist.error {
            let how =
                if relist.is_healthy(Instant::now()) { "for a moment" } else { "for more than 3 minutes" };
            let what = format!("the container runtime has not answered {how}: {error}");
            return Some(NodeProblem::Runtime(what));
        }
        match &*self.runtime.borrow() {
            Some(status) if !status.runtime.status => {
                let what = format!("the container runtime is not ready: {}", status.runtime.message);
                Some(NodeProblem::Runtime(what))
            }
            Some(status) if !status.network.status => Some(NodeProblem::Network(format!(
                "the pod network is not ready: {}",
                status.network.message
            ))),
            Some(_) => None,
            None => Some(NodeProblem::Runtime("the container runtime has not answered yet".to_owned())),
        }
    }
}
