//! The history of containers, for tests that check all of it. Pure data.

use tokio::time::Instant;

use hostlet_base::{ContainerId, PodUid, SandboxId};

/// A change of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Its time.
    pub at: Instant,
    /// Its pod.
    pub pod: PodUid,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// Its ID.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// Its attempt.
    pub attempt: u32,
    /// The change.
    pub what: What,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Started.
    Started,
    /// Exited.
    Ended {
        /// With this exit code.
        code: i32,
    },
    /// Removed.
    Removed,
}
