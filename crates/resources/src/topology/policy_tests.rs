//! The policies, and merging against a look at every combination as upstream's.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::machine::NumaNode;

fn machine(nodes: u32) -> Machine {
    let node = |at: u32| {
        // Nodes are in pairs; each pair is farther from those before it.
        let distance = |to: u32| match at.abs_diff(to) {
            0 => 10,
            _ if at / 2 == to / 2 => 11,
            apart => 20 + u64::from(apart),
        };
        (at, NumaNode { distances: (0..nodes).map(distance).collect(), ..NumaNode::default() })
    };
    Machine { cpus: BTreeMap::new(), nodes: (0..nodes).map(node).collect() }
}

fn topology(policy: TopologyPolicy, prefer_closest: bool, nodes: u32) -> Topology {
    let options = TopologyOptions { prefer_closest, ..TopologyOptions::default() };
    Topology::new(policy, TopologyScope::Container, options, &machine(nodes)).unwrap()
}

fn hint(bits: u32, preferred: bool) -> Hint {
    let nodes = (bits > 0).then(|| NumaMask::of((0..8).filter(|bit| bits & (1 << bit) != 0)));
    Hint { nodes, preferred }
}

fn providers(resources: &[Vec<Hint>]) -> Vec<ProviderHints> {
    resources
        .iter()
        .enumerate()
        .map(|(at, hints)| BTreeMap::from([(at.to_string(), hints.clone())]))
        .collect()
}

/// Upstream's algorithm: each combination is compared with the best so far.
fn every_combination(topology: &Topology, resources: &[Vec<Hint>]) -> Hint {
    let needed = resources
        .iter()
        .filter_map(|hints| hints.iter().filter_map(|hint| hint.nodes).map(NumaMask::count).min());
    let needed = needed.max().unwrap_or(0);
    let mut combinations = vec![Vec::new()];
    for hints in resources {
        let hints = if hints.is_empty() { vec![hint(0, false)] } else { hints.clone() };
        combinations = combinations
            .into_iter()
            .flat_map(|before: Vec<Hint>| {
                hints.iter().map(move |own| [before.clone(), vec![*own]].concat()).collect::<Vec<_>>()
            })
            .collect();
    }
    let all = topology.nodes.all();
    let mut best: Option<Hint> = None;
    for combination in combinations {
        let masks: Vec<NumaMask> = combination.iter().filter_map(|hint| hint.nodes).collect();
        let preferred =
            combination.iter().all(|hint| hint.preferred) && masks.iter().all(|mask| *mask == masks[0]);
        let mask = masks.iter().fold(all, |merged, mask| merged.and(*mask));
        if mask.is_empty() {
            continue;
        }
        let Some(current) = best else {
            best = Some(Hint { nodes: Some(mask), preferred });
            continue;
        };
        let held = current.nodes.unwrap();
        let fits = topology.nodes.compare(mask, held).is_lt();
        let (count, held) = (mask.count(), held.count());
        let replaces = match (current.preferred, preferred) {
            (false, true) => true,
            (true, false) => false,
            (true, true) => fits,
            (false, false) if held > needed => fits,
            (false, false) if held == needed => count == needed && fits,
            (false, false) if count > needed => false,
            (false, false) if count == needed || count > held => true,
            (false, false) => count == held && fits,
        };
        if replaces {
            best = Some(Hint { nodes: Some(mask), preferred });
        }
    }
    best.unwrap_or(Hint { nodes: Some(all), preferred: false })
}

proptest! {
    #[test]
    fn the_best_is_that_of_every_combination(
        resources in proptest::collection::vec(proptest::collection::vec((0_u32..64, any::<bool>()), 0..6), 0..4),
        prefer_closest: bool,
    ) {
        let resources: Vec<Vec<Hint>> =
            resources.into_iter().map(|hints| hints.into_iter().map(|(bits, preferred)| hint(bits, preferred)).collect()).collect();
        let best_effort = topology(TopologyPolicy::BestEffort, prefer_closest, 6);
        let expected = every_combination(&best_effort, &resources);
        prop_assert_eq!(best_effort.merge(&providers(&resources)), (expected, true));
        let restricted = topology(TopologyPolicy::Restricted, prefer_closest, 6);
        prop_assert_eq!(restricted.merge(&providers(&resources)), (expected, expected.preferred));
    }

    /// Eight resources with every mask would be 10^19 combinations.
    #[test]
    fn many_hints_take_no_time(preferred: bool) {
        let every: Vec<Hint> = (1..256).map(|bits| hint(bits, preferred && bits == 255)).collect();
        let (best, is_admitted) = topology(TopologyPolicy::Restricted, true, 8).merge(&providers(&vec![every; 8]));
        prop_assert_eq!(is_admitted, preferred);
        prop_assert_eq!(best.nodes.map(NumaMask::count), Some(if preferred { 8 } else { 1 }));
    }
}

#[test]
fn without_hints_nothing_is_rejected() {
    for (policy, nodes) in [
        (TopologyPolicy::None, None),
        (TopologyPolicy::BestEffort, Some(NumaMask::of([0, 1]))),
        (TopologyPolicy::Restricted, Some(NumaMask::of([0, 1]))),
        (TopologyPolicy::SingleNumaNode, None),
    ] {
        let (best, is_admitted) = topology(policy, false, 2).merge(&[ProviderHints::new()]);
        assert_eq!((best.nodes, is_admitted), (nodes, true), "{policy:?}");
    }
}

#[test]
fn a_single_node_policy_takes_only_preferred_hints_of_one_node() {
    let single = topology(TopologyPolicy::SingleNumaNode, true, 4);
    let merge = |resources: &[Vec<Hint>]| single.merge(&providers(resources));
    let fits = vec![hint(0b10, true), hint(0b100, true), hint(0b110, false)];
    assert_eq!(merge(std::slice::from_ref(&fits)), (hint(0b10, true), true));
    assert_eq!(merge(&[fits.clone(), vec![hint(0b100, true)]]), (hint(0b100, true), true));
    for rejected in [vec![hint(0b110, true)], vec![hint(0b1000, true)], vec![]] {
        assert!(!merge(&[fits.clone(), rejected.clone()]).1, "{rejected:?}");
    }
}

#[test]
fn too_many_nodes_and_unknown_distances_are_errors() {
    let new = |nodes: u32, options| {
        Topology::new(TopologyPolicy::BestEffort, TopologyScope::Pod, options, &machine(nodes)).map(|_| ())
    };
    let many = |max_nodes| TopologyOptions { prefer_closest: false, max_nodes };
    assert_eq!(new(8, TopologyOptions::default()), Ok(()));
    assert_eq!(new(9, TopologyOptions::default()), Err(TopologyError::TooManyNodes(8)));
    assert_eq!(new(12, many(12)), Ok(()));
    assert_eq!(new(17, many(64)), Err(TopologyError::TooManyNodes(16)));
    let mut unknown = machine(2);
    unknown.nodes.insert(2, NumaNode::default());
    let closest = TopologyOptions { prefer_closest: true, ..TopologyOptions::default() };
    let result = Topology::new(TopologyPolicy::BestEffort, TopologyScope::Pod, closest, &unknown);
    assert_eq!(result.map(|_| ()), Err(TopologyError::NoDistances));
}
