//! Which pod is evicted first, and which is not worth it. Pure. The order is upstream's (`rankMemoryPressure`, `rankPIDPressure`,
//! `rankDiskPressureFunc`).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use hostlet_base::node::Signal;
use hostlet_base::resources::{EPHEMERAL_STORAGE, MEMORY};
use hostlet_base::{Quantity, human_size};
use hostlet_observe::stats::DiskLayout;
use hostlet_pod::AdmittedPod;
use hostlet_pod::resources::requested_resources;

use super::usage::{ContainerConsumption, DiskSpace, PodConsumption, PodsConsumption};

/// A pod that could be evicted.
#[derive(Clone, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) pod: Arc<AdmittedPod>,
    pub(super) consumption: &'a PodConsumption,
}

/// The part of a shortage below which what a pod uses counts as nothing: not even a thousand pods like it would relieve the node.
const NEGLIGIBLE: u64 = 1000;

/// What of a pod is on the filesystem of a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    layers: bool,
    logs: bool,
    volumes: bool,
    images: bool,
}

/// What is measured for a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Memory,
    Processes,
    Bytes(Parts),
    Inodes(Parts),
}

/// What the order and the choice depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starved {
    measure: Measure,
    /// What is missing, in whole units.
    shortage: u64,
    /// Whether images that no container uses any more are removed.
    removes_images: bool,
}

impl Starved {
    pub(super) fn new(signal: Signal, layout: DiskLayout, shortage: u64, removes_images: bool) -> Self {
        Self { measure: Measure::of(signal, layout), shortage, removes_images }
    }

    /// What the pod uses, in whole units.
    pub(super) fn usage(self, consumption: &PodConsumption) -> u64 {
        self.measure.usage(consumption)
    }

    /// What the pod uses by what it is, in whole units; empty for what has no parts.
    pub(super) fn split(self, consumption: &PodConsumption) -> Vec<(&'static str, u64)> {
        match self.measure {
            Measure::Memory | Measure::Processes => Vec::new(),
            Measure::Bytes(parts) => {
                parts.split(consumption).map(|(name, space)| (name, space.bytes)).collect()
            }
            Measure::Inodes(parts) => {
                parts.split(consumption).map(|(name, space)| (name, space.inodes)).collect()
            }
        }
    }

    /// An amount for people.
    pub(super) fn amount(self, amount: u64) -> String {
        match self.measure {
            Measure::Memory | Measure::Bytes(_) => human_size(amount),
            Measure::Processes | Measure::Inodes(_) => amount.to_string(),
        }
    }

    /// Whether images are on the filesystem that is full.
    pub(super) fn counts_images(self) -> bool {
        self.measure.counts_images()
    }
}

impl Measure {
    pub(super) fn of(signal: Signal, layout: DiskLayout) -> Self {
        let node = Parts { logs: true, volumes: true, ..Parts::default() };
        let all = Parts { layers: true, images: true, ..node };
        // As upstream, which pods are measured by depends on what is where.
        let (of_node, of_images, of_layers) = match layout {
            DiskLayout::One => (all, all, all),
            DiskLayout::ImagesApart => {
                let images = Parts { layers: true, images: true, ..Parts::default() };
                (node, images, images)
            }
            DiskLayout::Split => {
                let node = Parts { layers: true, ..node };
                (node, Parts { images: true, ..Parts::default() }, node)
            }
        };
        match signal {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Self::Memory,
            Signal::PidAvailable => Self::Processes,
            Signal::NodefsAvailable => Self::Bytes(of_node),
            Signal::NodefsInodesFree => Self::Inodes(of_node),
            Signal::ImagefsAvailable => Self::Bytes(of_images),
            Signal::ImagefsInodesFree => Self::Inodes(of_images),
            Signal::ContainerfsAvailable => Self::Bytes(of_layers),
            Signal::ContainerfsInodesFree => Self::Inodes(of_layers),
        }
    }

    /// What the pod uses, in whole units.
    fn usage(self, consumption: &PodConsumption) -> u64 {
        match self {
            Self::Memory => consumption.memory.unwrap_or_default(),
            Self::Processes => consumption.processes,
            Self::Bytes(parts) => parts.of(consumption).bytes,
            Self::Inodes(parts) => parts.of(consumption).inodes,
        }
    }

    /// Upstream's keys: whether the pod uses more than it requests, and how much more. Processes cannot be requested, nor inodes; but
    /// upstream subtracts the requested bytes from used inodes, too.
    fn excess(self, pod: &AdmittedPod, consumption: &PodConsumption) -> (bool, i128) {
        let requests = requested_resources(pod);
        let request =
            |name: &str| i128::from(requests.get(name).map_or(0, |amount: Quantity| amount.value()));
        let usage = i128::from(self.usage(consumption));
        let (own, subtracted) = match self {
            Self::Memory => (request(MEMORY), request(MEMORY)),
            Self::Bytes(_) => (request(EPHEMERAL_STORAGE), request(EPHEMERAL_STORAGE)),
            Self::Inodes(_) => (0, request(EPHEMERAL_STORAGE)),
            // All are equal, so priority decides.
            Self::Processes => return (true, usage),
        };
        (usage > own, usage - subtracted)
    }

    fn counts_images(self) -> bool {
        match self {
            Self::Memory | Self::Processes => false,
            Self::Bytes(parts) | Self::Inodes(parts) => parts.images,
        }
    }
}

impl Parts {
    fn of(self, consumption: &PodConsumption) -> DiskSpace {
        self.split(consumption).fold(DiskSpace::default(), |sum, (_, space)| sum.plus(space))
    }

    /// What is on the filesystem, by its name.
    fn split(self, consumption: &PodConsumption) -> impl Iterator<Item = (&'static str, DiskSpace)> {
        let of_containers = |part: fn(&ContainerConsumption) -> Option<DiskSpace>| {
            let parts = consumption.containers.values().filter_map(part);
            parts.fold(DiskSpace::default(), DiskSpace::plus)
        };
        let parts = [
            (self.volumes, "volumes", consumption.volumes),
            (self.logs, "logs", of_containers(|container| container.logs)),
            (self.layers, "writable layers", of_containers(|container| container.layer)),
        ];
        parts.into_iter().filter(|(is_there, ..)| *is_there).map(|(_, name, space)| (name, space))
    }
}

/// The candidates in the order in which they are evicted: those that use more than they request, the less important, those that use
/// the most beyond their requests.
pub(super) fn rank(mut candidates: Vec<Candidate<'_>>, starved: Starved) -> Vec<Candidate<'_>> {
    candidates.sort_by_cached_key(|candidate| {
        let (exceeds, excess) = starved.measure.excess(&candidate.pod, candidate.consumption);
        let priority = candidate.pod.spec().priority.unwrap_or(0);
        (Reverse(exceeds), priority, Reverse(excess))
    });
    candidates
}

/// Whether the end of the pod frees anything worth it: what it uses, or images that only it uses.
pub(super) fn frees(candidate: &Candidate<'_>, all: &PodsConsumption, starved: Starved) -> bool {
    let usage = starved.measure.usage(candidate.consumption);
    if usage > starved.shortage / NEGLIGIBLE {
        return true;
    }
    if !starved.removes_images || !starved.counts_images() {
        return false;
    }
    let others = all.iter().filter(|(uid, _)| **uid != candidate.pod.reference.uid);
    let used: BTreeSet<&str> = others.flat_map(|(_, consumption)| consumption.images()).collect();
    !candidate.consumption.images().is_subset(&used)
}
