//! Follows the cluster's Services. Every node has all of them in memory and in its store, so only the fields that the variables need
//! are cached.

use hostlet_pod::objects::services::{KnownService, KnownServices, ServiceEnv};
use hostlet_store::{Store, Table};
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::runtime::watcher::Config;
use serde::Serialize;

use super::cache::{CacheTask, Cached};

/// The Services of an API server, and the task that follows them. Until the first list they are the stored ones.
pub fn cached_services(client: Client, store: Store) -> (CacheTask<KnownServices>, ServiceEnv) {
    let rows = store.all::<KnownService>(Table::Services);
    let mut stored = KnownServices::default();
    for (key, service) in rows {
        if let Some((namespace, name)) = key.split_once('/') {
            stored.set(namespace, name, Some(service));
        }
    }
    // No stored Services do not count as listed: every cluster has at least the API server's Service.
    if stored.entries().next().is_some() {
        stored.set_listed();
    }
    let (task, known) = CacheTask::new(client, store, stored);
    (task, ServiceEnv::new(known))
}

impl Cached for KnownServices {
    type Object = Service;
    const TABLE: Table = Table::Services;
    const PLURAL: &'static str = "services";

    /// As upstream: headless Services have no variables and may be many.
    fn selection() -> Config {
        Config::default().fields("spec.clusterIP!=None")
    }

    fn put(&mut self, mut service: Service) {
        let namespace = service.metadata.namespace.take().unwrap_or_default();
        let name = service.metadata.name.take().unwrap_or_default();
        self.set(&namespace, &name, KnownService::new(service));
    }

    fn remove(&mut self, service: &Service) {
        let (namespace, name) = names(service);
        self.set(namespace, name, None);
    }

    fn set_listed(&mut self) {
        Self::set_listed(self);
    }

    fn key(service: &Service) -> String {
        let (namespace, name) = names(service);
        row_key(namespace, name)
    }

    fn row(&self, key: &str) -> Option<impl Serialize> {
        let (namespace, name) = key.split_once('/')?;
        self.get(namespace, name)
    }

    fn rows(&self) -> impl Iterator<Item = (String, impl Serialize)> {
        self.entries().map(|(namespace, name, known)| (row_key(namespace, name), known))
    }
}

fn names(service: &Service) -> (&str, &str) {
    let metadata = &service.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn row_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
