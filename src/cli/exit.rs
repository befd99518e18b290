//! Exit codes, for scripts (sysexits.h).

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Ok,
    /// What was asked for is not there, or something went wrong on the way.
    Failed,
    /// A mistake in the command line or in a configuration.
    Usage,
    /// The daemon does not answer.
    Unavailable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
        })
    }
}
