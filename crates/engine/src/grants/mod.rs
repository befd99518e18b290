//! What pods are granted exclusively before they are admitted: devices, and CPUs and memory of NUMA nodes. Never decides whether a pod
//! runs: that is admission.

mod cpusets;
mod ended;
mod handle;
mod metrics;
mod numa;
mod numa_files;
mod numa_view;
mod recovery;
mod states;
mod task;
#[cfg(test)]
mod testing;

pub(crate) use cpusets::Cpusets;
pub(crate) use handle::Grants;
pub(crate) use metrics::GrantMetrics;
pub use numa::{NumaGrants, NumaSettings};
pub use numa_view::{NodeMemoryView, NumaHolder, NumaView};
pub(crate) use recovery::Recovery;
pub(crate) use states::{ExclusiveResources, GrantRequests, GrantState, GrantStates};
pub(crate) use task::{GrantsDeps, GrantsTask};
