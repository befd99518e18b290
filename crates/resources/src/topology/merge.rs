//! The best combination of one hint of each resource. Upstream looks at every combination in turn; their number is exponential in the
//! number of resources. Its order of preference is total, so that the best of the distinct results is the same, and these are few.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::Hint;
use super::intersections::Intersections;
use crate::machine::{Machine, NumaMask, NumaNode};

/// The NUMA nodes, and how masks of them compare.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    all: NumaMask,
    /// The distances from each node to each, if they matter.
    distances: Option<BTreeMap<(u32, u32), u64>>,
}

impl Nodes {
    pub(super) fn new(machine: &Machine, by_distance: bool) -> Self {
        let from = |(node, of): (&u32, &NumaNode)| {
            let from = *node;
            let to = machine.nodes.keys().zip(of.distances.clone());
            to.map(move |(to, distance)| ((from, *to), distance)).collect::<Vec<_>>()
        };
        let distances = by_distance.then(|| machine.nodes.iter().flat_map(from).collect());
        Self { all: NumaMask::of(machine.nodes.keys().copied()), distances }
    }

    pub(super) fn all(&self) -> NumaMask {
        self.all
    }

    /// `Less` is better: fewer nodes, then closer ones, then lower ones.
    pub(super) fn compare(&self, a: NumaMask, b: NumaMask) -> Ordering {
        a.count().cmp(&b.count()).then_with(|| self.mean(a).total_cmp(&self.mean(b))).then_with(|| a.cmp(&b))
    }

    /// The mean distance between nodes of a mask.
    #[allow(clippy::cast_precision_loss, reason = "distances are small numbers")]
    fn mean(&self, mask: NumaMask) -> f64 {
        let Some(distances) = &self.distances else { return 0.0 };
        let pairs = mask.nodes().flat_map(|a| mask.nodes().map(move |b| (a, b)));
        let sum =
            pairs.fold(0.0, |sum, pair| sum + distances.get(&pair).map_or(0.0, |distance| *distance as f64));
        sum / f64::from(mask.count() * mask.count()).max(1.0)
    }
}

/// The best combination. Without any it is all nodes, not preferred. A resource without hints contributes one without preference, which
/// is not preferred.
pub(super) fn merge<'a>(nodes: &Nodes, resources: impl Iterator<Item = &'a [Hint]>) -> Hint {
    let resources: Vec<&[Hint]> = resources.collect();
    let merged = preferred(nodes, &resources).or_else(|| not_preferred(nodes, &resources));
    merged.unwrap_or(Hint { nodes: Some(nodes.all), preferred: false })
}

/// The best combination in which all hints are preferred and name the same nodes.
fn preferred(nodes: &Nodes, resources: &[&[Hint]]) -> Option<Hint> {
    let preferred = |hints: &&[Hint]| -> BTreeSet<Option<NumaMask>> {
        hints.iter().filter(|hint| hint.preferred).map(|hint| hint.nodes).collect()
    };
    let sets: Vec<_> = resources.iter().map(preferred).collect();
    // `None` is a combination without any preference.
    let candidates: BTreeSet<_> = sets.iter().flatten().copied().chain([None]).collect();
    let is_common =
        |candidate: &Option<NumaMask>| sets.iter().all(|set| set.contains(candidate) || set.contains(&None));
    let common = candidates.into_iter().filter(is_common);
    let masks = common.map(|mask| mask.map_or(nodes.all, |mask| mask.and(nodes.all)));
    let best = masks.filter(|mask| !mask.is_empty()).min_by(|a, b| nodes.compare(*a, *b))?;
    Some(Hint { nodes: Some(best), preferred: true })
}

/// The best combination of any hints, when none is preferred: as many nodes as the resource that needs most, else fewer, else more.
fn not_preferred(nodes: &Nodes, resources: &[&[Hint]]) -> Option<Hint> {
    let narrowest = |hints: &&[Hint]| hints.iter().filter_map(|hint| hint.nodes).map(NumaMask::count).min();
    let most_needed = resources.iter().filter_map(narrowest).max().unwrap_or(0);
    let mut masks = Intersections::new(nodes.all);
    for hints in resources.iter().filter(|hints| !hints.is_empty()) {
        masks.intersect(hints.iter().map(|hint| hint.nodes.unwrap_or(nodes.all)));
    }
    let rank = |mask: NumaMask| match mask.count() {
        count if count <= most_needed => most_needed - count,
        // Any smaller number is better than a larger one.
        count => most_needed + count,
    };
    let better = |a: &NumaMask, b: &NumaMask| rank(*a).cmp(&rank(*b)).then_with(|| nodes.compare(*a, *b));
    let best = masks.iter().filter(|mask| !mask.is_empty()).min_by(better)?;
    Some(Hint { nodes: Some(best), preferred: false })
}
