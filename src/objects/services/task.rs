//! The watch of the cluster's Services, and the handle that gives pods their variables.

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

/// How long after start-up containers wait for the first list before the missing variables are an error.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The known Services. Clones share them.
#[derive(Clone, Debug)]
pub struct ServiceEnv {
    known: watch::Receiver<KnownServices>,
    /// Deadline of the wait for the first list.
    deadline: Instant,
}

impl ServiceEnv {
    /// The Services of an API server, and the task that watches them. Until the first list they are the stored ones.
    pub fn new(client: Client, store: Store) -> (ServicesTask, Self) {
        let (known, receiver) = watch::channel(KnownServices::restored(store.all(Table::Services)));
        let task = ServicesTask { client, known, store };
        (task, Self { known: receiver, deadline: Instant::now() + FIRST_LIST_TIMEOUT })
    }

    /// The Services of a standalone host.
    pub fn none() -> Self {
        let known = watch::Sender::new(KnownServices::none()).subscribe();
        Self { known, deadline: Instant::now() }
    }

    /// The variables for a pod in `namespace`, including the Services there with `links`; `None` before the first list.
    pub fn variables(&self, namespace: &str, links: bool) -> Option<ServiceVariables> {
        let known = self.known.borrow();
        known.is_listed().then(|| known.variables(namespace, links))
    }

    /// Whether the Services were listed.
    pub fn is_listed(&self) -> bool {
        self.known.borrow().is_listed()
    }

    /// Waits for the first list. Cancel-safe.
    pub async fn listed(&self) {
        watching::becomes(&mut self.known.clone(), KnownServices::is_listed).await;
    }

    /// Waits for the first list, up to the deadline. Cancel-safe.
    pub async fn first_answer(&self) {
        // The caller reports what is still unknown.
        let _ = timeout_at(self.deadline, self.listed()).await;
    }
}

/// The task that watches the Services; run by the app.
pub struct ServicesTask {
    client: Client,
    known: watch::Sender<KnownServices>,
    store: Store,
}

impl ServicesTask {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        // As upstream: headless Services have no variables and may be many.
        let config = Config::default().fields("spec.clusterIP!=None");
        let mut last_error = Changed::new();
        let follow_services = follow(Objects::<Service>::all(self.client), config, |event| {
            match event {
                Ok(event) => {
                    last_error = Changed::new();
                    // In place, because a cluster may have thousands. Only waiters for the first list are woken.
                    let is_complete = !matches!(event, Event::Init | Event::InitApply(_));
                    self.known.send_modify(|known| known.apply(event));
                    if is_complete {
                        store_services(&self.known.borrow(), &self.store);
                    }
                }
                Err(error) => {
                    if last_error.see(error.message.clone()) {
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
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: everything known is published.
            () = follow_services => {}
        }
    }
}

/// Stores the known Services. An unchanged row costs only a comparison; Services change rarely.
fn store_services(known: &KnownServices, store: &Store) {
    let keys: HashSet<String> = known.rows().map(|(key, _)| key).collect();
    for (key, service) in known.rows() {
        store.put(Table::Services, &key, service);
    }
    store.retain(Table::Services, |key| keys.contains(key));
}
