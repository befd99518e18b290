//! Pods that need CPUs, memory and devices of the same NUMA node.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::ResourceList;
use serde_json::json;

use super::*;
use crate::containers::containers;
use crate::cpus::{CpuOptions, CpuReservation, Cpus, StaticCpus};
use crate::machine::{CpuSet, NumaMask};
use crate::managers::StaticManagers;
use crate::memory::{MemoryNodes, ReservedMemory, StaticMemory};
use crate::testing::{container, guaranteed, machine, pod, reserved_memory};
use crate::topology::{Topology, TopologyOptions};

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

/// The hints of a device of this node.
fn device(node: u32) -> ProviderHints {
    let hint = Hint { nodes: Some(NumaMask::of([node])), preferred: true };
    BTreeMap::from([("example.com/device".to_owned(), vec![hint])])
}

/// Grants a pod and its containers what they need. On rejection nothing changes. Returns the nodes that were chosen.
fn admit(managers: &mut Managers, pod: &Pod, devices: &ProviderHints) -> Result<Vec<Hint>, Rejection> {
    let mut next = managers.clone();
    let mut chosen = Vec::new();
    let of_pod = match next.scope() {
        GrantScope::Pod => Some(next.choose_for_pod(pod, devices.clone())?),
        GrantScope::Anywhere | GrantScope::Container => None,
    };
    for container in containers(pod) {
        let hint = match of_pod {
            Some(hint) => hint,
            None => next.choose(pod, container, devices.clone())?,
        };
        next.grant_cpus(pod, container, hint)?;
        next.grant_memory(pod, container, hint)?;
        chosen.push(hint);
    }
    *managers = next;
    Ok(chosen)
}

/// The CPUs and the NUMA nodes of a pod's container `c`.
fn lists(managers: &Managers, uid: &str) -> [String; 2] {
    let cpus = managers.cpus.as_ref().unwrap().assignment(uid, "c");
    let nodes = managers.memory.as_ref().unwrap().nodes(uid, "c").unwrap();
    [cpus.to_string(), CpuSet::from_iter(nodes.nodes()).to_string()]
}

#[test]
fn everything_is_of_the_node_of_the_device() {
    for scope in [TopologyScope::Container, TopologyScope::Pod] {
        let mut managers = managers(TopologyPolicy::SingleNumaNode, scope, false);
        let chosen = admit(&mut managers, &guaranteed("p", "2", 100), &device(1)).unwrap();
        assert_eq!(chosen, [Hint { nodes: Some(NumaMask::of([1])), preferred: true }]);
        assert_eq!(lists(&managers, "p"), ["4-5", "1"]);
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
    admit(&mut managers, &fits, &ProviderHints::new()).unwrap();
    assert_ne!(states(&managers), empty);
    managers.release("p");
    assert_eq!(states(&managers), empty);
    // Two containers fit; no node has enough CPUs left for the third.
    let large = pod(
        "p",
        json!({"containers": [container("a", "3", 1), container("b", "3", 1), container("c", "3", 1)]}),
    );
    let rejection = admit(&mut managers, &large, &ProviderHints::new()).unwrap_err();
    let expected =
        Rejection::new("TopologyAffinityError", "Resources cannot be allocated with Topology locality");
    assert_eq!((rejection, states(&managers)), (expected, empty));
}

#[test]
fn without_a_policy_nothing_is_hinted() {
    let mut managers = managers(TopologyPolicy::None, TopologyScope::Container, false);
    let chosen = admit(&mut managers, &guaranteed("p", "2", 100), &device(1)).unwrap();
    assert_eq!(chosen, [Hint::default()]);
    assert_eq!(lists(&managers, "p")[0], "2-3");
    // What it may not have is an error of the allocation.
    let rejection = admit(&mut managers, &guaranteed("large", "8", 1), &ProviderHints::new()).unwrap_err();
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
        let mut managers = managers(TopologyPolicy::SingleNumaNode, scope, true);
        let rejection = admit(&mut managers, &pod("p", spec.clone()), &ProviderHints::new());
        assert_eq!(rejection.unwrap_err(), Rejection::new("TopologyAffinityError", message));
    }
}
