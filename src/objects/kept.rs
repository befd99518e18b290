//! Follows all objects of one kind, and keeps what is needed of them in memory and in the store, where the next daemon finds it before
//! it reaches the API server. Does not know what the objects are for.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::ControlFlow;

use kube::runtime::watcher::{Config, Event};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{Objects, follow};
use crate::store::{Store, Table};
use crate::telemetry::Changed;

/// What is kept of the objects of one kind.
pub trait Kept: Send + Sync + 'static {
    /// Their kind.
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static;

    /// The table of its rows.
    const TABLE: Table;

    /// What the log calls the objects.
    const PLURAL: &'static str;

    /// Which objects are followed.
    fn selection() -> Config {
        Config::default()
    }

    /// Applies an event.
    fn apply(&mut self, event: Event<Self::Object>);

    /// All of it as rows of the store.
    fn rows(&self) -> impl Iterator<Item = (String, impl Serialize)>;
}

/// The task that follows the objects of one kind; run by the app.
pub struct KeptTask<K> {
    client: Client,
    known: watch::Sender<K>,
    store: Store,
}

impl<K: Kept> KeptTask<K> {
    /// Begins with what is `known`.
    pub(super) fn new(client: Client, known: watch::Sender<K>, store: Store) -> Self {
        Self { client, known, store }
    }

    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut last_error = Changed::new();
        let all = Objects::<K::Object>::all(self.client);
        let follow_all = follow(all, K::selection(), |event| {
            match event {
                Ok(event) => {
                    last_error = Changed::new();
                    // In place, because a cluster may have thousands.
                    let is_complete = !matches!(event, Event::Init | Event::InitApply(_));
                    self.known.send_modify(|known| known.apply(event));
                    if is_complete {
                        write(&*self.known.borrow(), &self.store);
                    }
                }
                Err(error) => {
                    if last_error.see(error.message.clone()) {
                        let error = error.message;
                        tracing::warn!(error, "cannot watch the cluster's {}; trying again", K::PLURAL);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: everything known is published.
            () = follow_all => {}
        }
    }
}

/// Stores what is known. An unchanged row costs only a comparison; what is kept so rarely changes.
fn write<K: Kept>(known: &K, store: &Store) {
    let mut keys = HashSet::new();
    for (key, row) in known.rows() {
        store.put(K::TABLE, &key, &row);
        keys.insert(key);
    }
    store.retain(K::TABLE, |key| keys.contains(key));
}
