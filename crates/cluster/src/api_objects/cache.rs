//! Follows all objects of one kind, and caches what is needed of them in memory and in the store, where the next daemon finds it
//! before it reaches the API server. Does not know what the objects are for.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::ControlFlow;

use hostlet_store::{Store, Table};
use hostlet_telemetry::Changed;
use kube::runtime::watcher::{Config, Event};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{TypedApi, follow};

/// What is cached of all objects of one kind. The default is what is known before the first list.
pub trait Cached: Default + Send + Sync + 'static {
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

    /// Adds or replaces an object.
    fn put(&mut self, object: Self::Object);

    /// Removes an object.
    fn remove(&mut self, object: &Self::Object);

    /// Records that this has all objects of a list.
    fn set_listed(&mut self);

    /// The key of an object's row.
    fn key(object: &Self::Object) -> String;

    /// The row with this key, unless nothing is cached of its object.
    fn row(&self, key: &str) -> Option<impl Serialize>;

    /// All of it as rows of the store.
    fn rows(&self) -> impl Iterator<Item = (String, impl Serialize)>;
}

/// Applies an event to what is known. A list replaces it once the list is complete.
pub(super) fn apply<K: Cached>(known: &mut K, listing: &mut K, event: Event<K::Object>) {
    match event {
        Event::Init => *listing = K::default(),
        Event::InitApply(object) => listing.put(object),
        Event::InitDone => {
            *known = std::mem::take(listing);
            known.set_listed();
        }
        Event::Apply(object) => known.put(object),
        Event::Delete(object) => known.remove(&object),
    }
}

/// The rows that an event changes.
enum Rows {
    None,
    One(String),
    All,
}

impl Rows {
    fn of<K: Cached>(event: &Event<K::Object>) -> Self {
        match event {
            Event::Init | Event::InitApply(_) => Self::None,
            Event::InitDone => Self::All,
            Event::Apply(object) | Event::Delete(object) => Self::One(K::key(object)),
        }
    }
}

/// The task that follows the objects of one kind; run by the app.
pub struct CacheTask<K> {
    client: Client,
    known: watch::Sender<K>,
    store: Store,
}

impl<K: Cached> CacheTask<K> {
    /// The task, and what it knows: at first the rows that an earlier daemon stored.
    pub(super) fn new(client: Client, store: Store, stored: K) -> (Self, watch::Receiver<K>) {
        let (known, receiver) = watch::channel(stored);
        (Self { client, known, store }, receiver)
    }

    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let (mut last_error, mut listing) = (Changed::new(), K::default());
        let follow_all = follow(self.client, TypedApi::<K::Object>::all, K::selection(), |event| {
            match event {
                Ok(event) => {
                    last_error = Changed::new();
                    // In place, and one row for one object, because a cluster may have thousands.
                    let rows = Rows::of::<K>(&event);
                    self.known.send_modify(|known| apply(known, &mut listing, event));
                    write(&*self.known.borrow(), &rows, &self.store);
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

/// Stores what is known. An unchanged row costs only a comparison, and few rows change.
fn write<K: Cached>(known: &K, rows: &Rows, store: &Store) {
    match rows {
        Rows::None => {}
        Rows::One(key) => match known.row(key) {
            Some(row) => store.put(K::TABLE, key, &row),
            None => store.remove(K::TABLE, key),
        },
        Rows::All => {
            let mut keys = HashSet::new();
            for (key, row) in known.rows() {
                store.put(K::TABLE, &key, &row);
                keys.insert(key);
            }
            store.retain(K::TABLE, |key| keys.contains(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use k8s_openapi::api::node::v1::RuntimeClass;
    use serde_json::json;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::api::fake::FakeApi;
    use hostlet_base::WallClock;

    /// How often all rows or one were made, in the only test that makes any.
    static ALL: AtomicUsize = AtomicUsize::new(0);
    static SINGLE: AtomicUsize = AtomicUsize::new(0);

    /// Handlers by class.
    #[derive(Default)]
    struct Counted(BTreeMap<String, String>);

    impl Cached for Counted {
        type Object = RuntimeClass;
        const TABLE: Table = Table::RuntimeClasses;
        const PLURAL: &'static str = "classes";

        fn put(&mut self, class: RuntimeClass) {
            self.0.insert(Self::key(&class), class.handler);
        }

        fn remove(&mut self, class: &RuntimeClass) {
            self.0.remove(&Self::key(class));
        }

        fn set_listed(&mut self) {}

        fn key(class: &RuntimeClass) -> String {
            class.metadata.name.clone().unwrap()
        }

        fn row(&self, key: &str) -> Option<impl Serialize> {
            SINGLE.fetch_add(1, Ordering::SeqCst);
            self.0.get(key)
        }

        fn rows(&self) -> impl Iterator<Item = (String, impl Serialize)> {
            ALL.fetch_add(1, Ordering::SeqCst);
            self.0.iter().map(|(key, handler)| (key.clone(), handler))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_an_object_makes_one_row_and_no_others() {
        let (api, store) = (FakeApi::new(WallClock::system()), Store::default());
        let path = |name: &str| format!("/apis/node.k8s.io/v1/runtimeclasses/{name}");
        let put = |name: &str, handler: &str| {
            api.put(
                &path(name),
                &json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                "metadata": {"name": name}, "handler": handler}),
            );
        };
        ["a", "b", "gone"].iter().for_each(|name| put(name, "first"));
        let (task, _known) = CacheTask::new(api.client(), store.clone(), Counted::default());
        let cancel = CancellationToken::new();
        let stored = async |expected: &[(&str, &str)]| {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(key, row)| ((*key).to_owned(), (*row).to_owned())).collect();
            let wait = async {
                loop {
                    let mut rows: Vec<(String, String)> =
                        store.all(Table::RuntimeClasses).into_iter().collect();
                    rows.sort();
                    if rows == expected {
                        return;
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(Duration::from_secs(600), wait).await.unwrap();
        };
        let change = async {
            stored(&[("a", "first"), ("b", "first"), ("gone", "first")]).await;
            for handler in ["second", "third"] {
                put("b", handler);
                stored(&[("a", "first"), ("b", handler), ("gone", "first")]).await;
            }
            api.delete(&path("gone"), None);
            stored(&[("a", "first"), ("b", "third")]).await;
            cancel.cancel();
        };
        tokio::join!(task.run(cancel.clone()), change);
        assert_eq!((ALL.load(Ordering::SeqCst), SINGLE.load(Ordering::SeqCst)), (1, 3));
    }
}
