//! The NUMA nodes on which a request can be granted, in the shape that `hostlet_resources` has for all allocators. Pure.

/// The largest number of a NUMA node in a mask, and one.
const NODES: u32 = u64::BITS;

/// A set of NUMA nodes below 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumaMask(u64);

impl NumaMask {
    /// The mask of these nodes. Numbers above the limit are left out.
    pub fn of(nodes: impl IntoIterator<Item = u32>) -> Self {
        Self(nodes.into_iter().filter(|node| *node < NODES).fold(0, |mask, node| mask | 1 << node))
    }

    /// How many nodes the mask has.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether a node is in the mask.
    pub fn contains(self, node: u32) -> bool {
        node < NODES && self.0 & (1 << node) != 0
    }
}

/// A possible allocation by its NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The nodes; `None` is no preference.
    pub nodes: Option<NumaMask>,
    /// Whether no allocation takes fewer nodes.
    pub preferred: bool,
}
