//! The answer of one run of a probe.

/// The answer of a probe that could be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It succeeded.
    Success,
    /// It succeeded, but something about it is wrong.
    Warning(String),
    /// It failed, for this reason.
    Failure(String),
}

/// A probe could not be run, which says nothing about the container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AttemptError {
    /// It was never sent.
    #[error("{0}")]
    NotSent(String),
    /// Its answer broke off.
    #[error("{0}")]
    BrokenOff(String),
}

impl AttemptError {
    /// The state that upstream's event names.
    pub(super) fn state(&self) -> &'static str {
        match self {
            Self::NotSent(_) => "unknown",
            Self::BrokenOff(_) => "failure",
        }
    }
}

/// The result of a run.
pub(super) type Attempt = Result<Answer, AttemptError>;
