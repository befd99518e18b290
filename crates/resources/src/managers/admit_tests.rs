//! Pods that need CPUs, memory and devices of the same NUMA node.

use hostlet_base::ResourceList;
use k8s_openapi::api::core::v1::Container;
use serde_json::json;

use super::*;
use crate::cpus::{CpuOptions, CpuReservation, StaticCpus};
use crate::machine::{CpuSet, NumaMask};
use crate::managers::NoDevices;
use crate::memory::{ReservedMemory, StaticMemory};
use crate::testing::{container, guaranteed, machine, pod, reserved_memory};
use crate::topology::TopologyOptions;

/// Two nodes with four CPUs and a gibibyte each.
fn managers(policy: TopologyPolicy, scope: TopologyScope, pod_level: bool) -> Managers {
    let machine = Arc::new(machine(2, 1, 2, 2));
    let reservation = CpuReservation { milli: 1000, cpus: CpuSet::new() };
    let cpus = StaticCpus::new(Arc::clone(&machine), CpuOptions::default(), &reservation, policy, pod_level);
    let reserved: ResourceList = reserved_memory(96);
    let own = ReservedMemory { node: 0, limits: reserved.clone() };
    let memory = StaticMemory::new(Arc::clone(&machine), &reserved, &[own], pod_level).unwrap();
    let topology = Topology::new(policy, scope, TopologyOptions::default(), &machine).unwrap();
    let (cpus, memory) = (Cpus::new(Arc::new(cpus.unwrap())), MemoryNodes::new(Arc::new(memory)));
    Managers::new(Arc::new(StaticManagers { topology, pod_level }), Some(cpus), Some(memory))
}

/// A device of a node for each container; notes the nodes that were chosen.
struct Devices(u32, Vec<Option<NumaMask>>);

impl Provider for Devices {
    fn hints(&self, _: &Pod, _: &Container) -> ProviderHints {
        let hint = Hint { nodes: Some(NumaMask::of([self.0])), preferred: true };
        BTreeMap::from([("example.com/device".to_owned(), vec![hint])])
    }

    fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        self.hints(pod, &Container::default())
    }

    fn allocate(&mut self, _: &Pod, _: &Container, hint: Hint) -> Result<(), Rejection> {
        self.1.push(hint.nodes);
        Ok(())
    }

    fn allocate_pod(&mut self, _: &Pod, hint: Hint) -> Result<(), Rejection> {
        self.1.push(hint.nodes);
        Ok(())
    }
}

#[test]
fn everything_is_of_the_node_of_the_device() {
    for scope in [TopologyScope::Container, TopologyScope::Pod] {
        let mut managers = managers(TopologyPolicy::SingleNumaNode, scope, false);
        let (pod, mut devices) = (guaranteed("p", "2", 100), Devices(1, Vec::new()));
        let chosen = managers.admit(&pod, &mut devices).unwrap();
        let node = Some(NumaMask::of([1]));
        assert_eq!((chosen["c"].nodes, devices.1.as_slice()), (node, &[node][..]));
        assert_eq!(managers.cpu_list(&pod, "c").as_deref(), Some("4-5"));
        assert_eq!(managers.memory_list(&pod, "c").as_deref(), Some("1"));
    }
}

#[test]
fn a_rejected_pod_has_nothing() {
    let mut managers = managers(TopologyPolicy::Restricted, TopologyScope::Container, false);
    let states = |managers: &Managers| {
        let cpus = managers.cpus.as_ref().map(|cpus| cpus.state().clone());
        (cpus, managers.memory.as_ref().map(|memory| memory.state().clone()))
    };
    let empty = states(&managers);
    let fits = pod("p", json!({"containers": [container("a", "3", 1), container("b", "4", 1)]}));
    managers.admit(&fits, &mut NoDevices).unwrap();
    assert_ne!(states(&managers), empty);
    managers.release("p");
    assert_eq!(states(&managers), empty);
    // Two containers fit; no node has enough CPUs left for the third.
    let large = pod(
        "p",
        json!({"containers": [container("a", "3", 1), container("b", "3", 1), container("c", "3", 1)]}),
    );
    let rejection = managers.admit(&large, &mut NoDevices).unwrap_err();
    let expected =
        Rejection::new("TopologyAffinityError", "Resources cannot be allocated with Topology locality");
    assert_eq!((rejection, states(&managers)), (expected, empty));
}

#[test]
fn without_a_policy_nothing_is_hinted() {
    let mut managers = managers(TopologyPolicy::None, TopologyScope::Container, false);
    let mut devices = Devices(1, Vec::new());
    let pod = guaranteed("p", "2", 100);
    assert!(managers.admit(&pod, &mut devices).unwrap().is_empty());
    assert_eq!(devices.1, [None]);
    assert_eq!(managers.cpu_list(&pod, "c").as_deref(), Some("2-3"));
    // What it may not have is an error of the allocation.
    let rejection = managers.admit(&guaranteed("large", "8", 1), &mut NoDevices).unwrap_err();
    assert_eq!(rejection.reason, "UnexpectedAdmissionError");
}

#[test]
fn pods_with_resources_of_their_own_are_rejected_in_upstreams_words() {
    let own = json!({"cpu": "8", "memory": "1Mi"});
    let spec = json!({"resources": {"requests": own, "limits": own}, "containers": [container("c", "8", 1)]});
    for (scope, message) in [
        (
            TopologyScope::Container,
            "Pod Scope pod with pod-level resources failed admission with a container-level topology manager",
        ),
        (
            TopologyScope::Pod,
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager",
        ),
    ] {
        let rejection = managers(TopologyPolicy::SingleNumaNode, scope, true)
            .admit(&pod("p", spec.clone()), &mut NoDevices);
        assert_eq!(rejection.unwrap_err(), Rejection::new("TopologyAffinityError", message));
    }
}
