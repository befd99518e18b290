//! Describes this node with or without an API server, for users of this host. Reads observers only; writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::Quantity;
use hostlet_base::node::{CgroupLimit, SignalLook, Threshold};
use hostlet_runtime::cri::Version;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::register::labels;
use super::status::{set_heartbeats, update};
use super::{HostFacts, NodeFacts, NodeInputs, NodeSettings, RuntimeFacts};

/// What a node is, as its own kubelet sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDescription {
    /// The Node, without images. On a standalone host no API server has it.
    pub node: Node,
    /// What `systemReserved`, `kubeReserved` and `reservedSystemCPUs` keep from pods, by resource.
    pub reserved: BTreeMap<String, String>,
    /// What hard eviction thresholds keep from pods, by resource.
    pub eviction_thresholds: BTreeMap<String, String>,
    /// The last look at each eviction signal that could be read, by its name.
    #[serde(default)]
    pub signals: BTreeMap<String, SignalLook>,
    /// The limits of cgroups that keep reserved resources free.
    #[serde(default)]
    pub limits: Vec<CgroupLimit>,
}

/// Describes this node.
#[derive(Clone)]
pub struct NodeDescriber {
    /// The configured part: name, labels, reservations, capacity.
    pub settings: Arc<NodeSettings>,
    /// What is observed of it.
    pub inputs: NodeInputs,
    /// The Node on the API server, whose conditions have the times of their transitions.
    pub latest: watch::Receiver<Option<Arc<Node>>>,
    /// How the limits of cgroups stand.
    pub limits: watch::Receiver<Vec<CgroupLimit>>,
}

impl NodeDescriber {
    /// The node as of now. `version` is the runtime's, if it answers.
    pub fn describe(&self, version: Option<Version>, now: Timestamp) -> NodeDescription {
        let settings = &self.settings;
        let known = self.latest.borrow().clone();
        let mut node = known.map_or_else(
            || Node {
                metadata: ObjectMeta {
                    name: Some(settings.name.clone()),
                    labels: Some(labels(settings)),
                    ..ObjectMeta::default()
                },
                ..Node::default()
            },
            |node| (*node).clone(),
        );
        node.metadata.managed_fields = None;
        let facts = self.facts(version);
        let status = node.status.get_or_insert_default();
        update(status, settings, &facts, now);
        set_heartbeats(status, &facts.kernel, now);
        status.images = None;
        NodeDescription {
            node,
            reserved: reserved(settings),
            eviction_thresholds: thresholds(settings),
            signals: self.signals(),
            limits: self.limits.borrow().clone(),
        }
    }

    fn signals(&self) -> BTreeMap<String, SignalLook> {
        let pressure = self.inputs.pressure.borrow();
        pressure.looks.iter().map(|(signal, look)| (signal.name().to_owned(), look.clone())).collect()
    }

    fn facts(&self, version: Option<Version>) -> NodeFacts {
        let inputs = &self.inputs;
        let runtime = RuntimeFacts { version, images: Vec::new() };
        // Readiness depends on the version, which is observed here.
        let inputs = NodeInputs { runtime: watch::channel(runtime.clone()).1, ..inputs.clone() };
        NodeFacts {
            host: HostFacts {
                machine: inputs.host.borrow().clone(),
                addresses: inputs.addresses.now().to_vec(),
            },
            runtime,
            status: inputs.status.borrow().clone(),
            pressures: inputs.pressure.borrow().states.clone(),
            kernel: inputs.kernel.borrow().clone(),
            volumes_in_use: inputs.volumes_in_use.desired(),
            devices: inputs.devices.borrow().clone(),
            unready: inputs.unready(Instant::now()),
        }
    }
}

fn reserved(settings: &NodeSettings) -> BTreeMap<String, String> {
    let reserved = &settings.node.reserved;
    let sums = reserved.resources.iter().filter_map(|(name, amounts)| {
        let sum = amounts.iter().copied().reduce(Quantity::plus)?;
        Some((name.clone(), sum.to_string()))
    });
    let mut all: BTreeMap<String, String> = sums.collect();
    if let Some(cpus) = &reserved.system_cpus {
        all.insert("cpu".to_owned(), cpus.len().to_string());
    }
    all
}

fn thresholds(settings: &NodeSettings) -> BTreeMap<String, String> {
    let text = |threshold: &Threshold| match threshold {
        Threshold::Amount(amount) => amount.to_string(),
        Threshold::Part(part) => format!("{}%", part * 100.0),
    };
    let set = settings.node.reserved.eviction_hard.iter();
    set.filter_map(|(signal, threshold)| Some((signal.resource()?.to_owned(), text(threshold)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{KernelConditions, VolumesInUse, testing};
    use hostlet_base::node::{NodeAddresses, NodePressure, PluginResources};
    use hostlet_observe::pleg;

    fn describer(latest: Option<Node>) -> NodeDescriber {
        let facts = testing::facts();
        let mut settings = testing::settings();
        settings.node.reserved.resources =
            [("memory".to_owned(), vec![Quantity::bytes(1 << 30), Quantity::bytes(1 << 29)])].into();
        let inputs = NodeInputs {
            host: watch::channel(facts.host.machine).1,
            addresses: NodeAddresses::fixed(facts.host.addresses),
            runtime: watch::channel(RuntimeFacts::default()).1,
            status: watch::channel(facts.status).1,
            ready_at: watch::channel(Some(Instant::now())).1,
            pleg: watch::channel(pleg::Health { last_relist: Instant::now(), error: None }).1,
            pressure: watch::channel(NodePressure::from([])).1,
            kernel: watch::channel(KernelConditions::default()).1,
            volumes_in_use: VolumesInUse::none(),
            devices: watch::channel(PluginResources::default()).1,
            storage: watch::channel(None).1,
            others: watch::channel(Vec::new()).1,
        };
        NodeDescriber {
            settings: Arc::new(settings),
            inputs,
            latest: watch::channel(latest.map(Arc::new)).1,
            limits: watch::channel(Vec::new()).1,
        }
    }

    fn ready(description: &NodeDescription) -> (String, Option<Timestamp>) {
        let conditions = description.node.status.clone().unwrap().conditions.unwrap();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
        (ready.status, ready.last_transition_time.map(|time| time.0))
    }

    #[tokio::test(start_paused = true)]
    async fn a_standalone_node_is_described_without_an_api_server() {
        let (describer, now) = (describer(None), Timestamp::from_second(1000).unwrap());
        let version = testing::facts().runtime.version;
        let described = describer.describe(version, now);
        assert_eq!(described.node.metadata.name.as_deref(), Some("node1"));
        let status = described.node.status.clone().unwrap();
        assert_eq!(status.capacity.unwrap()["pods"].0, "250");
        assert_eq!(status.addresses.unwrap()[0].address, "10.77.0.1");
        assert!(status.images.is_none());
        assert_eq!(described.reserved["memory"], "1536Mi");
        assert_eq!(described.eviction_thresholds["memory"], "100Mi");
        assert_eq!(described.eviction_thresholds["ephemeral-storage"], "1%");
        // A runtime that does not answer makes it not ready.
        assert_eq!(ready(&describer.describe(None, now)).0, "False");
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_keeps_the_time_of_its_transition() {
        let then = Timestamp::from_second(10).unwrap();
        let first = describer(None).describe(testing::facts().runtime.version, then);
        let is = ready(&first);
        let later = describer(Some(first.node))
            .describe(testing::facts().runtime.version, Timestamp::from_second(99).unwrap());
        assert_eq!(ready(&later), is);
    }
}
