//! Why a pod is not granted CPUs or memory of its own, in upstream's words.

use hostlet_base::reasons;
use hostlet_pod::Rejection;

/// Reason of a pod for which no NUMA nodes fit (upstream `ErrorTopologyAffinity`).
const TOPOLOGY_AFFINITY: &str = "TopologyAffinityError";
/// Reason of a pod whose CPUs would share a core with others (upstream `ErrorSMTAlignment`).
const SMT_ALIGNMENT: &str = "SMTAlignmentError";
/// Reason of a pod whose containers leave nothing for those that share (upstream `ErrorReasonEmptyPodSharedPool`).
const EMPTY_SHARED_POOL: &str = "EmptyPodSharedPoolError";

/// Why a grant fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Too few CPUs are free.
    #[error("not enough cpus available to satisfy request: requested={requested}, available={available}")]
    NotEnoughCpus {
        /// How many are needed.
        requested: usize,
        /// How many are free.
        available: usize,
    },
    /// CPUs are free, but could not be combined.
    #[error("failed to allocate cpus")]
    NoCpus,
    /// Whole cores are to be allocated, and the request ends in the middle of one.
    #[error("SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}")]
    PartOfCore {
        /// How many CPUs are needed.
        requested: usize,
        /// How many a core has.
        per_core: usize,
    },
    /// Too few whole cores are free.
    #[error(
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, requested CPUs = {requested}, CPUs per core = {per_core}"
    )]
    NotEnoughCores {
        /// How many CPUs are needed.
        requested: usize,
        /// How many a core has.
        per_core: usize,
        /// How many CPUs free cores have.
        available: usize,
    },
    /// Sidecars leave nothing for init containers.
    #[error("pod rejected, pod has shared init containers but no {0} available for them")]
    NothingForInitContainers(String),
    /// Containers with CPUs of their own leave none for the others.
    #[error(
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
    )]
    NoSharedCpus,
    /// Containers with memory of their own leave none for the others.
    #[error(
        "pod rejected, sum of exclusive container {0} requests equals pod budget, leaving no memory for shared containers"
    )]
    NoSharedMemory(String),
    /// No NUMA nodes fit all resources of a container.
    #[error("Resources cannot be allocated with Topology locality")]
    NoLocality,
    /// No NUMA nodes fit a pod with resources of its own.
    #[error("Pod Scope {0}")]
    NoPodLocality(&'static str),
    /// An amount of memory is no whole number of bytes.
    #[error("[memorymanager] failed to represent quantity as int64")]
    NotBytes,
    /// No NUMA nodes have enough memory.
    #[error(
        "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
    )]
    NoMemory,
    /// NUMA nodes were chosen, and no larger combination has enough memory.
    #[error("[memorymanager] failed to find NUMA nodes to extend the current topology hint")]
    NotExtendable,
    /// No preference was stated, and only combinations that are not preferred have enough memory.
    #[error("[memorymanager] failed to find the default preferred hint")]
    NoPreferred,
    /// Preferred NUMA nodes were chosen, and only larger combinations that are not preferred have enough memory.
    #[error("[memorymanager] failed to find the extended preferred hint")]
    NoPreferredExtension,
    /// A node has memory of containers that use only it, or other combinations.
    #[error("[memorymanager] preferred hint violates NUMA node allocation")]
    NodeInOtherGroup,
}

impl GrantError {
    /// The rejection of the pod.
    pub fn rejection(&self) -> Rejection {
        match self {
            Self::PartOfCore { .. } | Self::NotEnoughCores { .. } => {
                Rejection::new(SMT_ALIGNMENT, self.to_string())
            }
            Self::NoLocality | Self::NoPodLocality(_) => Rejection::new(TOPOLOGY_AFFINITY, self.to_string()),
            Self::NothingForInitContainers(_) | Self::NoSharedCpus | Self::NoSharedMemory(_) => {
                Rejection::new(EMPTY_SHARED_POOL, self.to_string())
            }
            Self::NotEnoughCpus { .. }
            | Self::NoCpus
            | Self::NotBytes
            | Self::NoMemory
            | Self::NotExtendable
            | Self::NoPreferred
            | Self::NoPreferredExtension
            | Self::NodeInOtherGroup => Rejection::new(
                reasons::UNEXPECTED_ADMISSION_ERROR,
                format!("Allocate failed due to {self}, which is unexpected"),
            ),
        }
    }
}
