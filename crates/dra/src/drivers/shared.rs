//! The registered instances, which the handler changes and others follow. The newest instance of a driver that can be reached serves, or
//! without one the newest. Decides nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_plugins::{InstanceId, PluginInstance};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::DriverService;
use crate::client::HealthService;

/// The serving instances that prepare claims, by the driver's name.
pub(crate) type Services = BTreeMap<String, Arc<dyn DriverService>>;

/// The serving instances that report the health of devices, by the driver's name.
pub(super) type HealthServices = BTreeMap<String, (InstanceId, Arc<dyn HealthService>)>;

/// A registered instance of a driver.
pub(super) struct Instance {
    pub(super) plugin: Arc<PluginInstance>,
    pub(super) service: Arc<dyn DriverService>,
    pub(super) health: Option<Arc<dyn HealthService>>,
    /// Whether its service can be reached.
    pub(super) is_connected: bool,
}

/// The instances of all drivers.
#[derive(Default)]
pub(super) struct Shared {
    drivers: Mutex<BTreeMap<String, BTreeMap<InstanceId, Instance>>>,
    pub(super) services: watch::Sender<Services>,
    pub(super) health: watch::Sender<HealthServices>,
}

impl Shared {
    pub(super) fn registered(&self, instance: Instance) {
        let mut drivers = self.drivers.lock();
        let known = drivers.entry(instance.plugin.name.clone()).or_default();
        known.insert(instance.plugin.id, instance);
        self.publish(&drivers);
    }

    pub(super) fn deregistered(&self, plugin: &PluginInstance) {
        let mut drivers = self.drivers.lock();
        if let Some(known) = drivers.get_mut(&plugin.name) {
            known.remove(&plugin.id);
            if known.is_empty() {
                drivers.remove(&plugin.name);
            }
        }
        self.publish(&drivers);
    }

    /// Notes whether the service of an instance can be reached.
    pub(super) fn reached(&self, plugin: &PluginInstance, is_connected: bool) {
        let mut drivers = self.drivers.lock();
        let known = drivers.get_mut(&plugin.name).and_then(|known| known.get_mut(&plugin.id));
        if let Some(instance) = known {
            instance.is_connected = is_connected;
            self.publish(&drivers);
        }
    }

    /// The socket of the serving instance of a driver, if nothing answers at it.
    pub(super) fn unreachable(&self, driver: &str) -> Option<PathBuf> {
        let drivers = self.drivers.lock();
        let (_, instance) = serving(drivers.get(driver)?)?;
        (!instance.is_connected).then(|| instance.plugin.endpoint.clone())
    }

    /// The version of the serving instance of a driver, if that prepares claims.
    pub(super) fn is_serving(&self, driver: &str) -> bool {
        self.services.borrow().contains_key(driver)
    }

    /// With the instances locked, so that nobody publishes older ones later.
    fn publish(&self, drivers: &BTreeMap<String, BTreeMap<InstanceId, Instance>>) {
        let all = || drivers.iter().filter_map(|(name, known)| Some((name, serving(known)?)));
        self.services.send_replace(
            all().map(|(name, (_, instance))| (name.clone(), instance.service.clone())).collect(),
        );
        self.health.send_replace(
            all()
                .filter_map(|(name, (id, instance))| Some((name.clone(), (*id, instance.health.clone()?))))
                .collect(),
        );
    }
}

/// The instance of a driver that serves.
fn serving(known: &BTreeMap<InstanceId, Instance>) -> Option<(&InstanceId, &Instance)> {
    known.iter().rev().find(|(_, instance)| instance.is_connected).or_else(|| known.last_key_value())
}
