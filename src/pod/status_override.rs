//! The status that whoever kills a pod wants it to end with.

use std::borrow::Cow;

use super::PodPhase;

/// The status a killed pod ends with, e.g. `Failed`, `Evicted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusOverride {
    /// `status.phase`.
    pub phase: PodPhase,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Message of the condition `DisruptionTarget`; none if the pod is not ended for the node's sake.
    pub disruption: Option<Cow<'static, str>>,
}
