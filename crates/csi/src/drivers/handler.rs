//! Serves plugins of the type `CSIPlugin`: accepts drivers, says which instance of each serves, and what is known of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hostlet_base::{WallClock, go_quoted, names};
use hostlet_plugins::{PluginEvent, PluginHandler, PluginInstance, PluginRejected};
use hostlet_telemetry::Metrics;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::shared::{NodeInfos, Shared};
use super::task::NodeInfoTask;
use super::versions;
use crate::client::{CallMetrics, GrpcNodeService};
use crate::{NodeCapabilities, NodeService, Services};

/// The longest name that a driver may have (CSI specification, `GetPluginInfo`).
const MAX_NAME: usize = 63;

/// Makes the service of an instance.
pub(super) type Dial = Arc<dyn Fn(&PluginInstance) -> Arc<dyn NodeService> + Send + Sync>;

/// The CSI drivers of this node. Clones share one state.
#[derive(Clone)]
pub struct CsiHandler {
    shared: Arc<Shared>,
    dial: Dial,
    metrics: CallMetrics,
    clock: WallClock,
}

/// What `hostlet plugins` shows about a driver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DriverReport {
    #[serde(rename = "nodeID")]
    node_id: Option<String>,
    capabilities: Option<Vec<&'static str>>,
    topology: BTreeMap<String, String>,
    max_volumes: Option<i64>,
    last_error: Option<String>,
    next_retry: Option<Timestamp>,
}

impl CsiHandler {
    /// Without any driver yet. The task must run for drivers to be asked about the node.
    pub fn new(clock: WallClock) -> (NodeInfoTask, Self) {
        let metrics = CallMetrics::default();
        let counted = metrics.clone();
        let dial: Dial = Arc::new(move |instance| {
            Arc::new(GrpcNodeService::new(&instance.name, &instance.endpoint, counted.clone()))
        });
        Self::with_dial(clock, metrics, dial)
    }

    pub(super) fn with_dial(clock: WallClock, metrics: CallMetrics, dial: Dial) -> (NodeInfoTask, Self) {
        let shared = Arc::<Shared>::default();
        let task = NodeInfoTask::new(shared.clone());
        (task, Self { shared, dial, metrics, clock })
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
    }

    /// The node services of the registered drivers; of several instances of one driver that of the newest.
    pub fn services(&self) -> watch::Receiver<Services> {
        self.shared.services()
    }

    /// What the registered drivers say of this node.
    pub fn infos(&self) -> watch::Receiver<NodeInfos> {
        self.shared.infos()
    }

    /// Asks a driver again what it says of this node, e.g. how many volumes may be attached. Returns at once. Does nothing if the driver
    /// is not registered.
    pub fn refresh(&self, driver: &str) {
        self.shared.change(|state| state.refresh(driver, Instant::now()));
        self.shared.due.notify_one();
    }
}

impl PluginHandler for CsiHandler {
    fn plugin_type(&self) -> &'static str {
        "CSIPlugin"
    }

    /// Unlike upstream it accepts a second instance with the same version, as a rolling update has for a moment.
    fn validate(&self, name: &str, endpoint: &Path, versions: &[String]) -> Result<(), PluginRejected> {
        // Also the name of a directory.
        if name.len() > MAX_NAME || !names::dns_subdomain(&name.to_ascii_lowercase()).is_empty() {
            return Err(PluginRejected(format!(
                "the name of a CSI driver must be a DNS subdomain of at most {MAX_NAME} characters, such as csi.example.com"
            )));
        }
        versions::check(versions).map_err(|error| {
            PluginRejected(format!(
                "validation failed for CSI Driver {name} at endpoint {}: kubernetes.io/csi: ValidatePlugin for CSI driver {} failed. \
                 {error}",
                endpoint.display(),
                go_quoted(name)
            ))
        })
    }

    fn changed(&self, event: PluginEvent) {
        match event {
            PluginEvent::Registered(instance) => {
                let service = (self.dial)(&instance);
                let now = Instant::now();
                self.shared.change(|state| state.registered(&instance.name, instance.id, service, now));
            }
            PluginEvent::Deregistered(instance) => {
                self.shared.change(|state| state.deregistered(&instance.name, instance.id));
            }
            // Each call says whether it can be reached.
            PluginEvent::Disconnected(_) | PluginEvent::Connected(_) | PluginEvent::Rejected { .. } => return,
        }
        self.shared.due.notify_one();
    }

    fn describe(&self, name: &str) -> Option<Value> {
        let view = self.shared.read(|state| state.view(name))?;
        let (now, clock) = (Instant::now(), self.clock.now());
        let moment = |moment: Instant| {
            let left = SignedDuration::try_from(moment.saturating_duration_since(now)).unwrap_or_default();
            clock.checked_add(left).unwrap_or(clock)
        };
        let info = view.said.info;
        let report = DriverReport {
            node_id: info.as_ref().map(|info| info.node_id.clone()),
            capabilities: view.said.capabilities.map(capability_names),
            max_volumes: info.as_ref().and_then(|info| info.max_volumes),
            topology: info.map(|info| info.topology).unwrap_or_default(),
            last_error: view.said.failure,
            next_retry: view.next.map(moment),
        };
        serde_json::to_value(report).ok()
    }
}

/// The specification's names.
fn capability_names(can: NodeCapabilities) -> Vec<&'static str> {
    let NodeCapabilities { stage, stats, expand, single_node_multi_writer, mount_group, health } = can;
    let all = [
        (stage, "STAGE_UNSTAGE_VOLUME"),
        (stats, "GET_VOLUME_STATS"),
        (expand, "EXPAND_VOLUME"),
        (single_node_multi_writer, "SINGLE_NODE_MULTI_WRITER"),
        (mount_group, "VOLUME_MOUNT_GROUP"),
        (health, "GET_VOLUME_HEALTH"),
    ];
    all.into_iter().filter_map(|(can, name)| can.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_checked() {
        let (_, handler) = CsiHandler::new(WallClock::system());
        let validate = |name: &str, version: &str| {
            let checked = handler.validate(name, Path::new("/csi.sock"), &[version.to_owned()]);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(validate("csi.Example.com", "1.0.0"), Ok(()));
        for name in ["../x", "a/b", "a b", &"a".repeat(64)] {
            assert!(validate(name, "1.0.0").unwrap_err().contains("DNS subdomain"), "{name}");
        }
        assert_eq!(
            validate("csi.example.com", "0.3.0").unwrap_err(),
            "validation failed for CSI Driver csi.example.com at endpoint /csi.sock: kubernetes.io/csi: ValidatePlugin for CSI driver \
             \"csi.example.com\" failed. None of the versions specified [\"0.3.0\"] are supported. err=highest supported version reported \
             is 0.3.0, must be v1.x"
        );
    }
}
