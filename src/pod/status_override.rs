//! The status that whoever kills a pod wants it to end with.

/// The status a killed pod ends with, e.g. `Failed`, `Evicted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusOverride {
    /// `status.phase`.
    pub phase: &'static str,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Message of the condition `DisruptionTarget`; none if the pod is not ended for the node's sake.
    pub disruption: Option<&'static str>,
}
