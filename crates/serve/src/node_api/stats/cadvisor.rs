//! `/metrics/cadvisor`: what the units use, under the names that cAdvisor gives it. Pure. Each family is rendered by itself, so that a
//! large answer is never in memory as a whole.

use std::collections::BTreeMap;

use hostlet_observe::stats::{BlockDevice, DeviceIo, NodeFilesystem, OtherBytes};
use jiff::Timestamp;

use super::cadvisor_families::{FAMILIES, Source};
use super::cadvisor_units::Unit;
use super::exposition::{self, Family, FamilyOf, Kind, epoch, number};

/// The number of families.
pub(super) const COUNT: usize = FAMILIES.len();

/// One family of all units.
pub(super) fn render(
    family: usize,
    units: &[Unit],
    devices: &BTreeMap<BlockDevice, String>,
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
fn path_of(device: BlockDevice, devices: &BTreeMap<BlockDevice, String>) -> String {
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
