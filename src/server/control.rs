//! The control socket: HTTP over a Unix socket restricted to root. Everything but `exec` and `restart` only reads.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use nix::sys::stat::{Mode, fchmod};
use serde::Deserialize;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connections::connections;
use super::http;
use super::images::images;
use super::logs::logs;
use super::pulls::pulls;
use super::view::{CertificateView, HungCall, NodeView, Problem};
use crate::api::{CertificateReport, Connections};
use crate::container_logs::ContainerLogs;
use crate::cri::{Call, Calls, ImageService, RuntimeService, RuntimeStatus};
use crate::explain::NodeProblem;
use crate::image::preload::PreloadProblem;
use crate::image::{Arrivals, Images};
use crate::node::NodeDescriber;
use crate::pleg::PlegHandle;
use crate::plugin::PluginList;
use crate::pod::{ApiState, DesiredPods, FailingProbes};
use crate::shutdown::ShutdownView;
use crate::source::SourceState;
use crate::stats::UsageStats;
use crate::status::{DirectoryChanges, DirectoryEntry, PodDirectory, RecentEvents, StatusCache};
use crate::telemetry::{Metrics, PROMETHEUS_TEXT};
use crate::worker::RestartRequests;

/// Minimum interval between views of a watch, which limits the output of a busy node.
const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// Listen backlog: a handful of users and scripts.
const BACKLOG: u32 = 64;

/// How long clients have to disconnect at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// Why the socket could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its directory could not be created.
    #[error("cannot create the directory {}", path.display())]
    MakeDir {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another daemon listens on it.
    #[error("another hostlet listens on {}: stop it, or give this one another socket (HostletConfiguration.socket)", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something other than a socket has its path.
    #[error("{} is not a socket: remove it, or give hostlet another socket (HostletConfiguration.socket)", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// It could not be opened.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The server's inputs, published by the parts of the daemon.
#[derive(Clone)]
pub struct ControlServer {
    /// Name of the node.
    pub node: String,
    /// The pods of this node.
    pub pods: PodDirectory,
    /// What the workers of pods do, and the timelines.
    pub status_cache: StatusCache,
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
    /// Opens the socket with access for root only. A stale socket is replaced.
    pub async fn bind(path: &Path) -> Result<UnixListener, ControlError> {
        let owned = || path.to_owned();
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)
                .map_err(|source| ControlError::MakeDir { path: dir.to_owned(), source })?;
        }
        let listen = |source| ControlError::Listen { path: owned(), source };
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(listen(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ControlError::NotASocket { path: owned() });
            }
            Ok(_) => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(ControlError::InUse { path: owned() });
                }
                std::fs::remove_file(path).map_err(listen)?;
            }
        }
        // The mode is set before the socket has its name, so that no other user can ever open it.
        let socket = UnixSocket::new_stream().map_err(listen)?;
        fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|errno| listen(errno.into()))?;
        socket.bind(path).map_err(listen)?;
        socket.listen(BACKLOG).map_err(listen)
    }

    /// Identifies the socket at this path; `None` if there is none.
    pub fn identity(path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }

    /// Serves until cancelled. Watches then end; clients that do not disconnect are cut off.
    pub async fn run(self, listener: UnixListener, cancel: CancellationToken) {
        let app = Router::new()
            .route("/v1/pods", get(pods))
            .route("/v1/explain", get(super::explain::explain))
            .route("/v1/timeline", get(super::timeline::timeline))
            .route("/v1/logs", get(logs))
            .route("/v1/images", get(images))
            .route("/v1/pulls", get(pulls))
            .route("/v1/node", get(super::node::node))
            .route("/v1/plugins", get(super::plugins::plugins))
            .route("/v1/exec", post(super::exec::exec))
            .route("/v1/restart", post(super::restart::restart))
            .route("/v1/events", get(super::events::events))
            .route("/v1/usage", get(super::usage::usage))
            .route("/v1/connections", get(connections))
            .route("/metrics", get(metrics))
            .route("/metrics/probes", get(probe_metrics))
            .with_state((self, cancel.clone()));
        let serving = http::serve(listener, app, &cancel);
        let overdue = async {
            cancel.cancelled().await;
            tokio::time::sleep(SHUTDOWN_GRACE).await;
        };
        tokio::select! {
            // Cancel-safe: dropping the server closes its connections.
            () = overdue => {}
            () = serving => {}
        }
    }

    fn view(&self) -> NodeView {
        let source = self.source.borrow();
        let problems = source.problems.iter().map(|problem| Problem {
            file: problem.origin.to_string(),
            pod: problem.pod.clone(),
            message: problem.message.clone(),
            since: problem.since,
        });
        NodeView {
            node: self.node.clone(),
            pods: self.pods.sorted().iter().map(DirectoryEntry::with_status).collect(),
            problems: problems.collect(),
            trouble: self.node_problem().map(|problem| problem.to_string()),
            store: self.store.borrow().clone(),
            shims: self.shims.borrow().clone(),
            foreign: self.foreign.borrow().clone(),
            kubelets: self.kubelets.borrow().clone(),
            credentials: self.exposure.borrow().clone(),
            certificate: self.certificate_view(),
            shutdown: self.shutdown.borrow().sentence(),
            api: self.api.borrow().problem.clone(),
            hung: self.hung(),
            archives: self.archives(),
            plugins: self.plugins.problems(),
        }
    }

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

    fn hung(&self) -> Vec<HungCall> {
        let now = Instant::now();
        let hung_call = |call: Call| HungCall {
            call: call.operation.to_string(),
            subject: call.subject.to_string(),
            pod: self.pleg.cache().pod_of(&call.subject).map(|pod| pod.to_string()),
            seconds: now.duration_since(call.since).as_secs(),
        };
        self.calls.hung(now).into_iter().map(hung_call).collect()
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

    /// Waits until the view changes.
    async fn changed(&mut self, pods: &mut DirectoryChanges) -> bool {
        let changed = tokio::select! {
            // Cancel-safe as documented there.
            changed = pods.changed() => changed.is_ok(),
            // Cancel-safe, these: a watch marks its value seen only when `changed` returns.
            changed = self.source.changed() => changed.is_ok(),
            // Never changes on a standalone host.
            Ok(()) = self.api.changed() => true,
            changed = self.runtime.changed() => changed.is_ok(),
            changed = self.store.changed() => changed.is_ok(),
            // Never changes with a runtime other than containerd.
            Ok(()) = self.shims.changed() => true,
            Ok(()) = self.foreign.changed() => true,
            Ok(()) = self.kubelets.changed() => true,
            // Neither changes on a standalone host.
            Ok(()) = self.exposure.changed() => true,
            Ok(()) = self.certificate.changed() => true,
            Ok(()) = self.shutdown.changed() => true,
            // Cancel-safe as documented there.
            () = self.plugins.changed() => true,
            changed = changed_if(&mut self.preload) => changed.is_ok(),
        };
        tokio::time::sleep(WATCH_PAUSE).await;
        changed
    }
}

/// Waits for a change; forever without preloading. Cancel-safe.
async fn changed_if<T>(
    preload: &mut Option<(PathBuf, watch::Receiver<T>)>,
) -> Result<(), watch::error::RecvError> {
    match preload {
        Some((_, problems)) => problems.changed().await,
        None => std::future::pending().await,
    }
}

#[derive(Deserialize)]
struct PodsQuery {
    #[serde(default)]
    watch: bool,
}

/// All metrics in Prometheus' text format.
async fn metrics(State((server, _)): State<(ControlServer, CancellationToken)>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], server.metrics.encode())
}

/// The view as JSON; with `watch=true` one view per line, now and after each change.
async fn pods(
    State((server, cancel)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<PodsQuery>,
) -> Response {
    if !query.watch {
        return match serde_json::to_vec(&server.view()) {
            Ok(view) => ([(CONTENT_TYPE, "application/json")], view).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        };
    }
    let changes = server.pods.changes();
    let views = stream::unfold((server, changes, true), |(mut server, mut changes, first)| async move {
        if !first && !server.changed(&mut changes).await {
            return None;
        }
        let mut line = serde_json::to_vec(&server.view()).unwrap_or_default();
        line.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(line)), (server, changes, false)))
    });
    let views = views.take_until(cancel.cancelled_owned());
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(views)).into_response()
}

/// The metrics of probes, in the same format.
async fn probe_metrics(State((server, _)): State<(ControlServer, CancellationToken)>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], server.probe_metrics.encode())
}
