//! The phase of a pod (`status.phase`).

use std::fmt;

/// Where a pod is in its life, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Some container was not started yet.
    Pending,
    /// Its containers run, or will again.
    Running,
    /// All its containers ended well, for good.
    Succeeded,
    /// All its containers ended for good, one of them badly.
    Failed,
}

impl PodPhase {
    /// The name used in `status.phase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// The phase of this name.
    pub fn parse(name: &str) -> Option<Self> {
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

impl fmt::Display for PodPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
