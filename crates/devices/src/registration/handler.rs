//! Serves plugins of the type `DevicePlugin`, which register as plugins of other types do: accepts them, and hands them over. Does not
//! call them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hostlet_plugins::{InstanceId, PluginEvent, PluginHandler, PluginInstance, PluginRejected};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::names::{check_resource, check_versions};
use crate::shared::Shared;

/// What changed about an instance.
pub(crate) enum RegistryChange {
    Registered(Arc<PluginInstance>),
    Deregistered(InstanceId),
}

/// The instances that are registered, and what nobody has taken notice of. Grows with the number of plugins only: an instance that is
/// deregistered before somebody takes notice leaves nothing.
#[derive(Default)]
pub(crate) struct Instances {
    changes: Mutex<BTreeMap<InstanceId, RegistryChange>>,
    changed: Notify,
}

impl Instances {
    fn change(&self, event: PluginEvent) {
        let mut changes = self.changes.lock();
        match event {
            PluginEvent::Registered(instance) => {
                changes.insert(instance.id, RegistryChange::Registered(instance));
            }
            PluginEvent::Deregistered(instance) => {
                let before = changes.remove(&instance.id);
                if before.is_none() {
                    changes.insert(instance.id, RegistryChange::Deregistered(instance.id));
                }
            }
            // Its list of devices ends with the connection.
            PluginEvent::Disconnected(_) | PluginEvent::Connected(_) | PluginEvent::Rejected { .. } => return,
        }
        drop(changes);
        self.changed.notify_one();
    }

    /// The next changes. Cancel-safe: they are taken only when returned.
    pub(crate) async fn next(&self) -> Vec<RegistryChange> {
        loop {
            let changes = std::mem::take(&mut *self.changes.lock());
            if !changes.is_empty() {
                return changes.into_values().collect();
            }
            self.changed.notified().await;
        }
    }
}

/// The handler. Clones share one state.
#[derive(Clone)]
pub struct DevicePluginHandler {
    pub(crate) instances: Arc<Instances>,
    pub(crate) shared: Arc<Shared>,
}

impl PluginHandler for DevicePluginHandler {
    fn plugin_type(&self) -> &'static str {
        "DevicePlugin"
    }

    fn validate(&self, name: &str, _: &Path, versions: &[String]) -> Result<(), PluginRejected> {
        let checked = check_versions(versions.iter().map(String::as_str)).and_then(|()| check_resource(name));
        checked.map_err(|error| PluginRejected(error.to_string()))
    }

    fn changed(&self, event: PluginEvent) {
        self.instances.change(event);
    }

    fn describe(&self, name: &str) -> Option<Value> {
        self.shared.read(|state| {
            let devices = state.inventory.devices(name)?.len();
            Some(json!({"devices": devices, "healthy": state.inventory.healthy(name).len()}))
        })
    }
}
