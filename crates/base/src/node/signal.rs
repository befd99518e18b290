//! Signals of the node's health: what a threshold can be set for, and what follows for the node if it is crossed. Measures nothing.

use std::collections::BTreeMap;

use super::pressure::Pressure;
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

impl Threshold {
    /// The threshold for this capacity. A fraction is truncated to whole units, in binary notation, as upstream
    /// (`GetThresholdQuantity`).
    pub fn of(self, capacity: Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount,
            Self::Part(part) => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "upstream computes it so, and results must be equal"
                )]
                let units = capacity.value() as f64 * f64::from(part);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a fraction of a u64, at least 0"
                )]
                Quantity::bytes(units as u64)
            }
        }
    }
}

/// The resource names of what upstream counts for itself (`kubelet/eviction/helpers.go`).
const INODES: &str = "inodes";
const PIDS: &str = "pids";

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

    /// The signals of a pressure.
    pub fn of(pressure: Pressure) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |signal| signal.pressure() == pressure)
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

    /// The resource that is starved while it is crossed, as messages name it.
    pub fn starved_resource(self) -> &'static str {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => MEMORY,
            Self::NodefsAvailable | Self::ImagefsAvailable | Self::ContainerfsAvailable => EPHEMERAL_STORAGE,
            Self::NodefsInodesFree | Self::ImagefsInodesFree | Self::ContainerfsInodesFree => INODES,
            Self::PidAvailable => PIDS,
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
    fn every_signal_is_of_one_pressure() {
        let signals: Vec<Signal> = Pressure::ALL.into_iter().flat_map(Signal::of).collect();
        assert_eq!(signals, Signal::ALL);
    }

    #[test]
    fn a_part_of_a_capacity_is_truncated_to_whole_units() {
        let of = |threshold: Threshold, capacity: u64| threshold.of(Quantity::count(capacity)).to_string();
        assert_eq!(of(Threshold::Part(0.1), 1001), "100");
        assert_eq!(of(Threshold::Part(0.5), 4 << 20), "2Mi");
        assert_eq!(of(Threshold::Part(0.15), 0), "0");
        let amount = Threshold::Amount(Quantity::parse("100Mi").unwrap());
        assert_eq!(of(amount, 1), "100Mi");
    }
}
