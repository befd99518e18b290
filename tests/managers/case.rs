//! A machine, its configuration, and pods that come and go. Everything follows from a seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{Quantity, ResourceList};
use hostlet_resources::{
    CpuOptions, CpuReservation, Cpus, Machine, Managers, MemoryNodes, OptionGates, ReservedMemory,
    StaticCpus, StaticManagers, StaticMemory, Topology, TopologyOptions, TopologyPolicy, TopologyScope,
};
use k8s_openapi::api::core::v1::Pod;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::machines::{self, MIB};
use crate::pods::Pods;

/// Feature gate of pods with CPUs and memory of their own.
const POD_LEVEL: &str = "PodLevelResourceManagers";
const ALPHA: &str = "CPUManagerPolicyAlphaOptions";

/// A case, as the oracle reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Case {
    /// The machine.
    pub(crate) machine: Machine,
    gates: BTreeMap<&'static str, bool>,
    cpu_policy: &'static str,
    cpu_options: BTreeMap<String, String>,
    reserved_cpus: String,
    reserved: BTreeMap<String, String>,
    memory_policy: &'static str,
    reserved_memory: Vec<NodeReservation>,
    topology_policy: &'static str,
    topology_scope: &'static str,
    topology_options: BTreeMap<String, String>,
    /// What happens.
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize)]
struct NodeReservation {
    node: u32,
    limits: BTreeMap<String, String>,
}

/// Something that happens.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    /// A pod is admitted, or rejected.
    Add(Box<Pod>),
    /// A pod is removed.
    Remove(String),
    /// A container starts, after those before it.
    #[serde(rename_all = "camelCase")]
    Started {
        /// UID of the pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
}

impl Case {
    /// The case of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let machine = machines::machine(&mut rng);
        let gates = BTreeMap::from([(POD_LEVEL, rng.random_bool(0.3)), (ALPHA, rng.random_bool(0.95))]);
        let cpus = rng.random_range(1..=3_usize.min(machine.cpus.len()));
        let milli = cpus * 1000 - rng.random_range(0..10) * 100;
        let explicit = rng.random_bool(0.3);
        let reserved_cpus: Vec<u32> = machine.cpus.keys().copied().collect();
        let reserved_cpus: Vec<String> =
            reserved_cpus.choose_multiple(&mut rng, cpus).map(u32::to_string).collect();
        let (reserved_memory, mut reserved) = reserve(&mut rng, &machine);
        reserved.insert("cpu".to_owned(), format!("{}m", if rng.random_bool(0.02) { 0 } else { milli }));
        let topology_policy = ["none", "best-effort", "restricted", "single-numa-node"]
            .choose(&mut rng)
            .copied()
            .unwrap_or("none");
        let mut case = Self {
            gates,
            cpu_policy: if rng.random_bool(0.9) { "static" } else { "none" },
            cpu_options: BTreeMap::new(),
            reserved_cpus: if explicit { reserved_cpus.join(",") } else { String::new() },
            reserved,
            memory_policy: if rng.random_bool(0.7) { "Static" } else { "None" },
            reserved_memory,
            topology_policy,
            topology_scope: if rng.random_bool(0.5) { "container" } else { "pod" },
            topology_options: BTreeMap::new(),
            steps: Vec::new(),
            machine,
        };
        if case.cpu_policy == "static" {
            case.cpu_options = cpu_options(&mut rng, &case.machine);
        }
        if rng.random_bool(0.4) {
            case.topology_options.insert("prefer-closest-numa-nodes".to_owned(), "true".to_owned());
        }
        case.steps = Pods::new(&case.machine, case.gates[POD_LEVEL]).steps(&mut rng);
        case
    }

    /// Our managers of this case, or the error that says why there can be none.
    pub(crate) fn managers(&self) -> Result<Managers, String> {
        let machine = Arc::new(self.machine.clone());
        let text = |error: &dyn std::error::Error| error.to_string();
        let pod_level = self.gates[POD_LEVEL];
        let policy = match self.topology_policy {
            "best-effort" => TopologyPolicy::BestEffort,
            "restricted" => TopologyPolicy::Restricted,
            "single-numa-node" => TopologyPolicy::SingleNumaNode,
            _ => TopologyPolicy::None,
        };
        let scope = if self.topology_scope == "pod" { TopologyScope::Pod } else { TopologyScope::Container };
        let options = TopologyOptions::parse(&self.topology_options).map_err(|error| text(&error))?;
        let topology = Topology::new(policy, scope, options, &machine).map_err(|error| text(&error))?;
        let reserved = amounts(&self.reserved);
        let cpus = match self.cpu_policy {
            "static" => {
                let gates = OptionGates { alpha: self.gates[ALPHA], beta: true };
                let milli = reserved.units("cpu");
                // Upstream looks at the reservation first.
                let reservation = CpuReservation {
                    milli,
                    cpus: self
                        .reserved_cpus
                        .parse()
                        .map_err(|error: hostlet_base::CpuListError| text(&error))?,
                };
                let options = CpuOptions::parse(&self.cpu_options, gates);
                let options = if milli == 0 { options.or(Ok(CpuOptions::default())) } else { options };
                let options = options.map_err(|error| text(&error))?;
                let policy = StaticCpus::new(Arc::clone(&machine), options, &reservation, policy, pod_level);
                Some(Cpus::new(Arc::new(policy.map_err(|error| text(&error))?)))
            }
            _ => None,
        };
        let memory = match self.memory_policy {
            "Static" => {
                let reservations = self.reserved_memory.iter();
                let reservations =
                    reservations.map(|own| ReservedMemory { node: own.node, limits: amounts(&own.limits) });
                let reservations: Vec<_> = reservations.collect();
                let policy = StaticMemory::new(machine, &reserved, &reservations, pod_level);
                Some(MemoryNodes::new(Arc::new(policy.map_err(|error| text(&error))?)))
            }
            _ => None,
        };
        Ok(Managers::new(Arc::new(StaticManagers { topology, pod_level }), cpus, memory))
    }

    /// The pod with this UID.
    pub(crate) fn pod(&self, uid: &str) -> Option<&Pod> {
        let pods = self.steps.iter().filter_map(|step| match step {
            Step::Add(pod) => Some(&**pod),
            Step::Remove(_) | Step::Started { .. } => None,
        });
        pods.into_iter().find(|pod| pod.metadata.uid.as_deref() == Some(uid))
    }

    /// The policies of CPUs and memory, as checkpoints name them.
    pub(crate) fn policies(&self) -> (&'static str, &'static str) {
        (self.cpu_policy, self.memory_policy)
    }
}

fn amounts(list: &BTreeMap<String, String>) -> ResourceList {
    let amount = |(name, text): (&String, &String)| Some((name.clone(), Quantity::parse(text).ok()?));
    list.iter().filter_map(amount).collect()
}

/// What is reserved of each node, and of the machine. The sums sometimes differ, which is an error.
fn reserve(rng: &mut StdRng, machine: &Machine) -> (Vec<NodeReservation>, BTreeMap<String, String>) {
    let mut nodes = Vec::new();
    let (mut memory, mut huge) = (0, 0);
    for (node, own) in &machine.nodes {
        let mut limits = BTreeMap::new();
        if nodes.is_empty() || rng.random_bool(0.5) {
            let own = rng.random_range(1..=64);
            memory += own;
            limits.insert("memory".to_owned(), format!("{own}Mi"));
        }
        let pages = own.huge_pages.get(&(2 * MIB)).copied().unwrap_or_default();
        if pages > 1 && rng.random_bool(0.2) {
            huge += 2;
            limits.insert("hugepages-2Mi".to_owned(), "2Mi".to_owned());
        }
        nodes.push(NodeReservation { node: *node, limits });
    }
    if rng.random_bool(0.01) {
        memory += 1;
    }
    let mut reserved = BTreeMap::from([("memory".to_owned(), format!("{memory}Mi"))]);
    if huge > 0 {
        reserved.insert("hugepages-2Mi".to_owned(), format!("{huge}Mi"));
    }
    (nodes, reserved)
}

/// Options that are mostly valid together. CPUs are distributed only among four nodes: among more, upstream may use another combination
/// than it chose, as it changes lists that it still refers to.
fn cpu_options(rng: &mut StdRng, machine: &Machine) -> BTreeMap<String, String> {
    let nodes: std::collections::BTreeSet<u32> = machine.cpus.values().map(|place| place.node).collect();
    let mut names = Vec::new();
    for name in ["strict-cpu-reservation", "full-pcpus-only"] {
        if rng.random_bool(0.4) {
            names.push(name);
        }
    }
    match rng.random_range(0..8) {
        0 => names.push("distribute-cpus-across-cores"),
        1 | 2 => names.push("prefer-align-cpus-by-uncorecache"),
        3 | 4 if nodes.len() <= 4 => {
            names.push("distribute-cpus-across-numa");
            if rng.random_bool(0.4) {
                names.push("align-by-socket");
            }
        }
        5 => names.push("align-by-socket"),
        _ => {}
    }
    names.into_iter().map(|name| (name.to_owned(), "true".to_owned())).collect()
}
