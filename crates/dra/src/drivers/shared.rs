//! The registered instances, which the handler changes and others follow. The newest instance of a driver serves. Decides nothing else.

use std::collections::BTreeMap;
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

    /// The version of the serving instance of a driver, if that prepares claims.
    pub(super) fn is_serving(&self, driver: &str) -> bool {
        self.services.borrow().contains_key(driver)
    }

    /// With the instances locked, so that nobody publishes older ones later.
    fn publish(&self, drivers: &BTreeMap<String, BTreeMap<InstanceId, Instance>>) {
        let serving = || drivers.iter().filter_map(|(name, known)| Some((name, known.last_key_value()?)));
        self.services.send_replace(
            serving().map(|(name, (_, instance))| (name.clone(), instance.service.clone())).collect(),
        );
        self.health.send_replace(
            serving()
                .filter_map(|(name, (id, instance))| Some((name.clone(), (*id, instance.health.clone()?))))
                .collect(),
        );
    }
}
