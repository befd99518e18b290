//! The task that serves the kubelet's socket for device plugins, and follows the devices of those that registered. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use hostlet_base::{error_chain, sleep_until};
use hostlet_host::file_work;
use hostlet_plugins::{InstanceId, incoming};
use hostlet_proto::device_plugin::registration_server::RegistrationServer;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;

use crate::follow::{follow_accepted, follow_registered};
use crate::registration::{Accepted, Instances, RegistrationService, RegistryChange, listen};
use crate::shared::Shared;

/// How many plugins that just registered may wait to be followed: each has a call open until it is, so that more only wait.
const ACCEPTED: usize = 16;

/// Pause before a failed socket, or a failed checkpoint, is tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// The task, which the app runs.
pub struct DevicesTask {
    pub(crate) shared: Arc<Shared>,
    pub(crate) instances: Arc<Instances>,
}

/// Whoever follows a plugin, until it ends.
type Followers = FuturesUnordered<BoxFuture<'static, ()>>;

impl DevicesTask {
    /// Runs until cancelled. Pods keep their devices.
    pub async fn run(self, cancel: CancellationToken) {
        let (accepted_in, mut accepted) = mpsc::channel(ACCEPTED);
        let mut serving = std::pin::pin!(serve(self.shared.clone(), accepted_in));
        let mut followers = Followers::new();
        let mut registered: BTreeMap<InstanceId, DropGuard> = BTreeMap::new();
        let mut save_at = Some(Instant::now());
        loop {
            let expiry = self.shared.read(|state| state.inventory.next_expiry());
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: it stays pinned, and never ends.
                () = &mut serving => {}
                // Cancel-safe: a plugin is taken from the channel only when returned.
                Some(plugin) = accepted.recv() => {
                    followers.push(Box::pin(follow_accepted(self.shared.clone(), plugin)));
                }
                // Cancel-safe: changes are taken only when returned.
                changes = self.instances.next() => {
                    for change in changes {
                        self.take(change, &mut followers, &mut registered);
                    }
                }
                // Cancel-safe: one that ended leaves the set only when returned.
                Some(()) = followers.next() => {}
                // Cancel-safe: a notification is consumed only when returned.
                () = self.shared.changed.notified() => save_at = Some(Instant::now()),
                // Cancel-safe: only a clock.
                () = sleep_until(expiry) => {
                    self.shared.change(|state| state.inventory.expire(Instant::now()));
                }
                // Cancel-safe: only a clock.
                () = sleep_until(save_at) => save_at = self.save().await,
            }
        }
    }

    fn take(
        &self,
        change: RegistryChange,
        followers: &mut Followers,
        registered: &mut BTreeMap<InstanceId, DropGuard>,
    ) {
        match change {
            RegistryChange::Registered(instance) => {
                let removed = CancellationToken::new();
                registered.insert(instance.id, removed.clone().drop_guard());
                followers.push(Box::pin(follow_registered(self.shared.clone(), instance, removed)));
            }
            // Its follower ends.
            RegistryChange::Deregistered(id) => drop(registered.remove(&id)),
        }
    }

    /// Writes the checkpoint. Returns when to try again.
    async fn save(&self) -> Option<Instant> {
        let error = self.shared.save().await.err()?;
        tracing::error!(error = error_chain(&error), "the checkpoint of devices cannot be written; retrying");
        Some(Instant::now() + PAUSE)
    }
}

/// Serves the kubelet's socket, forever.
async fn serve(shared: Arc<Shared>, accepted: mpsc::Sender<Accepted>) {
    let dir = shared.dir().to_owned();
    let service = RegistrationService { dir: dir.clone(), metrics: shared.metrics.clone(), accepted };
    loop {
        let directory = dir.clone();
        let problem = match file_work(move || listen(&directory)).await {
            Ok(Ok(listener)) => {
                shared.set_socket_problem(None);
                let server = Server::builder().add_service(RegistrationServer::new(service.clone()));
                let served = server.serve_with_incoming(incoming(listener)).await;
                served.err().map_or_else(|| "it was closed".to_owned(), |error| error_chain(&error))
            }
            Ok(Err(error)) => error_chain(&error),
            Err(panic) => panic.to_string(),
        };
        tracing::error!(error = problem, "the socket for device plugins cannot be served; retrying");
        shared.set_socket_problem(Some(format!("device plugins cannot register: {problem}")));
        sleep(PAUSE).await;
    }
}
