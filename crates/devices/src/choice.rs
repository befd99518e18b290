//! Which devices a container gets: those of ended init containers of its pod first, then those close to the NUMA nodes that were chosen
//! for it, and of several equal ones those that the plugin prefers (upstream `devicesToAllocate`). Pure.

use crate::device::{DeviceIds, DeviceList};
use crate::hints::is_near;
use hostlet_resources::Hint;

/// What there is to choose from.
pub(crate) struct Offer<'a> {
    /// How many the container needs.
    pub(crate) required: usize,
    /// All devices of the resource.
    pub(crate) list: &'a DeviceList,
    /// The healthy ones that nobody has.
    pub(crate) free: DeviceIds,
    /// The healthy ones that the container may share with init containers of its pod.
    pub(crate) reusable: DeviceIds,
    /// The NUMA nodes that were chosen for the container.
    pub(crate) affinity: Option<&'a Hint>,
}

/// There are not enough devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TooFew {
    /// How many are needed beyond reusable ones.
    pub(crate) needed: usize,
    pub(crate) available: usize,
}

/// A choice that may take the plugin's preference into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    required: usize,
    /// Chosen already.
    taken: DeviceIds,
    /// Among these the plugin's preference counts; empty if nothing is left to choose.
    open: DeviceIds,
    /// The others, best first.
    rest: Vec<String>,
}

/// What the plugin is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) available: DeviceIds,
    pub(crate) must_include: DeviceIds,
    pub(crate) size: usize,
}

impl Choice {
    pub(crate) fn new(offer: Offer<'_>) -> Result<Self, TooFew> {
        let Offer { required, list, free, reusable, affinity } = offer;
        let mut taken: DeviceIds = reusable.into_iter().take(required).collect();
        let needed = required - taken.len();
        if needed == 0 {
            return Ok(Self { required, taken, open: DeviceIds::new(), rest: Vec::new() });
        }
        if free.len() < needed {
            return Err(TooFew { needed, available: free.len() });
        }
        let (aligned, unaligned, without) = by_affinity(list, free, affinity);
        if needed < aligned.len() {
            return Ok(Self { required, taken, open: aligned.clone(), rest: aligned.into_iter().collect() });
        }
        taken.extend(aligned);
        let open: DeviceIds = match required - taken.len() {
            0 => DeviceIds::new(),
            _ => unaligned.union(&without).cloned().collect(),
        };
        Ok(Self { required, taken, open, rest: unaligned.into_iter().chain(without).collect() })
    }

    /// What to ask the plugin, if it has preferences; `None` if nothing is left to choose.
    pub(crate) fn question(&self) -> Option<Question> {
        (!self.open.is_empty()).then(|| Question {
            available: self.open.union(&self.taken).cloned().collect(),
            must_include: self.taken.clone(),
            size: self.required,
        })
    }

    /// The devices, with as many preferred ones as possible.
    pub(crate) fn devices(self, preferred: &DeviceIds) -> DeviceIds {
        let Self { required, mut taken, open, rest } = self;
        let preferred = preferred.intersection(&open).cloned();
        for id in preferred.chain(rest) {
            if taken.len() == required {
                break;
            }
            taken.insert(id);
        }
        taken
    }
}

/// The devices that are close to the chosen NUMA nodes, those close to others only, and those without a node. Without a choice, or if
/// no device of the resource has a node, all are of the last kind.
fn by_affinity(
    list: &DeviceList,
    free: DeviceIds,
    affinity: Option<&Hint>,
) -> (DeviceIds, DeviceIds, DeviceIds) {
    let has_nodes = list.values().any(|device| !device.nodes.is_empty());
    let chosen = affinity.and_then(|hint| hint.nodes).filter(|_| has_nodes);
    let (mut aligned, mut unaligned, mut without) = (DeviceIds::new(), DeviceIds::new(), DeviceIds::new());
    let Some(chosen) = chosen else { return (aligned, unaligned, free) };
    for id in free {
        match list.get(&id).filter(|device| !device.nodes.is_empty()) {
            Some(device) if is_near(device, chosen) => aligned.insert(id),
            Some(_) => unaligned.insert(id),
            None => without.insert(id),
        };
    }
    (aligned, unaligned, without)
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
