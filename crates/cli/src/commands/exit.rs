//! Exit codes, for scripts (sysexits.h).

use std::process::ExitCode;

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Ok,
    /// Not found, or another failure.
    Failed,
    /// A mistake in the command line or in a configuration.
    Usage,
    /// The daemon does not respond.
    Unavailable,
    /// The exit code of the command that `hostlet exec` ran.
    Command(i32),
    /// The daemon refused its first start: the runtime is in use.
    Refused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::Refused => 78,
            // Exit codes of processes have eight bits.
            Exit::Command(code) => u8::try_from(code & 0xff).unwrap_or(1),
        })
    }
}
