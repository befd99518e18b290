//! The NUMA nodes from which a number of devices can be allocated (upstream `generateDeviceTopologyHints`). Pure.

use std::collections::BTreeSet;

use crate::device::{Device, DeviceIds, DeviceList};
use hostlet_resources::{Hint, NumaMask};

/// The largest number of NUMA nodes with devices of one resource of which all sets are looked at.
const MOST_NODES: usize = 16;

/// The hints for `requested` devices. `available` can be allocated; `reusable` are allocated first, so that a set without one of them is
/// not possible. `None` if nothing is to be preferred: no device has a node, or there are too many nodes to look at their sets.
pub(crate) fn hints(
    list: &DeviceList,
    known_nodes: &BTreeSet<u32>,
    available: &DeviceIds,
    reusable: &DeviceIds,
    requested: usize,
) -> Option<Vec<Hint>> {
    if !list.values().any(|device| !device.nodes.is_empty()) {
        return None;
    }
    // Sets with other nodes have no more devices. A node that the machine does not have is none.
    let with_devices: BTreeSet<u32> = list.values().flat_map(numbers).collect();
    let mut nodes: Vec<u32> = with_devices.intersection(known_nodes).copied().collect();
    if nodes.is_empty() {
        nodes = known_nodes.iter().copied().collect();
    }
    if nodes.len() > MOST_NODES {
        return None;
    }
    let mut fewest = nodes.len();
    let mut possible = Vec::new();
    for mask in sets(&nodes) {
        let size = usize::try_from(mask.count()).unwrap_or(usize::MAX);
        if list.values().filter(|device| is_near(device, mask)).count() >= requested {
            fewest = fewest.min(size);
        }
        let near = |id: &&String| list.get(*id).is_some_and(|device| is_near(device, mask));
        let of_node = |id: &&String| list.get(*id).is_some_and(|device| !device.nodes.is_empty());
        let bound = reusable.iter().filter(of_node).count();
        let reused = reusable.iter().filter(near).count();
        if reused < bound {
            continue;
        }
        if reused + available.iter().filter(near).count() >= requested {
            possible.push((mask, size));
        }
    }
    let hint = |(mask, size)| Hint { nodes: Some(mask), preferred: size == fewest };
    Some(possible.into_iter().map(hint).collect())
}

/// Whether a device is close to a node of the set.
pub(crate) fn is_near(device: &Device, mask: NumaMask) -> bool {
    numbers(device).any(|node| mask.contains(node))
}

fn numbers(device: &Device) -> impl Iterator<Item = u32> {
    device.nodes.iter().filter_map(|node| u32::try_from(*node).ok())
}

/// All sets of at least one of these nodes, smaller ones first.
fn sets(nodes: &[u32]) -> Vec<NumaMask> {
    let set = |picks: u32| {
        let picked = nodes.iter().enumerate().filter(|(at, _)| picks & (1 << at) != 0);
        NumaMask::of(picked.map(|(_, node)| *node))
    };
    let mut sets: Vec<NumaMask> = (1..1_u32 << nodes.len()).map(set).collect();
    sets.sort_by_key(|mask| (mask.count(), *mask));
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Health;

    fn list(devices: &[(&str, &[i64])]) -> DeviceList {
        let device =
            |nodes: &[i64]| Device { health: Health::Healthy, nodes: nodes.iter().copied().collect() };
        devices.iter().map(|(id, nodes)| ((*id).to_owned(), device(nodes))).collect()
    }

    fn ids(names: &[&str]) -> DeviceIds {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn hint(nodes: &[u32], preferred: bool) -> Hint {
        Hint { nodes: Some(NumaMask::of(nodes.iter().copied())), preferred }
    }

    #[test]
    fn the_smallest_set_that_an_idle_machine_needs_is_preferred() {
        let all = list(&[("a", &[0]), ("b", &[0]), ("c", &[1]), ("d", &[1])]);
        let known = [0, 1, 2, 3].into();
        let free = ids(&["a", "b", "c", "d"]);
        let expected = vec![hint(&[0], true), hint(&[1], true), hint(&[0, 1], false)];
        assert_eq!(hints(&all, &known, &free, &DeviceIds::new(), 2), Some(expected));
        // One is in use: the set of both nodes is possible and not preferred.
        let expected = vec![hint(&[0, 1], false)];
        assert_eq!(hints(&all, &known, &ids(&["a", "c"]), &DeviceIds::new(), 2), Some(expected));
        assert_eq!(hints(&all, &known, &ids(&["a"]), &DeviceIds::new(), 2), Some(Vec::new()));
    }

    #[test]
    fn reusable_devices_must_be_in_the_set() {
        let all = list(&[("a", &[0]), ("b", &[1]), ("c", &[1]), ("e", &[])]);
        let expected = vec![hint(&[0], true), hint(&[0, 1], false)];
        assert_eq!(hints(&all, &[0, 1].into(), &ids(&["b", "c"]), &ids(&["a", "e"]), 1), Some(expected));
    }

    #[test]
    fn devices_without_nodes_prefer_nothing_and_unknown_nodes_do_not_count() {
        let free = ids(&["a"]);
        assert_eq!(hints(&list(&[("a", &[])]), &[0].into(), &free, &DeviceIds::new(), 1), None);
        let far = list(&[("a", &[0, 7]), ("b", &[9])]);
        assert_eq!(hints(&far, &[0, 1].into(), &free, &DeviceIds::new(), 1), Some(vec![hint(&[0], true)]));
        let ids: Vec<String> = (0..40).map(|node| node.to_string()).collect();
        let many: DeviceList = ids
            .iter()
            .zip(0..)
            .map(|(id, node)| (id.clone(), Device { health: Health::Healthy, nodes: [node].into() }))
            .collect();
        assert_eq!(hints(&many, &(0..40).collect(), &free, &DeviceIds::new(), 1), None);
    }
}
