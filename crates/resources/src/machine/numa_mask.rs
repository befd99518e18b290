//! Sets of NUMA nodes, as hints name them.

/// The largest number of a NUMA node in a mask, and one.
const NODES: u32 = u64::BITS;

/// A set of NUMA nodes below 64, upstream's limit as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NumaMask(u64);

impl NumaMask {
    /// The mask of these nodes. Numbers above the limit, which a machine with hints does not have, are left out.
    pub fn of(nodes: impl IntoIterator<Item = u32>) -> Self {
        Self(nodes.into_iter().filter(|node| *node < NODES).fold(0, |mask, node| mask | 1 << node))
    }

    /// The nodes in ascending order.
    pub fn nodes(self) -> impl Iterator<Item = u32> {
        (0..NODES).filter(move |node| self.contains(*node))
    }

    /// How many nodes the mask has.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the mask has no node.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a node is in the mask.
    pub fn contains(self, node: u32) -> bool {
        node < NODES && self.0 & (1 << node) != 0
    }

    /// Whether every node of the other mask is in this one.
    pub fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The nodes that are in both masks.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the mask has fewer nodes than the other, or as many but lower ones.
    pub fn is_narrower_than(self, other: Self) -> bool {
        (self.count(), self.0) < (other.count(), other.0)
    }

    /// Every mask with at least one of these nodes. There are 2^n - 1: callers bound n.
    pub(crate) fn subsets(nodes: &[u32]) -> impl Iterator<Item = Self> + '_ {
        let of = |picks: u64| {
            Self::of(
                nodes.iter().enumerate().filter(move |(at, _)| picks & (1 << at) != 0).map(|(_, node)| *node),
            )
        };
        (1_u64..1 << nodes.len().min(32)).map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_then_lower_nodes_are_narrower() {
        let mask = |nodes: &[u32]| NumaMask::of(nodes.iter().copied());
        assert!(mask(&[3]).is_narrower_than(mask(&[0, 1])));
        assert!(mask(&[0, 1]).is_narrower_than(mask(&[0, 2])));
        assert!(!mask(&[1]).is_narrower_than(mask(&[1])));
        assert_eq!(mask(&[0, 70]).nodes().collect::<Vec<_>>(), [0]);
        let subsets: Vec<_> = NumaMask::subsets(&[0, 4]).collect();
        assert_eq!(subsets, [mask(&[0]), mask(&[4]), mask(&[0, 4])]);
        assert!(mask(&[0, 4]).includes(mask(&[4])) && !mask(&[4]).includes(mask(&[0, 4])));
    }
}
