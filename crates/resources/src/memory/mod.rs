//! Memory and huge pages of single NUMA nodes: the static policy of upstream's memory manager. Pure; the state is a value.

mod checkpoint;
mod container_grants;
mod demand;
mod grants;
mod hints;
mod pod_grants;
mod policy;
mod reconcile;
mod reservation;
mod reuse;
mod state;

pub use checkpoint::{MemoryCheckpoint, MemoryCheckpointError};
pub use grants::MemoryNodes;
pub use policy::StaticMemory;
pub use reconcile::{MemoryFinding, RunningMemory};
pub use reservation::{MemoryPolicyError, ReservedMemory};
pub use state::{Block, MemoryState, MemoryTable, NodeMemory};
