//! Which device is published in which slice. Pure.
//!
//! A device stays in its slice as long as possible, because a slice that does not change needs no write, and a change of one slice
//! is a single write that consumers see at once.

use std::collections::HashMap;

use super::encode::ObservedSlice;

/// A slice to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The object that is changed for it, by index; `None` for a new one.
    pub(super) base: Option<usize>,
    /// The devices, by index, in ascending order.
    pub(super) devices: Vec<usize>,
}

/// Distributes devices, given by the keys of their names, over slices of at most `most` devices. Every device is in exactly one
/// target, and none is empty.
pub(super) fn assign(devices: &[u64], observed: &[ObservedSlice], most: usize) -> Vec<Target> {
    let most = most.max(1);
    let needed = devices.len().div_ceil(most);
    let mut targets = retained(devices, observed, most);
    // Half-empty slices are merged only when they are many, because that is a write of each.
    if targets.iter().filter(|target| !target.devices.is_empty()).count() > 2 * needed.max(1) {
        targets.iter_mut().for_each(|target| target.devices.clear());
    }
    let mut is_placed = vec![false; devices.len()];
    targets.iter().flat_map(|target| &target.devices).for_each(|device| is_placed[*device] = true);
    let mut unplaced: Vec<usize> = (0..devices.len()).filter(|device| !is_placed[*device]).collect();
    // Slices that change anyway first, then the fullest ones, so that few others change. Empty ones last.
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|index| {
        let target = &targets[*index];
        let is_changed = target.base.is_some_and(|base| observed[base].devices.len() != target.devices.len());
        (target.devices.is_empty(), !is_changed, most - target.devices.len(), *index)
    });
    unplaced.reverse();
    for index in order {
        let target = &mut targets[index];
        while target.devices.len() < most
            && let Some(device) = unplaced.pop()
        {
            target.devices.push(device);
        }
    }
    unplaced.reverse();
    targets.extend(unplaced.chunks(most).map(|devices| Target { base: None, devices: devices.to_vec() }));
    targets.iter_mut().for_each(|target| target.devices.sort_unstable());
    targets.retain(|target| !target.devices.is_empty());
    targets
}

/// A target for each observed slice, with the devices that it already has.
fn retained(devices: &[u64], observed: &[ObservedSlice], most: usize) -> Vec<Target> {
    let mut by_key: HashMap<u64, Vec<usize>> = HashMap::with_capacity(devices.len());
    for (device, key) in devices.iter().enumerate().rev() {
        by_key.entry(*key).or_default().push(device);
    }
    let mut bases: Vec<usize> = (0..observed.len()).collect();
    // The current generation first: an interrupted change may have left a device in two slices.
    bases.sort_by(|a, b| observed[*b].generation.cmp(&observed[*a].generation));
    bases
        .into_iter()
        .map(|base| {
            let has = observed[base].devices.iter().filter_map(|key| by_key.get_mut(key)?.pop());
            Target { base: Some(base), devices: has.take(most).collect() }
        })
        .collect()
}
