//! The periods that a shutdown of the host grants to pods, as configured. `engine::shutdown` applies them.

use std::time::Duration;

/// How pods are terminated when the host shuts down. All periods are zero if that is not configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GracefulShutdown {
    /// How long the shutdown is delayed (`shutdownGracePeriod`).
    pub total: Duration,
    /// The part of it for critical pods (`shutdownGracePeriodCriticalPods`).
    pub critical: Duration,
    /// Priorities, and the seconds that pods of each have, instead of the two (`shutdownGracePeriodByPodPriority`).
    pub by_priority: Vec<(i32, u64)>,
    /// Whether the times of the last shutdown are recorded (the feature gate `GracefulNodeShutdownBasedOnPodPriority`).
    pub is_recorded: bool,
}
