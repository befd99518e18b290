//! The conditions of the Node that follow from the kernel's log: their types, and what they are at a time. Values only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A condition, with the name that node-problem-detector gives it. True from the problem on until the host reboots, because the
/// kernel does not log that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KernelCondition {
    /// A process of the container runtime hung.
    KernelDeadlock,
    /// A filesystem became read-only because of an error.
    ReadonlyFilesystem,
    /// XFS shut a filesystem down.
    XfsShutdown,
}

impl KernelCondition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::KernelDeadlock, Self::ReadonlyFilesystem, Self::XfsShutdown];

    /// Its `type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelDeadlock => "KernelDeadlock",
            Self::ReadonlyFilesystem => "ReadonlyFilesystem",
            Self::XfsShutdown => "XfsShutdown",
        }
    }

    /// Reason and message while it does not hold, as node-problem-detector's.
    pub(in crate::node) fn absent(self) -> KernelFinding {
        let (reason, message) = match self {
            Self::KernelDeadlock => ("KernelHasNoDeadlock", "kernel has no deadlock"),
            Self::ReadonlyFilesystem => ("FilesystemIsNotReadOnly", "Filesystem is not read-only"),
            Self::XfsShutdown => ("XfsHasNotShutDown", "XFS has not shutdown"),
        };
        KernelFinding { reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// Why a condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFinding {
    /// The reason of the rule.
    pub reason: String,
    /// The kernel's message.
    pub message: String,
}

/// The findings since boot.
pub(super) type KernelFindings = BTreeMap<KernelCondition, KernelFinding>;

/// What the Node's status is to say of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KernelConditions {
    /// The conditions belong to somebody else, if there are any.
    #[default]
    NotOurs,
    /// All conditions; those without a finding do not hold.
    Reported(BTreeMap<KernelCondition, KernelFinding>),
    /// hostlet reported them earlier and does not observe them any more: they are removed.
    Withdrawn,
}
