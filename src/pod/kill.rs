//! How a pod is to be ended for good: a level that whoever wants it ended publishes, not a message that can be lost.

use super::StatusOverride;

/// What ends a pod although its source still wants it: preemption, and whoever else acts for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKill {
    /// The status it ends with.
    pub status: StatusOverride,
    /// Grace period, seconds; none for the pod's own. It only ever shortens the one in force.
    pub grace_seconds: Option<i64>,
    /// The node needs back what the pod holds: it is stopped before others, and its dead containers are removed.
    pub evict: bool,
}
