//! Why the daemon could not start or stopped, by the step that failed. `main` turns it into an exit code.

use hostlet_cluster::api::ConnectError;
use hostlet_engine::ownership::StartRejection;
use hostlet_serve::node_api::ListenError;
use hostlet_serve::server::ControlError;

use super::node_api::NodeApiError;
use super::startup::StartupError;
use super::tasks::TaskEnded;

/// Why the daemon could not start or stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// The host does not meet a requirement.
    #[error(transparent)]
    Startup(#[from] StartupError),
    /// This is the first start here, and the runtime is in use.
    #[error(transparent)]
    Refused(#[from] StartRejection),
    /// A client of the API server could not be created.
    #[error(transparent)]
    Cluster(#[from] ConnectError),
    /// The control socket could not be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The port of the health endpoint could not be opened.
    #[error(transparent)]
    Healthz(#[from] ListenError),
    /// The node's API could not be started.
    #[error(transparent)]
    NodeApi(#[from] NodeApiError),
    /// A task ended unexpectedly.
    #[error(transparent)]
    Task(#[from] TaskEnded),
    /// A start-up step panicked.
    #[error("a start-up step ended early")]
    Step(#[from] tokio::task::JoinError),
}
