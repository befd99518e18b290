//! CPUs evenly from NUMA nodes, where one node has too few (upstream `takeByTopologyNUMADistributed`, KEP-2902). A combination of nodes is
//! used only if it has all CPUs that are needed; upstream can loop forever on one that has not, and compares another combination than it
//! uses once it considers four of five or more nodes.

use std::collections::BTreeMap;

use super::accumulator::Accumulator;
use super::combinations::each_combination;
use super::packed::{Packing, take_packed};
use crate::error::GrantError;
use crate::machine::{CpuSet, Level, Machine};
use crate::topology::MAX_NUMA_NODES;

/// How CPUs are distributed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distribution {
    /// CPUs are taken in groups of this many.
    pub(super) group: usize,
    /// Nodes of one socket are preferred.
    pub(super) by_socket: bool,
    /// How the CPUs of a node are chosen.
    pub(super) packing: Packing,
}

/// A combination of nodes, and what is taken from each.
struct Choice {
    /// How uneven it leaves the machine.
    balance: f64,
    nodes: Vec<u32>,
    /// What is taken from each node.
    each: usize,
    /// Which nodes give the rest, in turns.
    rest: Vec<u32>,
    in_one_socket: bool,
}

/// Takes this many of the available CPUs.
pub(super) fn take_distributed(
    machine: &Machine,
    available: &CpuSet,
    number: usize,
    how: Distribution,
) -> Result<CpuSet, GrantError> {
    let packed = || take_packed(machine, available, number, how.packing);
    let cpus = Accumulator::new(machine, available, number);
    if number == 0 || !number.is_multiple_of(how.group) || cpus.is_failed() {
        return packed();
    }
    let nodes = cpus.sorted(Level::Node);
    if nodes.len() > MAX_NUMA_NODES {
        return packed();
    }
    let free = machine.count(available, Level::Node);
    let search = Search { machine, nodes: &nodes, free: &free, number, how };
    let groups = number.div_ceil(how.group);
    let total = machine.cpus.len().div_ceil(how.group);
    let per_node = total.div_ceil(machine.nodes_with_cpus().len());
    let choice = (groups.div_ceil(per_node)..=groups.min(nodes.len())).find_map(|size| search.best(size));
    match choice {
        Some(choice) => take(machine, cpus, &choice, how),
        None => packed(),
    }
}

/// Takes what was chosen.
fn take(
    machine: &Machine,
    mut cpus: Accumulator<'_>,
    choice: &Choice,
    how: Distribution,
) -> Result<CpuSet, GrantError> {
    let take_from = |cpus: &mut Accumulator<'_>, node: u32, number: usize| {
        let taken = take_packed(machine, &cpus.available_in(Level::Node, node), number, how.packing)?;
        cpus.take(&taken);
        Ok::<(), GrantError>(())
    };
    for node in &choice.nodes {
        take_from(&mut cpus, *node, choice.each)?;
    }
    while !cpus.is_satisfied() {
        let before = cpus.needed();
        for node in &choice.rest {
            let has_group = cpus.available_in(Level::Node, *node).len() >= how.group;
            if !cpus.is_satisfied() && has_group {
                take_from(&mut cpus, *node, how.group)?;
            }
        }
        if cpus.needed() == before {
            return Err(GrantError::NoCpus);
        }
    }
    Ok(cpus.taken().clone())
}

/// The search for the best combination.
struct Search<'a> {
    machine: &'a Machine,
    nodes: &'a [u32],
    /// How many CPUs are available on each node.
    free: &'a BTreeMap<u32, usize>,
    number: usize,
    how: Distribution,
}

impl Search<'_> {
    /// The best combination of this many nodes: within a socket if that matters, then the one that leaves the machine most even, then
    /// the first.
    fn best(&self, size: usize) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        each_combination(self.nodes, size, &mut |nodes| {
            let is_perfect =
                |best: &Choice| best.balance == 0.0 && (!self.how.by_socket || best.in_one_socket);
            if best.as_ref().is_some_and(is_perfect) {
                return false;
            }
            if let Some(choice) = self.choice(nodes) {
                let is_better = best.as_ref().is_none_or(|best| {
                    if choice.in_one_socket == best.in_one_socket {
                        choice.balance < best.balance
                    } else {
                        choice.in_one_socket
                    }
                });
                if is_better {
                    best = Some(choice);
                }
            }
            true
        });
        best
    }

    /// What would be taken from these nodes, if they have enough.
    fn choice(&self, nodes: &[u32]) -> Option<Choice> {
        let group = self.how.group;
        let whole_groups = |node: &u32| self.free[node] / group * group;
        if nodes.iter().map(whole_groups).sum::<usize>() < self.number {
            return None;
        }
        let mut each = self.number / nodes.len() / group * group;
        if self.how.by_socket {
            each = nodes.iter().map(whole_groups).fold(each, usize::min);
        }
        if nodes.iter().any(|node| self.free[node] < each) {
            return None;
        }
        let mut left = self.free.clone();
        for node in nodes {
            left.entry(*node).and_modify(|left| *left -= each);
        }
        let rest = self.number - each * nodes.len();
        let (balance, rest) = self.rest(nodes, &left, rest)?;
        let in_one_socket = self.how.by_socket && self.sockets(nodes) <= 1;
        Some(Choice { balance, nodes: nodes.to_vec(), each, rest, in_one_socket })
    }

    /// Which nodes give the rest: as many as can, and among as many those that leave the machine most even.
    fn rest(&self, nodes: &[u32], left: &BTreeMap<u32, usize>, rest: usize) -> Option<(f64, Vec<u32>)> {
        if rest == 0 {
            return Some((unevenness(left), Vec::new()));
        }
        let group = self.how.group;
        let able: Vec<u32> = nodes.iter().copied().filter(|node| left[node] >= group).collect();
        let mut best: Option<(f64, Vec<u32>)> = None;
        for size in (1..=able.len()).rev() {
            each_combination(&able, size, &mut |subset| {
                if let Some(left) = without(left, subset, rest, group) {
                    let balance = unevenness(&left);
                    if best.as_ref().is_none_or(|(best, _)| balance < *best) {
                        best = Some((balance, subset.to_vec()));
                    }
                }
                true
            });
        }
        best
    }

    fn sockets(&self, nodes: &[u32]) -> usize {
        let nodes = nodes.iter().copied().collect();
        self.machine
            .count(&self.machine.within(&self.machine.all_cpus(), Level::Node, &nodes), Level::Socket)
            .len()
    }
}

/// What is left once these nodes gave the rest, a group each in turns; `None` if they have too little.
fn without(
    left: &BTreeMap<u32, usize>,
    nodes: &[u32],
    mut rest: usize,
    group: usize,
) -> Option<BTreeMap<u32, usize>> {
    let mut left = left.clone();
    while rest > 0 {
        let before = rest;
        for node in nodes {
            if let Some(left) = left.get_mut(node).filter(|left| rest > 0 && **left >= group) {
                *left -= group;
                rest -= group;
            }
        }
        if rest == before {
            return None;
        }
    }
    Some(left)
}

/// The standard deviation, rounded like upstream's so that equals are equal.
#[allow(clippy::cast_precision_loss, reason = "numbers of CPUs are small")]
fn unevenness(left: &BTreeMap<u32, usize>) -> f64 {
    let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
    let count = left.len() as f64;
    let mean = rounded(left.values().map(|left| *left as f64).sum::<f64>() / count);
    let squares = left.values().map(|left| (*left as f64 - mean) * (*left as f64 - mean));
    rounded((squares.sum::<f64>() / count).sqrt())
}
