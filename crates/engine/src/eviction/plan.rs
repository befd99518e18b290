//! Which limit a pod exceeds. Pure. Order and messages are upstream's (`localStorageEviction`).

use std::collections::BTreeMap;

use super::evictor::{EvictionReason, IMMEDIATE_SECONDS};
use super::limits::StorageLimits;
use hostlet_base::Quantity;
use hostlet_observe::stats::{ContainerStorage, PodStorage};

/// The kinds of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    EmptyDir,
    Pod,
    Container,
}

impl Signal {
    /// Upstream's label value.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::EmptyDir => "emptydirfs.limit",
            Self::Pod => "ephemeralpodfs.limit",
            Self::Container => "ephemeralcontainerfs.limit",
        }
    }
}

/// An exceeded limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Breach {
    pub(super) signal: Signal,
    pub(super) message: String,
}

impl Breach {
    /// How the pod is evicted. It gets no condition `DisruptionTarget`: the pod itself is the cause.
    pub(super) fn reason(&self) -> EvictionReason {
        EvictionReason {
            signal: self.signal.as_str(),
            message: self.message.clone(),
            annotations: BTreeMap::new(),
            grace_seconds: IMMEDIATE_SECONDS,
            is_of_node: false,
        }
    }
}

/// The first limit that a pod exceeds. What has not been measured yet counts as nothing.
pub(super) fn breach(limits: &StorageLimits, storage: &PodStorage) -> Option<Breach> {
    let exceeds = |used: u64, limit: &Quantity| Quantity::bytes(used) > *limit;
    for (name, limit) in &limits.volumes {
        if storage.volumes.get(name).is_some_and(|used| exceeds(used.space.bytes, limit)) {
            let message = format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". ");
            return Some(Breach { signal: Signal::EmptyDir, message });
        }
    }
    if let Some(limit) = limits.pod.filter(|limit| exceeds(total(limits, storage), limit)) {
        let message =
            format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
        return Some(Breach { signal: Signal::Pod, message });
    }
    let containers = storage.containers.iter().flat_map(|containers| &containers.by_name);
    for (name, used) in containers {
        let limit = limits.containers.get(&**name).filter(|limit| exceeds(of_container(used), limit));
        if let Some(limit) = limit {
            let message =
                format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". ");
            return Some(Breach { signal: Signal::Container, message });
        }
    }
    None
}

/// What counts for a pod: containers, volumes on disk, and its own files.
fn total(limits: &StorageLimits, storage: &PodStorage) -> u64 {
    // Others may be measured because somebody asked.
    let on_disk = storage.volumes.iter().filter(|(name, _)| limits.on_disk.contains(*name));
    let volumes = on_disk.fold(0, |sum: u64, (_, used)| sum.saturating_add(used.space.bytes));
    let Some(containers) = &storage.containers else { return volumes };
    let each = containers.by_name.values().map(|c| c.writable_layer.saturating_add(c.logs));
    each.fold(volumes.saturating_add(containers.pod_files), u64::saturating_add)
}

/// What counts for a container. A writable layer on a filesystem of images is not local storage.
fn of_container(used: &ContainerStorage) -> u64 {
    let layer = if used.is_layer_elsewhere { 0 } else { used.writable_layer };
    layer.saturating_add(used.logs)
}
