//! A machine of four CPUs on two NUMA nodes, of which one CPU is reserved, and pods for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_devices::{Devices, DevicesSettings};
use hostlet_resources::{
    CpuOptions, CpuPlace, CpuReservation, Machine, NumaNode, StaticCpus, StaticManagers, Topology,
    TopologyOptions, TopologyPolicy, TopologyScope,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::NumaSettings;

/// The static policy for CPUs.
pub(super) fn static_cpus() -> NumaSettings {
    settings(false)
}

/// The same, with CPUs for pods that have resources of their own.
pub(super) fn static_cpus_of_pods() -> NumaSettings {
    settings(true)
}

fn settings(pod_level: bool) -> NumaSettings {
    let place = |cpu: u32| CpuPlace { node: cpu / 2, socket: cpu / 2, core: cpu, cache: cpu / 2 };
    let node = |_| NumaNode { memory: 1 << 30, huge_pages: [].into(), distances: vec![10, 20] };
    let machine = Machine {
        cpus: (0..4).map(|cpu| (cpu, place(cpu))).collect(),
        nodes: (0..2).map(|number| (number, node(number))).collect(),
    };
    let reservation = CpuReservation { milli: 500, ..CpuReservation::default() };
    let (options, policy) = (CpuOptions::default(), TopologyPolicy::None);
    let topology = match pod_level {
        true => {
            let (policy, options) = (TopologyPolicy::BestEffort, TopologyOptions::default());
            Topology::new(policy, TopologyScope::Pod, options, &machine).unwrap()
        }
        false => Topology::none(),
    };
    let cpus = StaticCpus::new(Arc::new(machine), options, &reservation, policy, pod_level).unwrap();
    let managers = StaticManagers { topology, pod_level };
    NumaSettings {
        cpus: Some(Arc::new(cpus)),
        memory: None,
        managers: Arc::new(managers),
        reconcile_period: Duration::from_secs(10),
    }
}

/// The devices of a host without plugins.
pub(super) fn no_devices(root: &Path) -> Devices {
    let settings = DevicesSettings {
        dir: root.join("device-plugins"),
        copy: root.join("devices"),
        numa_nodes: [0, 1].into(),
        uptime: Duration::MAX,
    };
    Devices::new(settings, WallClock::system()).0
}

/// A guaranteed pod with a container of this many CPUs.
pub(super) fn guaranteed(name: &str, cpus: &str) -> Arc<Pod> {
    let amounts = json!({"cpu": cpus, "memory": "1Mi"});
    let resources = json!({"limits": amounts, "requests": amounts});
    let metadata = json!({"name": name, "namespace": "ns", "uid": name});
    let spec = json!({"containers": [{"name": "c", "resources": resources}]});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}
