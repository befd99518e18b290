//! CPUs that containers have for themselves: the static policy of upstream's CPU manager. Pure; the state is a value.

mod accumulator;
mod checkpoint;
mod combinations;
mod container_grants;
mod demand;
mod distributed;
mod grants;
mod hints;
mod options;
mod packed;
mod pod_grants;
mod policy;
mod reconcile;
mod state;

pub use checkpoint::{CpuCheckpoint, CpuCheckpointError};
pub use grants::Cpus;
pub use options::{CpuOptionError, CpuOptions, OptionGates};
pub use policy::{CpuPolicyError, CpuReservation, StaticCpus};
pub use reconcile::{CpuFinding, RunningCpus};
pub use state::CpuState;
