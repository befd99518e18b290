//! The cluster's RuntimeClasses: which handler of the runtime each stands for (Kubernetes docs, "Runtime Class"). Follows all of
//! them, as upstream; stores only names and handlers.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Client;
use kube::runtime::watcher::Event;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::kept::{Kept, KeptTask};
use crate::store::{Store, Table};
use crate::types::watching;

/// How long after start-up a pod waits for the first list before its class counts as missing.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no handler for a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeClassError {
    /// The class does not exist. The text is upstream's.
    #[error("runtimeclass.node.k8s.io {0:?} not found")]
    NotFound(String),
    /// The API server has not listed the classes, and an earlier daemon did not know this one.
    #[error("failed to lookup RuntimeClass {0}: the runtime classes have not been read yet")]
    Unread(String),
}

/// Handlers by the name of their class.
type Handlers = BTreeMap<Box<str>, Box<str>>;

/// The known classes.
#[derive(Debug, Default)]
pub struct KnownClasses {
    handlers: Handlers,
    listing: Handlers,
    /// Whether the API server has listed them.
    is_listed: bool,
}

impl Kept for KnownClasses {
    type Object = RuntimeClass;
    const TABLE: Table = Table::RuntimeClasses;
    const PLURAL: &'static str = "runtime classes";

    fn apply(&mut self, event: Event<RuntimeClass>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(class) => put(&mut self.listing, class),
            Event::InitDone => {
                self.handlers = std::mem::take(&mut self.listing);
                self.is_listed = true;
            }
            Event::Apply(class) => put(&mut self.handlers, class),
            Event::Delete(class) => {
                self.handlers.remove(class.metadata.name.as_deref().unwrap_or_default());
            }
        }
    }

    fn key(class: &RuntimeClass) -> String {
        class.metadata.name.clone().unwrap_or_default()
    }

    fn row(&self, key: &str) -> Option<impl Serialize> {
        self.handlers.get(key)
    }

    fn rows(&self) -> impl Iterator<Item = (String, impl Serialize)> {
        self.handlers.iter().map(|(name, handler)| (name.to_string(), handler))
    }
}

fn put(handlers: &mut Handlers, class: RuntimeClass) {
    handlers.insert(class.metadata.name.unwrap_or_default().into(), class.handler.into());
}

/// The known classes. Clones share them.
#[derive(Clone, Debug)]
pub struct RuntimeClasses {
    known: watch::Receiver<KnownClasses>,
    /// Deadline of the wait for the first list.
    deadline: Instant,
}

impl RuntimeClasses {
    /// The classes of an API server, and the task that watches them. Until the first list they are the stored ones.
    pub fn new(client: Client, store: Store) -> (KeptTask<KnownClasses>, Self) {
        let rows = store.all::<String>(Table::RuntimeClasses);
        let handlers = rows.into_iter().map(|(name, handler)| (name.into(), handler.into())).collect();
        let (known, receiver) = watch::channel(KnownClasses { handlers, ..KnownClasses::default() });
        let task = KeptTask::new(client, known, store);
        (task, Self { known: receiver, deadline: Instant::now() + FIRST_LIST_TIMEOUT })
    }

    /// The classes of a standalone host: none.
    pub fn none() -> Self {
        let known =
            watch::Sender::new(KnownClasses { is_listed: true, ..KnownClasses::default() }).subscribe();
        Self { known, deadline: Instant::now() }
    }

    /// The handler of a class. If it is not known, waits for the first list, up to a deadline after start-up. Cancel-safe.
    pub async fn handler(&self, class: &str) -> Result<String, RuntimeClassError> {
        let settled = |known: &KnownClasses| known.is_listed || known.handlers.contains_key(class);
        // The lookup reports what is still unknown.
        let _ = timeout_at(self.deadline, watching::becomes(&mut self.known.clone(), settled)).await;
        let known = self.known.borrow();
        match known.handlers.get(class) {
            Some(handler) => Ok(handler.to_string()),
            None if known.is_listed => Err(RuntimeClassError::NotFound(class.to_owned())),
            None => Err(RuntimeClassError::Unread(class.to_owned())),
        }
    }

    /// Waits until the class is known. Cancel-safe.
    pub async fn appears(&self, class: &str) {
        let appeared = |known: &KnownClasses| known.handlers.contains_key(class);
        watching::becomes(&mut self.known.clone(), appeared).await;
    }

    /// The handler of a class, if it is known now.
    pub fn known(&self, class: &str) -> Option<String> {
        self.known.borrow().handlers.get(class).map(ToString::to_string)
    }
}

#[cfg(test)]
#[path = "runtime_classes_tests.rs"]
mod tests;
