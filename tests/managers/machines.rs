//! Random machines: one to eight NUMA nodes in sockets of any size, cores with one or more threads, uneven cores, groups of cores with a
//! cache of their own, CPUs that are offline, nodes without CPUs.

use std::collections::BTreeMap;

use hostlet_resources::{CpuPlace, Machine, NumaNode};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

pub(crate) const MIB: u64 = 1 << 20;
const MAX_CPUS: u32 = 64;

/// A core, before its threads have numbers.
struct Core {
    node: u32,
    socket: u32,
    cache: u32,
    threads: u32,
}

pub(crate) fn machine(rng: &mut StdRng) -> Machine {
    let nodes: u32 = [1, 1, 2, 2, 2, 3, 4, 4, 6, 8].choose(rng).copied().unwrap_or(1);
    let cores = cores(rng, nodes);
    let mut cpus = BTreeMap::new();
    let is_interleaved = rng.random_bool(0.5);
    let numbers = numbers(&cores, is_interleaved);
    for (core, threads) in cores.iter().zip(numbers) {
        let online: Vec<u32> = threads;
        for cpu in &online {
            let place = CpuPlace { node: core.node, socket: core.socket, core: online[0], cache: core.cache };
            cpus.insert(*cpu, place);
        }
    }
    if rng.random_bool(0.15) {
        take_offline(rng, &mut cpus);
    }
    let with_cpus = nodes;
    let nodes = if nodes < 8 && rng.random_bool(0.1) { nodes + 1 } else { nodes };
    let huge_pages = rng.random_bool(0.5);
    let node = |rng: &mut StdRng, number: u32| {
        let mut huge = BTreeMap::new();
        if huge_pages {
            let pages = if number < with_cpus { rng.random_range(0..64) } else { 0 };
            huge.insert(2 * MIB, pages);
        }
        NumaNode { memory: rng.random_range(256..1024) * MIB, huge_pages: huge, distances: Vec::new() }
    };
    let mut nodes: BTreeMap<u32, NumaNode> = (0..nodes).map(|number| (number, node(rng, number))).collect();
    set_distances(rng, &mut nodes);
    Machine { cpus, nodes }
}

fn cores(rng: &mut StdRng, nodes: u32) -> Vec<Core> {
    let threads = [1, 2, 2, 2, 4].choose(rng).copied().unwrap_or(1);
    let is_hybrid = rng.random_bool(0.08);
    let is_uneven = rng.random_bool(0.15);
    // Some sockets have several nodes, some nodes several sockets.
    let nodes_per_socket = [1, 1, 2, 4].choose(rng).copied().unwrap_or(1);
    let sockets_per_node = if nodes_per_socket == 1 && rng.random_bool(0.15) { 2 } else { 1 };
    let most = (MAX_CPUS / nodes / threads).clamp(1, 8);
    let even = rng.random_range(1..=most);
    let per_cache = [1, 2, 4, 64].choose(rng).copied().unwrap_or(64);
    let mut cores = Vec::new();
    let mut cache = 0;
    for node in 0..nodes {
        let number = if is_uneven { rng.random_range(1..=most) } else { even };
        for at in 0..number {
            if at % per_cache == 0 {
                cache += 1;
            }
            let socket = node / nodes_per_socket * sockets_per_node + at % sockets_per_node;
            let threads = if is_hybrid { rng.random_range(1..=2) } else { threads };
            cores.push(Core { node, socket, cache, threads });
        }
    }
    cores
}

/// The CPUs of each core: neighbors, or first one of each core, then another.
fn numbers(cores: &[Core], is_interleaved: bool) -> Vec<Vec<u32>> {
    let mut numbers = vec![Vec::new(); cores.len()];
    let mut next = 0..;
    let rounds = if is_interleaved { cores.iter().map(|core| core.threads).max().unwrap_or(0) } else { 1 };
    for round in 0..rounds {
        for (core, numbers) in cores.iter().zip(&mut numbers) {
            let count = if !is_interleaved { core.threads } else { u32::from(round < core.threads) };
            numbers.extend(next.by_ref().take(count as usize));
        }
    }
    numbers
}

fn take_offline(rng: &mut StdRng, cpus: &mut BTreeMap<u32, CpuPlace>) {
    let all: Vec<u32> = cpus.keys().copied().collect();
    let offline = rng.random_range(0..all.len().min(4));
    for cpu in all.choose_multiple(rng, offline) {
        cpus.remove(cpu);
    }
    // A core is its lowest CPU.
    let mut lowest = BTreeMap::new();
    for (cpu, place) in cpus.iter_mut() {
        place.core = *lowest.entry(place.core).or_insert(*cpu);
    }
}

fn set_distances(rng: &mut StdRng, nodes: &mut BTreeMap<u32, NumaNode>) {
    let numbers: Vec<u32> = nodes.keys().copied().collect();
    let mut apart = BTreeMap::new();
    for a in &numbers {
        for b in numbers.iter().filter(|b| *b < a) {
            apart.insert((*b, *a), [11, 12, 20, 21, 32].choose(rng).copied().unwrap_or(20));
        }
    }
    for (number, node) in nodes {
        let distance = |to: &u32| apart.get(&(*to.min(number), *to.max(number))).copied().unwrap_or(10);
        node.distances = numbers.iter().map(distance).collect();
    }
}
