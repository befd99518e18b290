//! Why a container waits.

/// Why a container waits, as `state.waiting` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingReason {
    /// E.g. `CrashLoopBackOff`.
    pub reason: String,
    /// For people.
    pub message: String,
}
