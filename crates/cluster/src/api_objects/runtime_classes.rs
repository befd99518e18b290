//! Follows the cluster's RuntimeClasses: all of them, as upstream. Caches only names and handlers.

use hostlet_pod::objects::{KnownClasses, RuntimeClasses};
use hostlet_store::{Store, Table};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Client;
use serde::Serialize;

use super::cache::{CacheTask, Cached};

/// The classes of an API server, and the task that follows them. Until the first list they are the stored ones.
pub fn cached_runtime_classes(client: Client, store: Store) -> (CacheTask<KnownClasses>, RuntimeClasses) {
    let rows = store.all::<String>(Table::RuntimeClasses);
    let handlers = rows.into_iter().map(|(name, handler)| (name.into(), handler.into())).collect();
    let stored = KnownClasses { handlers, is_listed: false };
    let (task, known) = CacheTask::new(client, store, stored);
    (task, RuntimeClasses::new(known))
}

impl Cached for KnownClasses {
    type Object = RuntimeClass;
    const TABLE: Table = Table::RuntimeClasses;
    const PLURAL: &'static str = "runtime classes";

    fn put(&mut self, class: RuntimeClass) {
        self.handlers.insert(class.metadata.name.unwrap_or_default().into(), class.handler.into());
    }

    fn remove(&mut self, class: &RuntimeClass) {
        self.handlers.remove(class.metadata.name.as_deref().unwrap_or_default());
    }

    fn set_listed(&mut self) {
        self.is_listed = true;
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

#[cfg(test)]
#[path = "runtime_classes_tests.rs"]
mod tests;
