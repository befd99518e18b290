//! Why devices are not allocated, in the words that the stock kubelet reports with `UnexpectedAdmissionError`.

use tokio::time::Instant;

use crate::client::CallError;

/// Why a container does not have its devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// They may be there soon.
    #[error(transparent)]
    NotYet(#[from] NotYet),
    /// They are not there.
    #[error(transparent)]
    Failed(#[from] AllocateFailure),
}

/// Devices that may be there soon, because a plugin that had them before is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NotYet {
    /// The resource.
    pub resource: String,
    /// A clause for people: what is waited for.
    pub reason: String,
    /// When this becomes a failure.
    pub until: Instant,
}

/// Why devices cannot be allocated. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateFailure {
    /// The plugin of the resource went away, and did not come back.
    #[error("cannot allocate unregistered device {resource}")]
    Unregistered {
        /// The resource.
        resource: String,
    },
    /// The plugin is away, or all of its devices are unhealthy.
    #[error("no healthy devices present; cannot allocate unhealthy devices {resource}")]
    NoneHealthy {
        /// The resource.
        resource: String,
    },
    /// The container had devices before which are not healthy now.
    #[error(
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
    )]
    Unhealthy {
        /// The resource.
        resource: String,
    },
    /// The container has another number of devices than it requests.
    #[error(
        "pod \"{uid}\" container \"{container}\" changed request for resource \"{resource}\" from {from} to {to}"
    )]
    Changed {
        /// The pod's UID.
        uid: String,
        /// The container.
        container: String,
        /// The resource.
        resource: String,
        /// What it has.
        from: usize,
        /// What it requests.
        to: usize,
    },
    /// Others have too many of the devices.
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}"
    )]
    TooFew {
        /// The resource.
        resource: String,
        /// How many are needed.
        requested: usize,
        /// How many are free.
        available: usize,
    },
    /// The plugin does not say which devices it prefers.
    #[error("device plugin GetPreferredAllocation rpc failed with err: {message}")]
    Preference {
        /// The error of the call.
        message: String,
    },
    /// The plugin does not allocate the devices.
    #[error("{message}")]
    Call {
        /// The error of the call.
        message: String,
    },
    /// The plugin gives no response for the container.
    #[error("no containers return in allocation response of the device plugin for {resource}")]
    NoResponse {
        /// The resource.
        resource: String,
    },
    /// The allocation is not recorded.
    #[error("failed to write checkpoint file \"kubelet_internal_checkpoint\": {message}")]
    Checkpoint {
        /// The operating system's error.
        message: String,
    },
}

/// Why a container cannot start with its devices yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreStartError {
    /// The plugin of its devices is not back since the host booted or hostlet started.
    #[error(transparent)]
    NotYet(#[from] NotYet),
    /// The devices cannot be used.
    #[error(transparent)]
    Unusable(#[from] AllocateFailure),
    /// The plugin does not prepare them. Upstream's message.
    #[error("device plugin PreStartContainer rpc failed with err: {message}")]
    Call {
        /// The error of the call.
        message: String,
    },
}

impl AllocateFailure {
    pub(crate) fn call(error: &CallError) -> Self {
        Self::Call { message: error.to_string() }
    }

    pub(crate) fn preference(error: &CallError) -> Self {
        Self::Preference { message: error.to_string() }
    }
}
