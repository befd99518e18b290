//! Whether both make the same of a case, and whether each keeps its own rules.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use hostlet_pod::Rejection;
use hostlet_pod::view::PodView;
use hostlet_resources::{
    Block, CpuCheckpoint, CpuPlace, CpuSet, CpuState, GrantScope, Managers, MemoryCheckpoint, MemoryState,
    ProviderHints,
};
use k8s_openapi::api::core::v1::Pod;

use crate::case::{Case, Step};
use crate::oracle::{Answer, Legacy, Outcome};

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Both made the same of all steps.
    Equal,
    /// Neither could be made, for the same reason.
    Invalid,
    /// Upstream panicked, did not come to an end, or gave a CPU to two containers; ours did not.
    UpstreamBroken,
    /// The machine has cores or sockets of different sizes, and both chose differently: upstream takes whole ones there, also those of which
    /// it has only a part to choose from. Ours kept its rules.
    Uneven,
}

/// Compares a case. An error says what differs.
pub(crate) fn compare(case: &Case, answer: &Answer) -> Result<Compared> {
    let mut managers = match case.managers() {
        Ok(managers) => managers,
        Err(_) if !answer.broken.is_empty() => return Ok(Compared::UpstreamBroken),
        Err(error) => {
            ensure!(error == answer.error, "error {error:?} instead of {:?}", answer.error);
            return Ok(Compared::Invalid);
        }
    };
    ensure!(answer.error.is_empty(), "no error instead of {:?}", answer.error);
    let reserved = managers.cpus.as_ref().map(|cpus| case.machine.all_cpus().difference(&cpus.allocatable()));
    let reserved = reserved.unwrap_or_default();
    let mut outcomes = Some(answer.steps.iter()).filter(|_| answer.broken.is_empty());
    let mut is_other = false;
    // Whether a pod that upstream rejected half-way has moved memory from node to node, which changes later choices.
    let mut is_moved = false;
    for (number, step) in case.steps.iter().enumerate() {
        let rejection = apply(case, &mut managers, step);
        keeps_rules(case, &managers).with_context(|| format!("ours after step {number}"))?;
        let Some(outcome) = outcomes.as_mut().and_then(Iterator::next) else { continue };
        let upstream = CpuCheckpoint::decode(outcome.cpu.as_bytes())?;
        let memory = MemoryCheckpoint::decode(outcome.memory.as_bytes())?;
        if !is_sane(case, &reserved, &upstream.state) || !is_memory_sane(&memory.state) {
            outcomes = None;
            continue;
        }
        let compared = compare_step(case, &managers, &rejection, outcome);
        if compared.is_err() && (is_uneven(case) || is_moved) {
            is_other = !is_moved;
            outcomes = None;
            continue;
        }
        let nodes = managers.memory.as_ref().map(|memory| memory.state().nodes.clone());
        is_moved |= nodes.unwrap_or_default() != memory.state.nodes;
        compared.with_context(|| format!("step {number}"))?;
    }
    if is_other {
        return Ok(Compared::Uneven);
    }
    if outcomes.is_none() {
        return Ok(Compared::UpstreamBroken);
    }
    compare_legacy(&managers, answer.legacy.as_ref().context("no older files")?)?;
    Ok(Compared::Equal)
}

/// Reason and message of a rejection, empty if there is none.
fn apply(case: &Case, managers: &mut Managers, step: &Step) -> (String, String) {
    match step {
        Step::Add(pod) => match grant(managers, pod) {
            Ok(()) => Default::default(),
            Err(rejection) => (rejection.reason.into_owned(), rejection.message),
        },
        Step::Remove(uid) => {
            managers.release(uid);
            Default::default()
        }
        Step::Started { pod, container } => {
            if let (Some(memory), Some(pod)) = (&mut managers.memory, case.pod(pod)) {
                memory.release_before(pod, container);
            }
            Default::default()
        }
    }
}

/// Grants a pod and its containers what they need, on a node without devices, as the daemon does. On rejection nothing changes.
fn grant(managers: &mut Managers, pod: &Pod) -> Result<(), Rejection> {
    let mut next = managers.clone();
    let none = ProviderHints::new;
    let of_pod = match next.scope() {
        GrantScope::Pod => Some(next.choose_for_pod(pod, none())?),
        GrantScope::Anywhere | GrantScope::Container => None,
    };
    match of_pod.filter(|_| next.is_whole(pod)) {
        Some(hint) => {
            next.grant_pod_cpus(pod, hint)?;
            next.grant_pod_memory(pod, hint)?;
        }
        None => {
            let spec = PodView::from(pod).spec;
            for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
                let hint = match of_pod {
                    Some(hint) => hint,
                    None => next.choose(pod, container, none())?,
                };
                next.grant_cpus(pod, container, hint)?;
                next.grant_memory(pod, container, hint)?;
            }
        }
    }
    *managers = next;
    Ok(())
}

fn compare_step(
    case: &Case,
    managers: &Managers,
    rejection: &(String, String),
    outcome: &Outcome,
) -> Result<()> {
    // Of several resources, upstream names a random one.
    let message = |message: &str| message.replace("hugepages-2Mi", "memory");
    let expected = (outcome.reason.clone(), message(&outcome.message));
    let rejection = &(rejection.0.clone(), message(&rejection.1));
    ensure!(*rejection == expected, "rejection {rejection:?} instead of {expected:?}");
    let (cpu_policy, memory_policy) = case.policies();
    let state = managers.cpus.as_ref().map(|cpus| cpus.state().clone()).unwrap_or_default();
    let ours = CpuCheckpoint { policy: cpu_policy.to_owned(), state };
    let written = ours.encode()?;
    ensure!(written == outcome.cpu, "CPUs\n{written}\ninstead of\n{}", outcome.cpu);
    let state = managers.memory.as_ref().map(|memory| memory.state().clone()).unwrap_or_default();
    let ours = MemoryCheckpoint { policy: memory_policy.to_owned(), state: sorted(state) };
    let mut expected = MemoryCheckpoint::decode(outcome.memory.as_bytes())?;
    expected.state = sorted(expected.state);
    ensure!(ours == expected, "memory{}", differences(&ours.state, &expected.state));
    let written = ours.encode()?;
    ensure!(
        !is_written_alike(&ours.state) || written == outcome.memory,
        "memory\n{written}\ninstead of\n{}",
        outcome.memory
    );
    Ok(())
}

/// The nodes and the containers of which the memory differs.
fn differences(ours: &MemoryState, expected: &MemoryState) -> String {
    let nodes = ours.nodes.iter().map(|(node, own)| {
        (format!("node {node}"), format!("{own:?}"), format!("{:?}", expected.nodes.get(node)))
    });
    let containers = ours
        .containers
        .iter()
        .map(|(uid, own)| (uid.clone(), format!("{own:?}"), format!("{:?}", expected.containers.get(uid))));
    let pods = [("pods".to_owned(), format!("{:?}", ours.pods), format!("Some({:?})", expected.pods))];
    let all = nodes.chain(containers).chain(pods.map(|(name, own, other)| (name, own, other)));
    let different = all.filter(|(_, own, other)| format!("Some({own})") != *other);
    different.map(|(name, own, other)| format!("\n{name}: {own}\ninstead of {other}")).collect()
}

/// Whether both write the same bytes: not if a container has several blocks, or nodes are used together.
fn is_written_alike(state: &MemoryState) -> bool {
    let blocks = state.containers.values().flat_map(BTreeMap::values).chain(state.pods.values());
    blocks.into_iter().all(|blocks| blocks.len() == 1 && blocks[0].numa_affinity.len() == 1)
        && state.nodes.values().all(|node| node.cells.len() == 1)
}

/// Upstream's order of the blocks of a container is random. How much of a container's memory is of which node of a group is not known:
/// there only the sums count, and a pod that upstream rejects half-way moves some.
fn sorted(mut state: MemoryState) -> MemoryState {
    let mut sums: BTreeMap<(Vec<u32>, String), (u64, u64)> = BTreeMap::new();
    for node in state.nodes.values_mut().filter(|node| node.cells.len() > 1) {
        for (resource, table) in &mut node.memory_map {
            let (free, reserved) = sums.entry((node.cells.clone(), resource.clone())).or_default();
            *free += std::mem::take(&mut table.free);
            *reserved += std::mem::take(&mut table.reserved);
        }
    }
    for ((cells, resource), (free, reserved)) in sums {
        let first = cells.first().and_then(|first| state.nodes.get_mut(first));
        if let Some(table) = first.and_then(|node| node.memory_map.get_mut(&resource)) {
            (table.free, table.reserved) = (free, reserved);
        }
    }
    let containers = state.containers.values_mut().flat_map(BTreeMap::values_mut);
    for blocks in containers.chain(state.pods.values_mut()) {
        blocks.sort_by(|a: &Block, b: &Block| a.resource.cmp(&b.resource));
    }
    state
}

fn compare_legacy(managers: &Managers, legacy: &Legacy) -> Result<()> {
    let cpus = managers.cpus.as_ref().map(|cpus| cpus.state().clone()).unwrap_or_default();
    let third = CpuCheckpoint::decode(legacy.cpu_v3.as_bytes()).context("version 3")?;
    ensure!(third.state == cpus, "CPUs of version 3: {third:?}");
    let second = CpuCheckpoint::decode(legacy.cpu_v2.as_bytes()).context("version 2")?;
    ensure!(second.state == CpuState { pods: BTreeMap::new(), ..cpus }, "CPUs of version 2: {second:?}");
    let memory = sorted(managers.memory.as_ref().map(|memory| memory.state().clone()).unwrap_or_default());
    let second = MemoryCheckpoint::decode(legacy.memory_v2.as_bytes()).context("memory, version 2")?;
    ensure!(sorted(second.state) == memory, "memory of version 2");
    let first = MemoryCheckpoint::decode(legacy.memory_v1.as_bytes()).context("memory, version 1")?;
    ensure!(sorted(first.state) == MemoryState { pods: BTreeMap::new(), ..memory }, "memory of version 1");
    for broken in [&legacy.cpu_v2, &legacy.cpu_v3] {
        let broken = broken.replacen("\"policyName\":\"static\"", "\"policyName\":\"stable\"", 1);
        ensure!(CpuCheckpoint::decode(broken.as_bytes()).is_err(), "a changed file is read: {broken}");
    }
    Ok(())
}

/// No CPU is of two pods, or of a pod and shared or reserved; all are the machine's, and as many as were requested; none is of a pod
/// without containers, which upstream forgets after an error in the middle of an allocation.
fn is_sane(case: &Case, reserved: &CpuSet, state: &CpuState) -> bool {
    let mut all = state.shared.union(reserved);
    if state.pods.keys().any(|uid| !state.containers.contains_key(uid)) {
        return false;
    }
    for (uid, containers) in &state.containers {
        let mut together = CpuSet::new();
        let main =
            containers.iter().filter(|(name, _)| !state.pods.contains_key(uid) && name.starts_with("main"));
        for (_, cpus) in main {
            if !cpus.is_disjoint(&together) {
                return false;
            }
            together = together.union(cpus);
        }
        let own = containers.values().fold(CpuSet::new(), |own, cpus| own.union(cpus));
        let own = own.union(state.pods.get(uid).unwrap_or(&CpuSet::new()));
        if !own.is_disjoint(&all) {
            return false;
        }
        all = all.union(&own);
    }
    let requested = |uid: &str, container: &str| {
        let spec = case.pod(uid)?.spec.as_ref()?;
        let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let found = containers.find(|own| own.name == container)?;
        found.resources.as_ref()?.requests.as_ref()?.get("cpu")?.0.parse::<usize>().ok()
    };
    let are_sizes_right = state
        .containers
        .iter()
        .filter(|(uid, _)| !state.pods.contains_key(*uid))
        .all(|(uid, own)| own.iter().all(|(name, cpus)| requested(uid, name) == Some(cpus.len())));
    all.is_subset(&case.machine.all_cpus()) && are_sizes_right
}

/// Nodes that are used together agree on that, and no amount has fallen below zero. Upstream's state may break both: with a pod that it
/// rejects half-way, and with a container that requests more than its pod.
fn is_memory_sane(state: &MemoryState) -> bool {
    let cells = |node: &u32| state.nodes.get(node).map(|node| node.cells.as_slice());
    let agree =
        state.nodes.values().all(|node| node.cells.iter().all(|other| cells(other) == Some(&node.cells)));
    let mut blocks =
        state.containers.values().flat_map(BTreeMap::values).chain(state.pods.values()).flatten();
    agree && blocks.all(|block| block.size < 1 << 60)
}

/// Whether cores or sockets of the machine differ in size.
fn is_uneven(case: &Case) -> bool {
    let cpus = || case.machine.cpus.values();
    let sizes = |part: fn(&CpuPlace) -> u32| {
        let mut sizes = BTreeMap::<u32, usize>::new();
        cpus().for_each(|place| *sizes.entry(part(place)).or_default() += 1);
        sizes.into_values().collect::<BTreeSet<usize>>()
    };
    sizes(|place| place.core).len() > 1 || sizes(|place| place.socket).len() > 1
}

/// Ours keep what they promise.
fn keeps_rules(case: &Case, managers: &Managers) -> Result<()> {
    if let Some(cpus) = &managers.cpus {
        let reserved = case.machine.all_cpus().difference(&cpus.allocatable());
        ensure!(is_sane(case, &reserved, cpus.state()), "CPUs overlap: {:?}", cpus.state());
        let all = cpus.state().shared.union(&cpus.state().exclusive()).union(&reserved);
        ensure!(all == case.machine.all_cpus(), "CPUs are lost: {:?}", cpus.state());
    }
    let Some(memory) = &managers.memory else { return Ok(()) };
    for (number, node) in &memory.state().nodes {
        for (resource, table) in &node.memory_map {
            if table.free.checked_add(table.reserved) != Some(table.allocatable) {
                bail!("{resource} of node {number}: {table:?}");
            }
        }
    }
    Ok(())
}
