//! The request to kill a pod: state that is published until the pod is removed, not a message that could be lost.

use std::time::Duration;

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

/// The least time before a killed pod counts as overdue, whatever its grace period.
const MIN_PATIENCE: Duration = Duration::from_secs(10);
/// The longest: a grace period is external input, and a huge one would overflow a clock.
const MAX_PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The time after which a killed pod with this grace period is overdue (upstream `killPodNow`): whoever needs its resources goes on
/// without waiting for it.
pub fn patience(grace_seconds: i64) -> Duration {
    let grace = Duration::from_secs(u64::try_from(grace_seconds).unwrap_or(0));
    grace.saturating_add(grace / 2).clamp(MIN_PATIENCE, MAX_PATIENCE)
}
