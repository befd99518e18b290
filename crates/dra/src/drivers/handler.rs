//! Serves plugins of the type `DRAPlugin`: accepts drivers that prepare claims. What else is to be known of drivers, such as the devices
//! that those of the old kind report, is another handler's, which sees every driver.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::names;
use hostlet_plugins::{PluginEvent, PluginHandler, PluginRejected, lazy_channel};
use hostlet_telemetry::Metrics;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::health_task::HealthTask;
use super::shared::{Instance, Services, Shared};
use crate::client::{CallMetrics, GrpcDriver, GrpcHealth, HealthService, HealthVersion, PluginVersion};
use crate::health::HealthStore;

/// The longest name that a driver may have (`resource.k8s.io`, `spec.driver`).
const MAX_NAME: usize = 63;

/// The DRA drivers of this node. Clones share one state.
#[derive(Clone)]
pub struct DraHandler {
    shared: Arc<Shared>,
    metrics: CallMetrics,
    others: Arc<dyn PluginHandler>,
}

impl DraHandler {
    /// Without any driver yet. `others` is for drivers that report their devices to the kubelet; it learns of all drivers.
    pub fn new(others: Arc<dyn PluginHandler>) -> Self {
        Self { shared: Arc::default(), metrics: CallMetrics::default(), others }
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
    }

    /// The serving instances.
    pub(crate) fn services(&self) -> watch::Receiver<Services> {
        self.shared.services.subscribe()
    }

    /// The task that follows the health of devices.
    pub(crate) fn health_task(&self, store: HealthStore) -> HealthTask {
        HealthTask::new(self.shared.health.subscribe(), store)
    }
}

impl PluginHandler for DraHandler {
    fn plugin_type(&self) -> &'static str {
        "DRAPlugin"
    }

    /// As upstream: some drivers begin to serve only once they are registered.
    fn may_listen_later(&self) -> bool {
        true
    }

    fn validate(&self, name: &str, endpoint: &Path, versions: &[String]) -> Result<(), PluginRejected> {
        if name.len() > MAX_NAME || !names::dns_subdomain(name).is_empty() {
            return Err(PluginRejected(format!(
                "the name of a DRA driver must be a DNS subdomain of at most {MAX_NAME} characters, such as gpu.example.com"
            )));
        }
        match PluginVersion::of(versions) {
            Some(_) => Ok(()),
            None => self.others.validate(name, endpoint, versions),
        }
    }

    fn follows_connections(&self) -> bool {
        true
    }

    fn changed(&self, event: PluginEvent) {
        match &event {
            PluginEvent::Registered(plugin) => {
                if let Some(version) = PluginVersion::of(&plugin.versions) {
                    let (name, endpoint) = (&plugin.name, &plugin.endpoint);
                    // One for all calls, as upstream.
                    let channel = lazy_channel(endpoint);
                    let health =
                        HealthVersion::of(&plugin.versions).map(|version| -> Arc<dyn HealthService> {
                            Arc::new(GrpcHealth::new(version, endpoint, channel.clone()))
                        });
                    let service = GrpcDriver::new(name, version, endpoint, channel, self.metrics.clone());
                    let plugin = plugin.clone();
                    let service = Arc::new(service);
                    self.shared.registered(Instance { plugin, service, health, is_connected: true });
                }
            }
            PluginEvent::Deregistered(plugin) => self.shared.deregistered(plugin),
            PluginEvent::Disconnected(plugin) => self.shared.reached(plugin, false),
            PluginEvent::Connected(plugin) => self.shared.reached(plugin, true),
            PluginEvent::Rejected { .. } => {}
        }
        self.others.changed(event);
    }

    fn describe(&self, name: &str) -> Option<Value> {
        let mut report = self.others.describe(name).unwrap_or_else(|| json!({}));
        report["preparesClaims"] = json!(self.shared.is_serving(name));
        if let Some(socket) = self.shared.unreachable(name) {
            report["lastError"] = json!(format!(
                "nothing answers at {}; the driver ended, and its registration socket remains",
                socket.display()
            ));
        }
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hostlet_plugins::{InstanceId, PluginInstance};
    use jiff::Timestamp;

    use super::*;

    /// Accepts `1.0.0`.
    struct Old;

    impl PluginHandler for Old {
        fn plugin_type(&self) -> &'static str {
            "DRAPlugin"
        }

        fn validate(&self, _: &str, _: &Path, versions: &[String]) -> Result<(), PluginRejected> {
            let is_old = versions.iter().any(|version| version == "1.0.0");
            if is_old { Ok(()) } else { Err(PluginRejected("no".to_owned())) }
        }

        fn changed(&self, _: PluginEvent) {}

        fn describe(&self, _: &str) -> Option<Value> {
            Some(json!({"devices": 3}))
        }
    }

    fn handler() -> DraHandler {
        DraHandler::new(Arc::new(Old))
    }

    fn instance(id: u64, versions: &[&str]) -> Arc<PluginInstance> {
        Arc::new(PluginInstance {
            id: InstanceId(id),
            name: "gpu.example.com".to_owned(),
            endpoint: PathBuf::from("/dra.sock"),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
            socket: PathBuf::from("/reg.sock"),
            since: Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn drivers_of_both_kinds_are_accepted_and_others_are_not() {
        let handler = handler();
        let check = |name: &str, version: &str| {
            handler.validate(name, Path::new("/d.sock"), &[version.to_owned()]).is_ok()
        };
        assert!(check("gpu.example.com", "v1.DRAPlugin") && check("gpu.example.com", "v1beta1.DRAPlugin"));
        assert!(check("gpu.example.com", "1.0.0") && !check("gpu.example.com", "v1alpha4.Node"));
        assert!(handler.may_listen_later());
        assert!(!check("../x", "v1.DRAPlugin") && !check(&"a".repeat(64), "v1.DRAPlugin"));
    }

    #[tokio::test]
    async fn the_newest_instance_that_prepares_claims_serves() {
        let (handler, health) = (handler(), ["v1.DRAPlugin", "v1.DRAResourceHealth"]);
        let (old, new) = (instance(1, &["v1beta1.DRAPlugin"]), instance(2, &health));
        handler.changed(PluginEvent::Registered(new.clone()));
        let serving = handler.services().borrow()["gpu.example.com"].clone();
        handler.changed(PluginEvent::Registered(old.clone()));
        assert!(Arc::ptr_eq(&serving, &handler.services().borrow()["gpu.example.com"]));
        assert_eq!(handler.shared.health.borrow()["gpu.example.com"].0, InstanceId(2));
        assert_eq!(
            handler.describe("gpu.example.com").unwrap(),
            json!({"devices": 3, "preparesClaims": true})
        );
        // The new one dies, and its registration socket remains: the old one serves meanwhile.
        handler.changed(PluginEvent::Disconnected(new.clone()));
        assert!(!Arc::ptr_eq(&serving, &handler.services().borrow()["gpu.example.com"]));
        assert!(handler.shared.health.borrow().is_empty());
        handler.changed(PluginEvent::Disconnected(old.clone()));
        assert!(Arc::ptr_eq(&serving, &handler.services().borrow()["gpu.example.com"]), "none is better");
        let report = handler.describe("gpu.example.com").unwrap();
        assert!(
            report["lastError"].as_str().unwrap().starts_with("nothing answers at /dra.sock"),
            "{report}"
        );
        for instance in [&old, &new] {
            handler.changed(PluginEvent::Connected(instance.clone()));
        }
        assert!(Arc::ptr_eq(&serving, &handler.services().borrow()["gpu.example.com"]));
        assert_eq!(handler.describe("gpu.example.com").unwrap().get("lastError"), None);
        handler.changed(PluginEvent::Deregistered(new));
        assert!(handler.shared.health.borrow().is_empty() && handler.services().borrow().len() == 1);
        handler.changed(PluginEvent::Deregistered(old));
        assert!(handler.services().borrow().is_empty());
        handler.changed(PluginEvent::Registered(instance(3, &["1.0.0"])));
        assert!(handler.services().borrow().is_empty());
    }
}
