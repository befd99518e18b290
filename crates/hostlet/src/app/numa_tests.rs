//! Policies on machines of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hostlet_base::testing::resource_list;
use hostlet_config as config;

use super::*;

/// A sysfs with four CPUs on one NUMA node.
fn sys() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: String, content: &str| {
        let path = root.path().join("devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    for cpu in 0..4 {
        write(format!("cpu/cpu{cpu}/topology/core_id"), &cpu.to_string());
        write(format!("cpu/cpu{cpu}/topology/physical_package_id"), "0");
        write(format!("node/node0/cpu{cpu}/link"), "");
    }
    write("node/node0/meminfo".to_owned(), "Node 0 MemTotal: 8388608 kB");
    write("node/node0/distance".to_owned(), "10");
    let path = root.path().to_owned();
    (root, path)
}

/// A node that keeps a CPU and 1 GiB for itself, and evicts below 100 MiB.
fn node() -> OwnNode {
    OwnNode {
        machine: resource_list([("cpu", "4"), ("memory", "8Gi")]),
        unreserved: resource_list([("cpu", "3"), ("memory", "7Gi")]),
        allocatable: resource_list([("cpu", "3"), ("memory", "7068Mi")]),
        ..OwnNode::default()
    }
}

fn none() -> Numa {
    Numa {
        static_cpus: false,
        cpu_options: BTreeMap::new(),
        cpu_reconcile_period: Duration::from_secs(10),
        static_memory: false,
        reserved_memory: Vec::new(),
        topology_policy: TopologyManagerPolicy::None,
        topology_scope: TopologyManagerScope::Container,
        topology_options: BTreeMap::new(),
        cpu_gates: config::OptionGates { alpha: false, beta: true },
        pod_level: false,
    }
}

fn settings(config: &Numa, node: &OwnNode) -> Result<NumaSettings, String> {
    let (_root, sys) = sys();
    numa_settings(config, node, CpuSet::new(), &sys).map_err(|error| error.to_string())
}

#[test]
fn static_cpus_are_those_that_are_not_reserved() {
    let found = settings(&Numa { static_cpus: true, ..none() }, &node()).unwrap();
    assert_eq!(found.cpus.unwrap().reserved().to_string(), "0");
    assert!(found.memory.is_none());
    assert_eq!(found.reconcile_period, Duration::from_secs(10));
    let nothing = OwnNode { unreserved: node().machine, ..node() };
    let error = settings(&Numa { static_cpus: true, ..none() }, &nothing).unwrap_err();
    assert_eq!(
        error,
        "cpuManagerPolicy: [cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater \
         than zero; see kubeReserved, systemReserved and reservedSystemCPUs"
    );
}

#[test]
fn reserved_memory_is_what_pods_cannot_have() {
    let of = |memory: &str| vec![(0, resource_list([("memory", memory)]))];
    let exact = Numa { static_memory: true, reserved_memory: of("1124Mi"), ..none() };
    assert!(settings(&exact, &node()).unwrap().memory.is_some());
    let allocatable =
        resource_list([("cpu", "3"), ("memory", "7052Mi"), ("hugepages-2Mi", "16Mi"), ("pods", "110")]);
    let huge = OwnNode { allocatable, ..node() };
    assert!(settings(&exact, &huge).unwrap().memory.is_some());
    let less = Numa { static_memory: true, reserved_memory: of("1Gi"), ..none() };
    let error = settings(&less, &node()).unwrap_err();
    assert!(error.starts_with("memoryManagerPolicy: the total amount \"1Gi\" of type \"memory\""), "{error}");
}

#[test]
fn wrong_options_name_their_field() {
    let option = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let cpus = Numa { static_cpus: true, cpu_options: option("no-such", "true"), ..none() };
    let error = settings(&cpus, &node()).unwrap_err();
    assert!(error.starts_with("cpuManagerPolicyOptions: "), "{error}");
    let topology = Numa { topology_options: option("no-such", "true"), ..none() };
    let error = settings(&topology, &node()).unwrap_err();
    assert!(error.starts_with("topologyManagerPolicyOptions: "), "{error}");
}
