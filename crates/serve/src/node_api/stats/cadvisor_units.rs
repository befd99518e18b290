//! The units of `/metrics/cadvisor`: the host, all pods, each pod, its sandbox and its containers, with cAdvisor's labels. Pure.

use std::collections::BTreeMap;

use hostlet_base::SandboxId;
use hostlet_observe::stats::{
    CgroupUsage, DiskActivity, NetworkDevice, NodeFilesystem, NodeUsage, PodUsage, UnitUsage,
};
use jiff::Timestamp;

use super::exposition;

/// A cgroup with its labels.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) labels: String,
    pub(super) usage: CgroupUsage,
    /// The devices of its network namespace: for the host, and for sandboxes, or pods whose sandbox has no cgroup.
    pub(super) network: Vec<NetworkDevice>,
    /// The node's filesystem, for the host.
    pub(super) filesystem: Option<NodeFilesystem>,
    pub(super) created_at: Timestamp,
    pub(super) started_at: Timestamp,
}

/// What identifies a cgroup; what it does not have is empty.
#[derive(Default)]
struct Names<'a> {
    container: &'a str,
    image: &'a str,
    name: &'a str,
    namespace: &'a str,
    pod: &'a str,
}

impl Unit {
    fn new(unit: &UnitUsage, names: &Names<'_>) -> Self {
        let labels = exposition::labels(&[
            ("container", names.container),
            ("id", &unit.path),
            ("image", names.image),
            ("name", names.name),
            ("namespace", names.namespace),
            ("pod", names.pod),
        ]);
        let created_at = unit.usage.created_at;
        let usage = unit.usage.clone();
        Self { labels, usage, network: Vec::new(), filesystem: None, created_at, started_at: created_at }
    }

    /// The disk of the node's filesystem and what it did, for the host.
    pub(super) fn disk(&self) -> Option<(&str, &DiskActivity)> {
        let filesystem = self.filesystem.as_ref()?;
        Some((&filesystem.device, filesystem.disk.as_ref()?))
    }
}

/// All that is reported. `images` are those of sandboxes.
pub(super) fn units(usage: &NodeUsage, images: &BTreeMap<SandboxId, String>) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut root = Unit::new(&usage.root, &Names::default());
    root.network = usage.network.clone();
    root.filesystem = usage.filesystem.clone();
    units.push(root);
    let system = [&usage.all_pods, &usage.kubelet, &usage.runtime, &usage.misc];
    units.extend(system.into_iter().flatten().map(|unit| Unit::new(unit, &Names::default())));
    for pod in &usage.pods {
        of_pod(&mut units, pod, images);
    }
    units
}

fn of_pod(units: &mut Vec<Unit>, pod: &PodUsage, images: &BTreeMap<SandboxId, String>) {
    let names = || Names { namespace: &pod.pod.namespace, pod: &pod.pod.name, ..Names::default() };
    let network = || pod.network.clone().unwrap_or_default();
    if let Some(unit) = &pod.unit {
        let mut unit = Unit::new(unit, &names());
        if pod.sandbox.unit.is_none() {
            unit.network = network();
        }
        units.push(unit);
    }
    if let Some(unit) = &pod.sandbox.unit {
        let image = images.get(&pod.sandbox.id).map(String::as_str).unwrap_or_default();
        let mut sandbox = Unit::new(unit, &Names { image, name: pod.sandbox.id.as_str(), ..names() });
        sandbox.created_at = pod.sandbox.created_at;
        sandbox.network = network();
        units.push(sandbox);
    }
    for container in &pod.containers {
        let Some(unit) = &container.unit else { continue };
        let own = Names {
            container: &container.name,
            image: &container.image,
            name: container.id.as_str(),
            ..names()
        };
        let mut unit = Unit::new(unit, &own);
        (unit.created_at, unit.started_at) = (container.created_at, container.started_at);
        units.push(unit);
    }
}
