//! Who uses a resource that the node runs out of, in words: for a node on which no eviction helps. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hostlet_base::PodUid;
use hostlet_base::node::Signal;
use hostlet_observe::stats::Observation;
use hostlet_pod::DesiredPods;

use super::rank::Starved;
use super::usage::PodsConsumption;

/// How many pods are named.
const MOST_NAMED: usize = 3;

/// Who uses the resource of a signal: pods by what they use, the largest of them, and what is left. `stays` is what could not be freed
/// although no eviction needs it, such as images in use.
pub(super) fn holders(
    signal: Signal,
    seen: Option<&Observation>,
    starved: Starved,
    consumption: &PodsConsumption,
    desired: &DesiredPods,
    stays: &[String],
) -> String {
    let used = seen.map_or(0, |seen| u64::try_from(seen.capacity.less(seen.available).value()).unwrap_or(0));
    let of_pods = consumption.values().map(|pod| starved.usage(pod)).fold(0, u64::saturating_add);
    let rest = starved.amount(used.saturating_sub(of_pods));
    let others = if starved.counts_images() { "are images and files of others" } else { "are not of pods" };
    let mut text = format!(
        "Of {} in use for {}, pods use {}{}{}; {rest} {others}",
        starved.amount(used),
        signal.name(),
        starved.amount(of_pods),
        parts(starved, consumption),
        largest(starved, consumption, desired),
    );
    for what in stays {
        text.push_str(". ");
        text.push_str(what);
    }
    text
}

/// ` (1GB in volumes, 20MB in logs)`.
fn parts(starved: Starved, consumption: &PodsConsumption) -> String {
    let mut sums: Vec<(&'static str, u64)> = Vec::new();
    for (name, amount) in consumption.values().flat_map(|pod| starved.split(pod)) {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => sums.push((name, amount)),
        }
    }
    let texts: Vec<String> =
        sums.into_iter().map(|(name, sum)| format!("{} in {name}", starved.amount(sum))).collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
}

/// `, most by ns/web (900MB)`.
fn largest(starved: Starved, consumption: &PodsConsumption, desired: &DesiredPods) -> String {
    let names: BTreeMap<&PodUid, String> =
        desired.pods.iter().map(|pod| (&pod.reference.uid, pod.reference.to_string())).collect();
    let using =
        consumption.iter().map(|(uid, pod)| (uid, starved.usage(pod))).filter(|(_, usage)| *usage > 0);
    let mut using: Vec<(&PodUid, u64)> = using.collect();
    using.sort_by_key(|(_, usage)| Reverse(*usage));
    let named = using.iter().take(MOST_NAMED).map(|(uid, usage)| {
        let name = names.get(uid).cloned().unwrap_or_else(|| uid.to_string());
        format!("{name} ({})", starved.amount(*usage))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { String::new() } else { format!(", most by {}", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use hostlet_base::testing::at;
    use hostlet_base::{PodRef, Quantity};
    use hostlet_observe::stats::DiskLayout;

    use super::super::testing::pod;
    use super::super::usage::{ContainerConsumption, DiskSpace, PodConsumption};
    use super::*;

    fn disk(volumes: u64, logs: u64, layer: u64) -> PodConsumption {
        let space = |mb: u64| DiskSpace { bytes: mb * 1_000_000, inodes: mb };
        let container = ContainerConsumption {
            layer: Some(space(layer)),
            logs: Some(space(logs)),
            ..ContainerConsumption::default()
        };
        let containers = [("c".into(), container)].into();
        PodConsumption {
            volumes: space(volumes),
            memory: Some(logs),
            containers,
            ..PodConsumption::default()
        }
    }

    #[test]
    fn pods_images_and_others_are_distinguished() {
        let pods = ["a", "b", "c", "d"].map(pod);
        let desired = DesiredPods { pods: pods.to_vec(), ..DesiredPods::default() };
        let uid = |name: &str| PodRef::new("default", name, name).uid;
        let consumption: PodsConsumption = [
            (uid("a"), disk(1, 2, 3)),
            (uid("b"), disk(0, 0, 0)),
            (uid("c"), disk(400, 0, 1)),
            (uid("d"), disk(0, 7, 0)),
            (uid("deleted"), disk(1, 0, 0)),
        ]
        .into();
        let observed = |available: u64, capacity: u64| Observation {
            at: at(0),
            available: Quantity::bytes(available),
            capacity: Quantity::bytes(capacity),
        };
        let text = |signal: Signal, layout: DiskLayout, seen: Observation, stays: &[String]| {
            let starved = Starved::new(signal, layout, 0, false);
            holders(signal, Some(&seen), starved, &consumption, &desired, stays)
        };
        let disk = observed(5_000_000_000, 100_000_000_000);
        assert_eq!(
            text(Signal::NodefsAvailable, DiskLayout::One, disk, &["2 images (3GB) are in use".to_owned()]),
            "Of 95GB in use for nodefs.available, pods use 415MB (402MB in volumes, 9MB in logs, 4MB in writable layers), most by \
             default/c (401MB), default/d (7MB), default/a (6MB); 94.6GB are images and files of others. 2 images (3GB) are in use"
        );
        // Only what is on the filesystem counts.
        let apart = text(Signal::NodefsInodesFree, DiskLayout::ImagesApart, observed(0, 1000), &[]);
        assert!(
            apart.starts_with(
                "Of 1000 in use for nodefs.inodesFree, pods use 411 (402 in volumes, 9 in logs),"
            ),
            "{apart}"
        );
        assert!(apart.ends_with("; 589 are not of pods"), "{apart}");
        let memory = text(Signal::MemoryAvailable, DiskLayout::One, observed(90, 100), &[]);
        assert_eq!(
            memory,
            "Of 10B in use for memory.available, pods use 9B, most by default/d (7B), default/a (2B); 1B are not of pods"
        );
    }
}
