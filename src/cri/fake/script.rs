//! What the processes of a container do by themselves. Pure data.

use std::time::Duration;

/// One life of a container's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// It runs until somebody ends it.
    Forever,
    /// It ends by itself.
    Exits {
        /// So long after its start.
        after: Duration,
        /// With this exit code.
        code: i32,
    },
    /// It cannot be started (no such command): the start fails, and the container is left exited with code 128.
    StartError(String),
}

/// What a process does on its stop signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerm {
    /// It ends so much later.
    Exits {
        /// Time it takes.
        after: Duration,
        /// Its exit code.
        code: i32,
    },
    /// It goes on until it is killed.
    Ignores,
}

/// The behaviour of all containers of one name: one [`Run`] per start, the last one repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    runs: Vec<Run>,
    on_term: OnTerm,
}

impl Default for Script {
    /// A process without a handler of its own: runs for ever, and dies of SIGTERM at once.
    fn default() -> Self {
        Self { runs: Vec::new(), on_term: OnTerm::Exits { after: Duration::ZERO, code: 128 + 15 } }
    }
}

impl Script {
    /// Runs until its stop signal.
    pub fn forever() -> Self {
        Self::default()
    }

    /// Ends by itself after each start.
    pub fn exits(after: Duration, code: i32) -> Self {
        Self { runs: vec![Run::Exits { after, code }], ..Self::default() }
    }

    /// One run per start; the last one is repeated.
    pub fn runs(runs: impl IntoIterator<Item = Run>) -> Self {
        Self { runs: runs.into_iter().collect(), ..Self::default() }
    }

    /// The same, with another reaction to its stop signal.
    #[must_use]
    pub fn on_term(self, on_term: OnTerm) -> Self {
        Self { on_term, ..self }
    }

    pub(super) fn reaction(&self) -> OnTerm {
        self.on_term
    }

    /// The run of the start after `earlier` others.
    pub(super) fn run(&self, earlier: usize) -> Run {
        self.runs.get(earlier).or(self.runs.last()).cloned().unwrap_or(Run::Forever)
    }
}
