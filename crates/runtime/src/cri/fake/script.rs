//! Scripted behavior of container processes. Pure data.

use std::time::Duration;

/// One run of a container's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// Runs until stopped.
    Forever,
    /// Exits by itself.
    Exits {
        /// Time after its start.
        after: Duration,
        /// Exit code.
        code: i32,
    },
    /// Cannot be started (no such command): the start fails, and the container is exited with code 128.
    StartError(String),
}

/// A process's reaction to its stop signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerm {
    /// Exits after a time.
    Exits {
        /// Time until the exit.
        after: Duration,
        /// Exit code.
        code: i32,
    },
    /// Ignores it until killed.
    Ignores,
}

/// The behavior of all containers of a name: one [`Run`] per start, the last one repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    runs: Vec<Run>,
    on_term: OnTerm,
}

impl Default for Script {
    /// A process without a signal handler: runs forever, and SIGTERM terminates it at once.
    fn default() -> Self {
        Self { runs: Vec::new(), on_term: OnTerm::Exits { after: Duration::ZERO, code: 128 + 15 } }
    }
}

impl Script {
    /// Runs until its stop signal.
    pub fn forever() -> Self {
        Self::default()
    }

    /// Exits by itself after each start.
    pub fn exits(after: Duration, code: i32) -> Self {
        Self { runs: vec![Run::Exits { after, code }], ..Self::default() }
    }

    /// One run per start, the last one repeated.
    pub fn runs(runs: impl IntoIterator<Item = Run>) -> Self {
        Self { runs: runs.into_iter().collect(), ..Self::default() }
    }

    /// With another reaction to its stop signal.
    #[must_use]
    pub fn on_term(self, on_term: OnTerm) -> Self {
        Self { on_term, ..self }
    }

    pub(super) fn reaction(&self) -> OnTerm {
        self.on_term
    }

    /// The run of the start after `earlier` starts.
    pub(super) fn run(&self, earlier: usize) -> Run {
        self.runs.get(earlier).or(self.runs.last()).cloned().unwrap_or(Run::Forever)
    }
}
