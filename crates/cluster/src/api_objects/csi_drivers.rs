//! Follows the cluster's CSIDriver objects: all of them, as upstream. Caches only what a kubelet uses of their specs.

use std::sync::Arc;

use hostlet_csi::{DriverObjects, KnownDrivers, used_of_spec};
use hostlet_store::{Store, Table};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use kube::Client;
use serde::Serialize;

use super::cache::{CacheTask, Cached};

/// The CSIDriver objects of an API server, and the task that follows them. Until the first list they are the stored ones.
pub fn cached_csi_drivers(client: Client, store: Store) -> (CacheTask<KnownDrivers>, DriverObjects) {
    let rows = store.all::<CSIDriverSpec>(Table::CsiDrivers);
    let specs = rows.into_iter().map(|(name, spec)| (name.into(), Arc::new(spec))).collect();
    let stored = KnownDrivers { specs, is_listed: false };
    let (task, known) = CacheTask::new(client, store, stored);
    (task, DriverObjects::new(known))
}

impl Cached for KnownDrivers {
    type Object = CSIDriver;
    const TABLE: Table = Table::CsiDrivers;
    const PLURAL: &'static str = "CSIDriver objects";

    fn put(&mut self, driver: CSIDriver) {
        let name = driver.metadata.name.unwrap_or_default().into();
        self.specs.insert(name, Arc::new(used_of_spec(driver.spec)));
    }

    fn remove(&mut self, driver: &CSIDriver) {
        self.specs.remove(driver.metadata.name.as_deref().unwrap_or_default());
    }

    fn set_listed(&mut self) {
        self.is_listed = true;
    }

    fn key(driver: &CSIDriver) -> String {
        driver.metadata.name.clone().unwrap_or_default()
    }

    fn row(&self, key: &str) -> Option<impl Serialize> {
        self.specs.get(key).map(|spec| &**spec)
    }

    fn rows(&self) -> impl Iterator<Item = (String, impl Serialize)> {
        self.specs.iter().map(|(name, spec)| (name.to_string(), &**spec))
    }
}

#[cfg(test)]
#[path = "csi_drivers_tests.rs"]
mod tests;
