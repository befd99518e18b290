//! The final status of a killed pod.

use std::borrow::Cow;

use super::PodPhase;

/// The final status of a killed pod, e.g. `Failed` with reason `Evicted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusOverride {
    /// `status.phase`.
    pub phase: PodPhase,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Message of the condition `DisruptionTarget`; `None` if the pod does not get one.
    pub disruption: Option<Cow<'static, str>>,
}
