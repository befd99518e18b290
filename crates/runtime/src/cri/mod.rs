//! Typed client of the Container Runtime Interface: deadlines, runtime events, conversions. Never retries, never decides.

mod calls;
mod client;
pub mod containerd;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod features;
mod metrics;
mod monitor;
mod runtime;
mod types;

pub use calls::{Call, CallSubject, Calls};
pub use client::{CriClient, Stored, StoredTask, containerd_settings};
pub use error::{CriError, Operation};
pub use monitor::monitor;
pub use runtime::{EventStream, ImageService, RuntimeHint, RuntimeService};
pub use types::{
    Container, ContainerImage, ContainerState, ContainerStats, ContainerStatus, ExecOutput, ImageFilesystem,
    ImageInfo, LinuxUser, RuntimeCondition, RuntimeFeatures, RuntimeFilesystems, RuntimeHandler,
    RuntimeStatus, Sandbox, SandboxState, SandboxStatus, StdStreams, StoredPreStop, Version, WritableLayer,
};

/// Retry interval before the first response of a runtime. At boot all pods wait for it, and a refused connection costs next to
/// nothing.
pub const FIRST_ANSWER_RETRY: std::time::Duration = std::time::Duration::from_millis(200);

/// The CRI's messages, for sandbox and container configurations.
pub use hostlet_proto::cri as wire;
