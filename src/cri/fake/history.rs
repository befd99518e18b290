//! What became of containers, for tests that judge a whole history. Pure data.

use tokio::time::Instant;

use crate::types::{ContainerId, PodUid, SandboxId};

/// A change in the life of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When.
    pub at: Instant,
    /// Of which pod.
    pub pod: PodUid,
    /// In which sandbox.
    pub sandbox: SandboxId,
    /// To which container.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: String,
    /// Its attempt.
    pub attempt: u32,
    /// What.
    pub what: What,
}

/// What happened to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Its process began.
    Started,
    /// Its process ended.
    Ended {
        /// With this exit code.
        code: i32,
    },
    /// It is gone.
    Removed,
}
