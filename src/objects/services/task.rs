//! The watch of the cluster's services, and the handle by which pods get their variables.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::runtime::watcher::{Config, Event};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::known::{KnownServices, ServiceVariables};
use crate::api::{Objects, follow};
use crate::store::{Store, Table};
use crate::telemetry::Changed;
use crate::types::watching;

/// How long after the daemon's start a container waits for the first listing before it is told to be without.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// What is known of the services; all clones know the same.
#[derive(Clone, Debug)]
pub struct ServiceEnv {
    known: watch::Receiver<KnownServices>,
    /// Until when a first listing is worth waiting for.
    patience: Instant,
}

impl ServiceEnv {
    /// The services of an API server, and the task that watches them. Until it answers they are as they were stored.
    pub fn new(client: Client, store: Store) -> (ServicesTask, Self) {
        let (known, receiver) = watch::channel(KnownServices::after(store.all(Table::Services)));
        let task = ServicesTask { client, known, store };
        (task, Self { known: receiver, patience: Instant::now() + FIRST_ANSWER })
    }

    /// Those of a host without an API server.
    pub fn none() -> Self {
        let known = watch::Sender::new(KnownServices::none()).subscribe();
        Self { known, patience: Instant::now() }
    }

    /// The variables of a pod in `namespace`, with those of the services there if it wants `links`; none before all
    /// services were listed once.
    pub fn variables(&self, namespace: &str, links: bool) -> Option<ServiceVariables> {
        let known = self.known.borrow();
        known.is_listed().then(|| known.variables(namespace, links))
    }

    /// Whether all services were listed once.
    pub fn is_listed(&self) -> bool {
        self.known.borrow().is_listed()
    }

    /// Waits until all services were listed once. Cancel-safe.
    pub async fn listed(&self) {
        watching::becomes(&mut self.known.clone(), KnownServices::is_listed).await;
    }

    /// The same, but not for long. Cancel-safe.
    pub async fn first_answer(&self) {
        // What is not known then is told as such.
        let _ = timeout_at(self.patience, self.listed()).await;
    }
}

/// Watches the services; to be run by the app.
pub struct ServicesTask {
    client: Client,
    known: watch::Sender<KnownServices>,
    store: Store,
}

impl ServicesTask {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        // Headless services have no variables, and may be many. As upstream.
        let config = Config::default().fields("spec.clusterIP!=None");
        let mut trouble = Changed::new();
        let following = follow(Objects::<Service>::all(self.client), config, |news| {
            match news {
                Ok(event) => {
                    trouble = Changed::new();
                    // In place, as a cluster may have thousands. Only who waits for the first listing is woken.
                    let is_whole = !matches!(event, Event::Init | Event::InitApply(_));
                    self.known.send_modify(|known| known.apply(event));
                    if is_whole {
                        keep(&self.known.borrow(), &self.store);
                    }
                }
                Err(error) => {
                    if trouble.see(error.message.clone()) {
                        tracing::warn!(
                            error = error.message,
                            "cannot watch the cluster's services; trying again"
                        );
                    }
                }
            }
            ControlFlow::Continue(())
        });
        tokio::select! {
            // Cancel-safe: waiting for a token takes nothing.
            () = cancel.cancelled() => {}
            // Cancel-safe: what is known was told.
            () = following => {}
        }
    }
}

/// Stores what is known. What is stored already costs a look; services change seldom.
fn keep(known: &KnownServices, store: &Store) {
    let keys: HashSet<String> = known.rows().map(|(key, _)| key).collect();
    for (key, service) in known.rows() {
        store.put(Table::Services, &key, service);
    }
    store.retain(Table::Services, |key| keys.contains(key));
}
