//! Hints: the NUMA nodes from which a resource can be allocated.

use std::collections::BTreeMap;

use crate::machine::NumaMask;

/// A possible allocation by its NUMA nodes, or the result of merging such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The nodes; `None` is no preference.
    pub nodes: Option<NumaMask>,
    /// Whether no allocation takes fewer nodes.
    pub preferred: bool,
}

/// What a provider hints for each of its resources. A resource that is not listed has no preference; one without hints cannot be
/// allocated.
pub type ProviderHints = BTreeMap<String, Vec<Hint>>;

/// Marks the hints with as few nodes as possible as preferred.
pub(crate) fn prefer_narrow(masks: Vec<NumaMask>, fewest: u32) -> Vec<Hint> {
    let hint = |mask: NumaMask| Hint { nodes: Some(mask), preferred: mask.count() == fewest };
    masks.into_iter().map(hint).collect()
}
