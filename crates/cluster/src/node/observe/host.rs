//! Observes the host.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_base::node::OwnNode;
use hostlet_host::{Machine, SysError};
use hostlet_telemetry::Changed;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::node::{NodeSettings, own_node};

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
    /// The Node's settings.
    pub settings: Arc<NodeSettings>,
    /// The machine, published when it changed.
    pub machine: watch::Sender<Machine>,
    /// The node on this machine.
    pub own_node: watch::Sender<OwnNode>,
}

impl HostObserver {
    /// Publishes facts of the host until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
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
                    self.publish(machine);
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

    fn publish(&self, machine: Machine) {
        set_if_changed(&self.own_node, own_node(&self.settings, &machine));
        set_if_changed(&self.machine, machine);
    }

    async fn observe(&self) -> Result<Machine, SysError> {
        let (root, own) = (self.root.clone(), self.own.clone());
        let reading = tokio::task::spawn_blocking(move || Machine::read(&root, &own)).await;
        reading.unwrap_or_else(|source| Err(SysError::Step { source }))
    }
}

fn set_if_changed<T: PartialEq>(published: &watch::Sender<T>, new: T) {
    published.send_if_modified(|old| {
        let is_changed = *old != new;
        *old = new;
        is_changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing;
    use hostlet_base::resources::MEMORY;

    #[tokio::test]
    async fn this_host_is_published() {
        let settings = Arc::new(testing::settings());
        let machine = watch::Sender::new(Machine::default());
        let own_node = watch::Sender::new(own_node(&settings, &Machine::default()));
        let (mut host, node) = (machine.subscribe(), own_node.subscribe());
        let cancel = CancellationToken::new();
        let observer = HostObserver { root: "/".into(), own: "/".into(), settings, machine, own_node };
        let task = observer.run(cancel.clone());
        let seen = async {
            let machine = host.wait_for(|machine| machine.memory > 0).await.unwrap().clone();
            cancel.cancel();
            machine
        };
        let ((), machine) = tokio::join!(task, seen);
        assert!(machine.memory > 0);
        assert!(node.borrow().allocatable.units(MEMORY) > 0);
    }
}
