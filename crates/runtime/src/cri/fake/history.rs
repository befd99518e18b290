//! The history of containers, for tests that check all of it. Pure data.

use tokio::time::Instant;

use hostlet_base::{ContainerId, PodUid, SandboxId};

/// A change of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When it took effect, which may be after the response.
    pub at: Instant,
    /// UID of the pod, by the sandbox's metadata.
    pub pod: PodUid,
    /// The sandbox that the container is in.
    pub sandbox: SandboxId,
    /// The instance that changed.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// The number of instances of this name before it.
    pub attempt: u32,
    /// What became of it.
    pub what: What,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Its process runs.
    Started,
    /// Exited.
    Ended {
        /// With this exit code.
        code: i32,
    },
    /// The runtime does not have it any more.
    Removed,
}
