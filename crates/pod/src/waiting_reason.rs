//! Why a container is waiting.

/// Reason and message of `state.waiting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingReason {
    /// E.g. `CrashLoopBackOff`.
    pub reason: String,
    /// Human-readable details.
    pub message: String,
}
