//! How a CRI call fails.

use std::fmt;
use std::time::Duration;

/// A CRI call, by the name upstream uses in the `operation_type` label of its runtime metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the CRI call of the same name")]
pub enum Operation {
    Version,
    Status,
    RuntimeConfig,
    RunSandbox,
    StopSandbox,
    RemoveSandbox,
    SandboxStatus,
    ListSandboxes,
    CreateContainer,
    StartContainer,
    StopContainer,
    RemoveContainer,
    ContainerStatus,
    ListContainers,
    ContainerEvents,
    ListImages,
    ImageStatus,
    PullImage,
    /// Hostlet's own name: of what stands in for lists that are too large.
    ListPods,
    /// Hostlet's own name: of what containerd itself has under an id.
    StoredContainer,
}

impl Operation {
    /// Whether it starts or stops something: work that people wait for.
    pub(super) fn is_work(self) -> bool {
        matches!(
            self,
            Self::RunSandbox
                | Self::StopSandbox
                | Self::CreateContainer
                | Self::StartContainer
                | Self::StopContainer
        )
    }

    /// The upstream label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Status => "status",
            Self::RuntimeConfig => "runtime_config",
            Self::RunSandbox => "run_podsandbox",
            Self::StopSandbox => "stop_podsandbox",
            Self::RemoveSandbox => "remove_podsandbox",
            Self::SandboxStatus => "podsandbox_status",
            Self::ListSandboxes => "list_podsandbox",
            Self::CreateContainer => "create_container",
            Self::StartContainer => "start_container",
            Self::StopContainer => "stop_container",
            Self::RemoveContainer => "remove_container",
            Self::ContainerStatus => "container_status",
            Self::ListContainers => "list_containers",
            Self::ContainerEvents => "container_events",
            Self::ListImages => "list_images",
            Self::ImageStatus => "image_status",
            Self::PullImage => "pull_image",
            Self::ListPods => "list_pods",
            Self::StoredContainer => "stored_container",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed CRI call. `Display` is what a person sees; of a runtime's error only its status message, as upstream does.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CriError {
    /// Nobody answers on the socket, or the connection broke.
    #[error("{operation}: the container runtime does not answer at {endpoint}: {message}")]
    Unreachable {
        /// The call.
        operation: Operation,
        /// The socket.
        endpoint: String,
        /// What the transport says.
        message: String,
    },
    /// The runtime did not answer in time. The call may still take effect.
    #[error("{operation}: no answer within {}s", deadline.as_secs())]
    TimedOut {
        /// The call.
        operation: Operation,
        /// How long was waited.
        deadline: Duration,
    },
    /// The object named in the call does not exist.
    #[error("{message}")]
    NotFound {
        /// The call.
        operation: Operation,
        /// What the runtime says.
        message: String,
    },
    /// The runtime does not know this call: a feature it does not have.
    #[error("{operation}: not implemented by this container runtime")]
    Unimplemented {
        /// The call.
        operation: Operation,
    },
    /// The runtime answered with an error.
    #[error("{message}")]
    Failed {
        /// The call.
        operation: Operation,
        /// What the runtime says.
        message: String,
    },
    /// The answer is larger than a message may be: the runtime does not send it, or we do not take it.
    #[error("{operation}: the answer does not fit into one message: {message}")]
    TooLarge {
        /// The call.
        operation: Operation,
        /// What the sender or our side says of the sizes.
        message: String,
    },
    /// The runtime answered with something that makes no sense, e.g. without the pod's labels.
    #[error("{operation}: the container runtime's answer is malformed: {message}")]
    Malformed {
        /// The call.
        operation: Operation,
        /// What is wrong with it.
        message: String,
    },
}

impl CriError {
    /// Whether the object named in the call does not exist; success for stops and removals.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::NotFound { .. } => true,
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Unimplemented { .. }
            | Self::Failed { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. } => false,
        }
    }
}
