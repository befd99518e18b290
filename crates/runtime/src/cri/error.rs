//! Errors of CRI calls.

use std::fmt;
use std::time::Duration;

/// A CRI call, named as in the label `operation_type` of upstream's runtime metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the CRI call of the same name")]
pub enum Operation {
    Version,
    Status,
    RuntimeConfig,
    UpdateRuntimeConfig,
    RunSandbox,
    StopSandbox,
    RemoveSandbox,
    UpdateSandbox,
    SandboxStatus,
    ListSandboxes,
    CreateContainer,
    StartContainer,
    StopContainer,
    RemoveContainer,
    UpdateContainer,
    ReopenLog,
    CheckpointContainer,
    ContainerStatus,
    ListContainers,
    ListContainerStats,
    ExecSync,
    Exec,
    Attach,
    PortForward,
    ContainerEvents,
    ListImages,
    ImageStatus,
    ImageFsInfo,
    PullImage,
    RemoveImage,
    /// Hostlet's own name for the substitute of lists that are too large.
    ListPods,
    /// Hostlet's own name for the lookup of an ID in containerd.
    StoredContainer,
    /// Hostlet's own name for the lookup and removal of a task in containerd.
    StoredTask,
}

impl Operation {
    /// Whether it starts or stops something.
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
            Self::UpdateRuntimeConfig => "update_runtime_config",
            Self::RunSandbox => "run_podsandbox",
            Self::StopSandbox => "stop_podsandbox",
            Self::RemoveSandbox => "remove_podsandbox",
            Self::UpdateSandbox => "update_podsandbox_resources",
            Self::SandboxStatus => "podsandbox_status",
            Self::ListSandboxes => "list_podsandbox",
            Self::CreateContainer => "create_container",
            Self::StartContainer => "start_container",
            Self::StopContainer => "stop_container",
            Self::RemoveContainer => "remove_container",
            Self::UpdateContainer => "update_container",
            Self::ReopenLog => "reopen_container_log",
            Self::CheckpointContainer => "checkpoint_container",
            Self::ContainerStatus => "container_status",
            Self::ListContainers => "list_containers",
            Self::ListContainerStats => "list_container_stats",
            Self::ExecSync => "exec_sync",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "port_forward",
            Self::ContainerEvents => "container_events",
            Self::ListImages => "list_images",
            Self::ImageStatus => "image_status",
            Self::ImageFsInfo => "image_fs_info",
            Self::PullImage => "pull_image",
            Self::RemoveImage => "remove_image",
            Self::ListPods => "list_pods",
            Self::StoredContainer => "stored_container",
            Self::StoredTask => "stored_task",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed CRI call. `Display` of a runtime's error is only its status message, as upstream.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CriError {
    /// Nothing listens on the socket, or the connection was lost.
    #[error("{operation}: the container runtime does not answer at {endpoint}: {message}")]
    Unreachable {
        operation: Operation,
        endpoint: String,
        /// The transport error.
        message: String,
    },
    /// The call timed out. It may still take effect.
    #[error("{operation}: no answer within {}s", deadline.as_secs())]
    TimedOut { operation: Operation, deadline: Duration },
    /// The object does not exist.
    #[error("{message}")]
    NotFound {
        operation: Operation,
        /// The runtime's message.
        message: String,
    },
    /// The runtime does not implement this call.
    #[error("{operation}: not implemented by this container runtime")]
    Unimplemented { operation: Operation },
    /// The runtime returned an error.
    #[error("{message}")]
    Failed {
        operation: Operation,
        /// The runtime's message.
        message: String,
    },
    /// The response exceeds the message size limit of the runtime or the client.
    #[error("{operation}: the answer does not fit into one message: {message}")]
    TooLarge {
        operation: Operation,
        /// The error with the sizes.
        message: String,
    },
    /// The response is malformed, e.g. without the pod's labels.
    #[error("{operation}: the container runtime's answer is malformed: {message}")]
    Malformed { operation: Operation, message: String },
}

impl CriError {
    /// Whether the object does not exist, which is success for stops and removals.
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
