//! All masks that are the intersection of one mask of each of several sets, without looking at every combination: the number of
//! combinations that a mask is contained in is a product, and those that it is the intersection of follow from these by inclusion and
//! exclusion.

use crate::machine::NumaMask;

/// The intersections of one mask of each set so far.
pub(super) struct Intersections {
    nodes: Vec<u32>,
    /// Whether a mask is one, by the bits of its nodes in the order of `nodes`.
    is_one: Vec<bool>,
}

impl Intersections {
    /// Of no set: all nodes. Their number is bounded by [`MAX_NUMA_NODES`](super::MAX_NUMA_NODES).
    pub(super) fn new(all: NumaMask) -> Self {
        let nodes: Vec<u32> = all.nodes().collect();
        let mut is_one = vec![false; 1 << nodes.len()];
        if let Some(all) = is_one.last_mut() {
            *all = true;
        }
        Self { nodes, is_one }
    }

    /// With another set. Nodes that are not among all nodes are left out.
    pub(super) fn intersect(&mut self, set: impl Iterator<Item = NumaMask>) {
        let mut own: Vec<i64> = self.is_one.iter().map(|is_one| i64::from(*is_one)).collect();
        let mut other = vec![0; own.len()];
        for mask in set {
            other[self.index(mask)] = 1;
        }
        self.sum_supersets(&mut own, 1);
        self.sum_supersets(&mut other, 1);
        let mut products: Vec<i64> = own.iter().zip(other).map(|(own, other)| own * other).collect();
        self.sum_supersets(&mut products, -1);
        self.is_one = products.into_iter().map(|combinations| combinations > 0).collect();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NumaMask> + '_ {
        let ones = self.is_one.iter().enumerate().filter(|(_, is_one)| **is_one);
        ones.map(|(index, _)| {
            let nodes = self.nodes.iter().enumerate().filter(|(bit, _)| index & (1 << bit) != 0);
            NumaMask::of(nodes.map(|(_, node)| *node))
        })
    }

    fn index(&self, mask: NumaMask) -> usize {
        let bits = self.nodes.iter().enumerate().filter(|(_, node)| mask.contains(**node));
        bits.fold(0, |index, (bit, _)| index | 1 << bit)
    }

    /// Adds to each mask the numbers of all larger ones; with -1 the reverse.
    fn sum_supersets(&self, numbers: &mut [i64], sign: i64) {
        for bit in 0..self.nodes.len() {
            for index in (0..numbers.len()).filter(|index| index & (1 << bit) == 0) {
                numbers[index] += sign * numbers[index | 1 << bit];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_those_of_every_combination(sets in proptest::collection::vec(proptest::collection::btree_set(0_u32..64, 1..6), 0..4)) {
            // Six nodes, one of them with a high number.
            let node = |bit: u32| if bit == 5 { 9 } else { bit };
            let mask = |bits: u32| NumaMask::of((0..6).filter(move |bit| bits & (1 << bit) != 0).map(node));
            let mut found = Intersections::new(mask(63));
            let mut expected = BTreeSet::from([mask(63)]);
            for set in &sets {
                found.intersect(set.iter().map(|bits| mask(*bits)));
                expected = expected.iter().flat_map(|own| set.iter().map(|bits| own.and(mask(*bits)))).collect();
            }
            prop_assert_eq!(found.iter().collect::<BTreeSet<_>>(), expected);
        }
    }
}
