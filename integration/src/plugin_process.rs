//! A driver for tests as a process with a log: starts and ends it. Knows nothing of what it serves.

use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::shell::{spawn_logged, tail};

/// The process. Dropping it kills the process; its sockets remain.
#[derive(Debug)]
pub(crate) struct PluginProcess {
    name: String,
    log: PathBuf,
    child: Option<Child>,
}

impl PluginProcess {
    /// A process that does not run yet.
    pub(crate) fn new(name: &str, log: PathBuf) -> Self {
        Self { name: name.to_owned(), log, child: None }
    }

    /// Starts it, or starts it again.
    pub(crate) fn start(&mut self, command: &mut Command) -> Result<()> {
        self.child = Some(spawn_logged(command, &self.log)?);
        Ok(())
    }

    /// Kills it with SIGKILL. Its sockets remain, as after a crash.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("killing a driver")?;
            child.wait().context("waiting for a driver's end")?;
        }
        Ok(())
    }

    /// Has it read its files again, with SIGHUP.
    pub(crate) fn reload(&self) -> Result<()> {
        let child = self.child.as_ref().context("a driver that does not run")?;
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGHUP).context("reloading a driver")
    }

    /// Ends it with SIGTERM, and waits for its end.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).context("ending a driver")?;
            child.wait().context("waiting for a driver's end")?;
        }
        Ok(())
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for PluginProcess {
    #[allow(clippy::print_stderr, reason = "a failed test shows the driver's log")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the driver {} logged last:\n{}", self.name, self.log());
        }
        if let Err(error) = self.kill() {
            eprintln!("the driver {} is not ended: {error:#}", self.name);
        }
    }
}
