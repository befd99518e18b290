//! Looking at the host.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::address::{AddressError, Known, choose, needs_lookup};
use crate::node::{HostFacts, Settings};
use crate::sys::{Machine, SysError, is_own_ip, outgoing_ips};
use crate::telemetry::Changed;
use crate::types::error_chain;

/// Pause between two looks. Memory, disks and addresses rarely change.
const PERIOD: Duration = Duration::from_secs(60);

/// Pause after a look that failed. Not shorter: each look may leave a thread behind that waits for a name server.
const PERIOD_FAILING: Duration = Duration::from_secs(5);

/// How long DNS may take to say which address the node's name has.
const LOOKUP: Duration = Duration::from_secs(5);

/// Looks at the host.
pub struct HostObserver {
    /// What the node is to be.
    pub settings: Arc<Settings>,
    /// `/`, but in tests.
    pub root: PathBuf,
    /// The daemon's own directory. (`--root-dir`)
    pub own: PathBuf,
}

impl HostObserver {
    /// Shows the host until cancelled.
    pub async fn run(self, host: watch::Sender<Option<HostFacts>>, cancel: CancellationToken) {
        let mut trouble = Changed::new();
        loop {
            let looked = tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe: looking changes nothing.
                looked = self.look() => looked,
            };
            let problem = match looked {
                Ok((facts, problem)) => {
                    host.send_if_modified(|old| {
                        let changed = old.as_ref() != Some(&facts);
                        *old = Some(facts);
                        changed
                    });
                    problem.map(|error| error.to_string())
                }
                Err(error) => Some(error_chain(&error)),
            };
            let pause = if problem.is_some() { PERIOD_FAILING } else { PERIOD };
            if trouble.see(problem.clone())
                && let Some(error) = problem
            {
                tracing::warn!(error, "not everything of this host can be told; looking again");
            }
            tokio::select! {
                // Cancel-safe: as above.
                () = cancel.cancelled() => return,
                // Cancel-safe: a pause takes nothing.
                () = sleep(pause) => {}
            }
        }
    }

    /// The facts, and why there is no address if there is none.
    async fn look(&self) -> Result<(HostFacts, Option<AddressError>), SysError> {
        let (root, own) = (self.root.clone(), self.own.clone());
        let reading = tokio::task::spawn_blocking(move || Machine::read(&root, &own)).await;
        // It does not panic, and is not cancelled but with the runtime itself.
        let machine = reading.unwrap_or_else(|_| Ok(Machine::default()))?;
        let Settings { name, node_ips, .. } = &*self.settings;
        let by_name = if needs_lookup(node_ips, name) { lookup(name).await } else { Vec::new() };
        let known =
            Known { given: node_ips, by_name: &by_name, outgoing: &outgoing_ips(), is_own: &is_own_ip };
        let (addresses, problem) = match choose(name, &known) {
            Ok(addresses) => (addresses, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Ok((HostFacts { machine, addresses }, problem))
    }
}

/// What DNS says; nothing if it says nothing in time.
async fn lookup(name: &str) -> Vec<IpAddr> {
    match tokio::time::timeout(LOOKUP, tokio::net::lookup_host((name, 0))).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing;

    #[tokio::test]
    async fn this_host_is_shown() {
        let mut settings = testing::settings();
        // A name that needs no lookup.
        settings.name = "10.0.0.9".to_owned();
        let (show, mut host) = watch::channel(None);
        let cancel = CancellationToken::new();
        let observer = HostObserver { settings: Arc::new(settings), root: "/".into(), own: "/".into() };
        let task = observer.run(show, cancel.clone());
        let seen = async {
            let facts = host.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            cancel.cancel();
            facts
        };
        let ((), facts) = tokio::join!(task, seen);
        assert!(facts.machine.memory > 0);
        assert_eq!(facts.addresses, ["10.0.0.9".parse::<IpAddr>().unwrap()]);
    }
}
