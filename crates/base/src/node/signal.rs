//! Signals of the node's health: what a threshold can be set for, and what follows for the node if it is crossed. Measures nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::pressure::{Pressure, Pressures};
use crate::Quantity;
use crate::resources::{EPHEMERAL_STORAGE, MEMORY};

/// An eviction signal (Kubernetes docs, "Node-pressure Eviction", eviction signals).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Memory of the node.
    MemoryAvailable,
    /// Memory within the limit of all pods together.
    AllocatableMemoryAvailable,
    /// Space on the filesystem with the daemon's directory.
    NodefsAvailable,
    /// Inodes on that filesystem.
    NodefsInodesFree,
    /// Space on the filesystem with the images.
    ImagefsAvailable,
    /// Inodes on that filesystem.
    ImagefsInodesFree,
    /// Space on the filesystem with the writable layers of containers.
    ContainerfsAvailable,
    /// Inodes on that filesystem.
    ContainerfsInodesFree,
    /// Process identifiers.
    PidAvailable,
}

/// A threshold: the signal is crossed when less than this is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// An absolute amount.
    Amount(Quantity),
    /// A fraction of the capacity, above 0 and below 1. Single precision, as upstream, which affects the result.
    Part(f32),
}

/// Thresholds by signal.
pub type Thresholds = BTreeMap<Signal, Threshold>;

/// The signals that are below their thresholds.
pub type CrossedSignals = BTreeSet<Signal>;

impl Signal {
    /// All signals, in the order of upstream's documentation.
    pub const ALL: [Self; 9] = [
        Self::MemoryAvailable,
        Self::AllocatableMemoryAvailable,
        Self::NodefsAvailable,
        Self::NodefsInodesFree,
        Self::ImagefsAvailable,
        Self::ImagefsInodesFree,
        Self::ContainerfsAvailable,
        Self::ContainerfsInodesFree,
        Self::PidAvailable,
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodefsAvailable => "nodefs.available",
            Self::NodefsInodesFree => "nodefs.inodesFree",
            Self::ImagefsAvailable => "imagefs.available",
            Self::ImagefsInodesFree => "imagefs.inodesFree",
            Self::ContainerfsAvailable => "containerfs.available",
            Self::ContainerfsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// The signal with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// The resource that its hard threshold is subtracted from, because pods would be evicted before they use that part; `None` if
    /// upstream subtracts it from none.
    pub fn resource(self) -> Option<&'static str> {
        match self {
            Self::MemoryAvailable => Some(MEMORY),
            Self::NodefsAvailable => Some(EPHEMERAL_STORAGE),
            Self::AllocatableMemoryAvailable
            | Self::NodefsInodesFree
            | Self::ImagefsAvailable
            | Self::ImagefsInodesFree
            | Self::ContainerfsAvailable
            | Self::ContainerfsInodesFree
            | Self::PidAvailable => None,
        }
    }

    /// The pressure that the node is under while it is crossed.
    pub fn pressure(self) -> Pressure {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => Pressure::Memory,
            Self::NodefsAvailable
            | Self::NodefsInodesFree
            | Self::ImagefsAvailable
            | Self::ImagefsInodesFree
            | Self::ContainerfsAvailable
            | Self::ContainerfsInodesFree => Pressure::Disk,
            Self::PidAvailable => Pressure::Pid,
        }
    }
}

/// The pressures that the node is under with these signals crossed.
pub fn pressures(crossed: &CrossedSignals) -> Pressures {
    crossed.iter().map(|signal| signal.pressure()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_upstreams_names() {
        assert_eq!(Signal::named("nodefs.inodesFree"), Some(Signal::NodefsInodesFree));
        assert_eq!(Signal::named("nodefs"), None);
        assert!(Signal::ALL.is_sorted());
        for signal in Signal::ALL {
            assert_eq!(Signal::named(signal.name()), Some(signal));
        }
    }

    #[test]
    fn several_signals_of_a_pressure_are_one() {
        use Signal::{ImagefsAvailable, MemoryAvailable, NodefsInodesFree, PidAvailable};
        let crossed = [PidAvailable, ImagefsAvailable, NodefsInodesFree, MemoryAvailable].into();
        assert_eq!(pressures(&crossed), Pressures::from(Pressure::ALL));
        assert_eq!(pressures(&CrossedSignals::new()), Pressures::new());
    }
}
