//! What the node grants its pods: the seam between admission and those that have something to allocate, and the allocators: the node's own
//! resources, which are counted, and CPUs, memory and NUMA nodes, which are of one container or of all. Pure: admission has the
//! allocations, the managers' state is a value, and an allocator answers from what it is given.

mod allocation;
mod allocator;
mod checksum;
mod claimed;
mod container_grant;
mod containers;
mod cpus;
mod error;
mod machine;
mod managers;
mod memory;
mod node_resources;
mod options;
mod shortage;
#[cfg(test)]
mod testing;
mod topology;

pub use allocation::{AllocatedPod, Allocation};
pub use allocator::{Admission, Allocator};
pub use container_grant::{ContainerGrant, GrantedCpus, GrantedDevice, GrantedMount};
pub use cpus::{
    CpuCheckpoint, CpuCheckpointError, CpuFinding, CpuOptionError, CpuOptions, CpuPolicyError,
    CpuReservation, CpuState, Cpus, OptionGates, RunningCpus, StaticCpus,
};
pub use error::GrantError;
pub use machine::{CpuPlace, CpuSet, Machine, NumaMask, NumaNode};
pub use managers::{GrantScope, InfeasibleResize, Managers, StaticManagers, infeasible_resize};
pub use memory::{
    Block, MemoryCheckpoint, MemoryCheckpointError, MemoryFinding, MemoryNodes, MemoryPolicyError,
    MemoryState, MemoryTable, NodeMemory, ReservedMemory, RunningMemory, StaticMemory,
};
pub use node_resources::NodeResources;
pub use options::BoolOptionError;
pub use shortage::Shortage;
pub use topology::{
    Hint, MAX_NUMA_NODES, ProviderHints, Topology, TopologyError, TopologyOptionError, TopologyOptions,
    TopologyPolicy, TopologyScope,
};
