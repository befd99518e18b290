//! The request to kill a pod: state that is published until the pod is removed, not a message that could be lost.

use super::StatusOverride;

/// Kills a pod that its source still names, as preemption and eviction do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKill {
    /// Its final status.
    pub status: StatusOverride,
    /// Grace period in seconds; `None` for the pod's own. It can only shorten the current one.
    pub grace_seconds: Option<i64>,
    /// Whether the node needs the pod's resources back: it is stopped before others, and its dead containers are removed.
    pub evict: bool,
}
