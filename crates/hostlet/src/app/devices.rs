//! Devices of device plugins: where they are, and what the host tells of its NUMA nodes and its boot.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use hostlet_base::{WallClock, cpu_list};
use hostlet_config::Config;
use hostlet_devices::{DevicePluginHandler, Devices, DevicesSettings, DevicesTask};
use hostlet_telemetry::Metrics;

use super::paths::{DEVICE_PLUGINS, DEVICES_COPY, PROC, SYS};

/// The devices of this node, as the checkpoint has them.
pub(super) fn devices(config: &Config, metrics: &Metrics) -> (Devices, DevicePluginHandler, DevicesTask) {
    let settings = DevicesSettings {
        dir: config.root_dir.join(DEVICE_PLUGINS),
        copy: config.root_dir.join(DEVICES_COPY),
        numa_nodes: numa_nodes(SYS.as_ref()),
        uptime: uptime(PROC.as_ref()),
    };
    let (devices, handler, task) = Devices::new(settings, WallClock::system());
    devices.register(metrics);
    (devices, handler, task)
}

/// The machine's NUMA nodes; one if the kernel knows of none.
fn numa_nodes(sys: &Path) -> BTreeSet<u32> {
    let online = fs::read_to_string(sys.join("devices/system/node/online"));
    let nodes = online.ok().and_then(|online| cpu_list(online.trim()).ok());
    nodes.map_or_else(|| [0].into(), |nodes| nodes.into_iter().collect())
}

/// How long ago the host booted; long ago if the kernel does not say.
fn uptime(proc: &Path) -> Duration {
    let text = fs::read_to_string(proc.join("uptime"));
    let seconds = text.ok().and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_tells_its_nodes_and_its_boot() {
        let host = tempfile::tempdir().unwrap();
        assert_eq!((numa_nodes(host.path()), uptime(host.path())), ([0].into(), Duration::MAX));
        fs::create_dir_all(host.path().join("devices/system/node")).unwrap();
        fs::write(host.path().join("devices/system/node/online"), "0-1,3\n").unwrap();
        fs::write(host.path().join("uptime"), "61.50 100.00\n").unwrap();
        assert_eq!(numa_nodes(host.path()), [0, 1, 3].into());
        assert_eq!(uptime(host.path()), Duration::from_millis(61_500));
    }
}
