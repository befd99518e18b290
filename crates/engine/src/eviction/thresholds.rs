//! Which thresholds apply and which are crossed. Pure. The rules are upstream's (`kubelet/eviction/helpers.go`).

use std::collections::BTreeMap;

use hostlet_base::Quantity;
use hostlet_base::node::{Pressure, Signal};
use hostlet_base::settings::EvictionThreshold;
use hostlet_observe::stats::{DiskLayout, Observation};

/// What was observed, by signal.
pub(super) type Observations = BTreeMap<Signal, Observation>;

/// How much has to be reclaimed before a threshold counts as no longer crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reclaim {
    /// Nothing beyond the threshold itself.
    Ignored,
    /// Its minimum (`evictionMinimumReclaim`).
    Required,
}

/// How much is missing until the threshold is no longer crossed, in whole units; `None` if it is not crossed, or not observed.
pub(super) fn shortage(
    threshold: &EvictionThreshold,
    observations: &Observations,
    reclaim: Reclaim,
) -> Option<u64> {
    let observed = observations.get(&threshold.signal)?;
    let least = threshold.value.of(observed.capacity);
    let least = match (reclaim, threshold.min_reclaim) {
        (Reclaim::Required, Some(more)) => least.plus(more.of(observed.capacity)),
        (Reclaim::Required, None) | (Reclaim::Ignored, _) => least,
    };
    let is_crossed = least > observed.available;
    is_crossed.then(|| u64::try_from(least.less(observed.available).value()).unwrap_or(0))
}

/// Whether the threshold is crossed. One that is not observed is not.
pub(super) fn is_crossed(
    threshold: &EvictionThreshold,
    observations: &Observations,
    reclaim: Reclaim,
) -> bool {
    shortage(threshold, observations, reclaim).is_some()
}

/// The thresholds that apply on a node with these filesystems. Those of writable layers are not configured: as upstream, they are those
/// of the filesystem that has the layers (`UpdateContainerFsThresholds`).
pub(super) fn applicable(
    configured: &[EvictionThreshold],
    layout: Option<DiskLayout>,
) -> Vec<EvictionThreshold> {
    let is_of_layers = |signal: Signal| match signal {
        Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree => true,
        Signal::MemoryAvailable
        | Signal::AllocatableMemoryAvailable
        | Signal::NodefsAvailable
        | Signal::NodefsInodesFree
        | Signal::ImagefsAvailable
        | Signal::ImagefsInodesFree
        | Signal::PidAvailable => false,
    };
    let mut all: Vec<EvictionThreshold> =
        configured.iter().filter(|threshold| !is_of_layers(threshold.signal)).copied().collect();
    let copied = match layout {
        None => return all,
        Some(DiskLayout::One | DiskLayout::Split) => [Signal::NodefsAvailable, Signal::NodefsInodesFree],
        Some(DiskLayout::ImagesApart) => [Signal::ImagefsAvailable, Signal::ImagefsInodesFree],
    };
    for (from, to) in copied.into_iter().zip([Signal::ContainerfsAvailable, Signal::ContainerfsInodesFree]) {
        let of_layers = all.iter().filter(|threshold| threshold.signal == from).copied();
        let of_layers: Vec<_> =
            of_layers.map(|threshold| EvictionThreshold { signal: to, ..threshold }).collect();
        all.extend(of_layers);
    }
    all
}

/// Sorts thresholds by what is relieved first: memory, which runs out fastest.
pub(super) fn by_priority(thresholds: &mut [EvictionThreshold]) {
    thresholds.sort_by_key(|threshold| threshold.signal.pressure() != Pressure::Memory);
}

/// The lowest amount that has to be left of a signal, at once or for some time; `None` without such a threshold.
pub(super) fn limit(
    thresholds: &[EvictionThreshold],
    signal: Signal,
    is_hard: bool,
    capacity: Quantity,
) -> Option<Quantity> {
    let of_signal = thresholds.iter().filter(|it| it.signal == signal && it.is_hard() == is_hard);
    of_signal.map(|threshold| threshold.value.of(capacity)).max()
}
