//! Observes the host.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::sys::{Machine, SysError};
use crate::telemetry::Changed;
use crate::types::error_chain;

/// Interval between observations. Memory and disks rarely change.
const PERIOD: Duration = Duration::from_secs(60);

/// Pause after a failed observation.
const PERIOD_FAILING: Duration = Duration::from_secs(5);

/// Observes the host.
pub struct HostObserver {
    /// `/`, except in tests.
    pub root: PathBuf,
    /// The daemon's directory (`--root-dir`).
    pub own: PathBuf,
}

impl HostObserver {
    /// Publishes facts of the host until cancelled.
    pub async fn run(self, host: watch::Sender<Machine>, cancel: CancellationToken) {
        let mut last_error = Changed::new();
        loop {
            let observed = tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: it only reads.
                observed = self.observe() => observed,
            };
            let problem = match observed {
                Ok(machine) => {
                    host.send_if_modified(|old| {
                        let changed = *old != machine;
                        *old = machine;
                        changed
                    });
                    None
                }
                Err(error) => Some(error_chain(&error)),
            };
            let pause = if problem.is_some() { PERIOD_FAILING } else { PERIOD };
            if last_error.see(problem.clone())
                && let Some(error) = problem
            {
                tracing::warn!(error, "cannot read all facts of this host; trying again");
            }
            tokio::select! {
                // Cancel-safe: as above.
                () = cancel.cancelled() => return,
                // Cancel-safe: a sleep.
                () = sleep(pause) => {}
            }
        }
    }

    async fn observe(&self) -> Result<Machine, SysError> {
        let (root, own) = (self.root.clone(), self.own.clone());
        let reading = tokio::task::spawn_blocking(move || Machine::read(&root, &own)).await;
        reading.unwrap_or_else(|source| Err(SysError::Step { source }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_host_is_published() {
        let (show, mut host) = watch::channel(Machine::default());
        let cancel = CancellationToken::new();
        let observer = HostObserver { root: "/".into(), own: "/".into() };
        let task = observer.run(show, cancel.clone());
        let seen = async {
            let machine = host.wait_for(|machine| machine.memory > 0).await.unwrap().clone();
            cancel.cancel();
            machine
        };
        let ((), machine) = tokio::join!(task, seen);
        assert!(machine.memory > 0);
    }
}
