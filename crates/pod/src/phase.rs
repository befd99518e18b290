//! The phase of a pod (`status.phase`).

use std::fmt;

use k8s_openapi::api::core::v1::PodStatus;

/// The phase of a pod's lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Some containers have not started yet.
    Pending,
    /// Its containers run, or will be restarted.
    Running,
    /// All its containers have terminated with exit code 0 and will not be restarted.
    Succeeded,
    /// All its containers have terminated, at least one with a failure.
    Failed,
}

impl PodPhase {
    /// The value in `status.phase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// The phase of a pod with this status; `None` if the status has none that is known.
    pub fn of(status: &PodStatus) -> Option<Self> {
        let name = status.phase.as_deref()?;
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed]
            .into_iter()
            .find(|phase| phase.as_str() == name)
    }

    /// Whether a pod never leaves this phase.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running => false,
        }
    }
}

/// Whether a pod with this status has ended: it is in a terminal phase.
pub fn has_ended(status: &PodStatus) -> bool {
    PodPhase::of(status).is_some_and(PodPhase::is_terminal)
}

impl fmt::Display for PodPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
