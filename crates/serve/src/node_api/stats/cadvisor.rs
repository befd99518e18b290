//! `/metrics/cadvisor`: what the host, all pods, each pod, its sandbox and its containers use, under the names that cAdvisor gives them.
//! Pure. Each family is rendered by itself, so that a large answer is never in memory as a whole.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::cadvisor_families::{FAMILIES, Source};
use super::exposition::{self, Family, FamilyOf, Kind, epoch, number};
use hostlet_base::SandboxId;
use hostlet_observe::stats::{
    CgroupUsage, Device, DeviceIo, DiskActivity, NetworkDevice, NodeFilesystem, NodeUsage, OtherBytes,
    PodUsage, UnitUsage,
};

/// A cgroup with its labels.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    labels: String,
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
    fn disk(&self) -> Option<(&str, &DiskActivity)> {
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

/// The number of families.
pub(super) const COUNT: usize = FAMILIES.len();

/// One family of all units.
pub(super) fn render(
    family: usize,
    units: &[Unit],
    devices: &BTreeMap<Device, String>,
    now: Timestamp,
) -> String {
    let mut text = String::new();
    let Some(FamilyOf { name, help, kind, source }) = FAMILIES.get(family).copied() else { return text };
    let mut samples = Family::new(&mut text, name, help, kind);
    for unit in units {
        let at = Some(unit.usage.at);
        let labels = unit.labels.as_str();
        match source {
            Source::Fact(value) => {
                if let Some(value) = value(unit) {
                    samples.sample(&[labels], value, None);
                }
            }
            Source::Seen => samples.sample(&[labels], epoch(now).floor(), Some(now)),
            Source::Usage(value) => {
                if let Some(value) = value(&unit.usage) {
                    samples.sample(&[labels], value, at);
                }
            }
            Source::Labelled(values) => {
                for (extra, value) in values(&unit.usage) {
                    samples.sample(&[labels, extra], value, at);
                }
            }
            Source::Network(value) => {
                for device in &unit.network {
                    let extra = exposition::labels(&[("interface", &device.name)]);
                    samples.sample(&[labels, &extra], number(value(device)), at);
                }
            }
            Source::Filesystem(value) => {
                if let Some(NodeFilesystem { device, usage, .. }) = &unit.filesystem {
                    let extra = exposition::labels(&[("device", device)]);
                    samples.sample(&[labels, &extra], number(value(usage)), at);
                }
            }
            Source::Device(value, of_disk) => {
                for io in &unit.usage.io.devices {
                    let extra = exposition::labels(&[("device", &path_of(io.device, devices))]);
                    samples.sample(&[labels, &extra], number(value(io)), at);
                }
                let is_counted =
                    |name: &str| unit.usage.io.devices.iter().any(|io| path_of(io.device, devices) == name);
                if let (Some(value), Some((device, disk))) = (of_disk, unit.disk())
                    && !is_counted(device)
                {
                    let extra = exposition::labels(&[("device", device)]);
                    samples.sample(&[labels, &extra], value(disk), at);
                }
            }
            Source::Disk(value) => {
                if let Some((device, disk)) = unit.disk() {
                    let extra = exposition::labels(&[("device", device)]);
                    samples.sample(&[labels, &extra], value(disk), at);
                }
            }
            Source::Operations => {
                for io in &unit.usage.io.devices {
                    for (operation, bytes) in operations(io) {
                        let extra = exposition::labels(&[
                            ("device", &path_of(io.device, devices)),
                            ("major", &io.device.major.to_string()),
                            ("minor", &io.device.minor.to_string()),
                            ("operation", operation),
                        ]);
                        samples.sample(&[labels, &extra], number(bytes), at);
                    }
                }
            }
        }
    }
    text
}

/// The path of a device; empty if it is unknown.
fn path_of(device: Device, devices: &BTreeMap<Device, String>) -> String {
    devices.get(&device).map(|name| format!("/dev/{name}")).unwrap_or_default()
}

/// The bytes of each kind of operation, under the names of cgroup v1.
fn operations(io: &DeviceIo) -> impl Iterator<Item = (&'static str, u64)> {
    let others = io.others.map(|OtherBytes { sync, r#async, discard, total }| {
        [("Async", r#async), ("Discard", discard), ("Sync", sync), ("Total", total)]
    });
    [("Read", io.read_bytes), ("Write", io.written_bytes)].into_iter().chain(others.into_iter().flatten())
}

/// Whether the cgroups could be measured.
pub(super) fn scrape_error(is_failed: bool) -> String {
    let mut text = String::new();
    let help = "1 if there was an error while getting container metrics, 0 otherwise";
    let value = if is_failed { 1.0 } else { 0.0 };
    Family::new(&mut text, "container_scrape_error", help, Kind::Gauge).sample(&[], value, None);
    text
}
