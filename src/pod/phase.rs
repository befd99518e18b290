//! The phase of a pod (`status.phase`).

use std::fmt;

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

    /// Parses a value of `status.phase`.
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
