//! Resources of pods: QoS class, sums over containers, settings of the pod's cgroup, OOM scores. Pure.

mod amounts;
mod enforced;
mod oom;
mod pod_cgroup;
mod qos;
mod requests;
mod swap;
#[cfg(test)]
mod testing;
mod tiny_memory;
mod whole;

pub use amounts::{Amounts, pod_limits, pod_requests};
pub use enforced::{Actuated, Enforced, Resizable, ResizeUnderWay};
pub use oom::oom_score_adj;
pub use pod_cgroup::{huge_pages, pod_cpu_request, pod_memory_request, pod_resources};
pub use qos::qos_class;
pub(crate) use requests::limited_resources;
pub use requests::{limited_storage, requested_resources};
pub use swap::may_swap;
pub use tiny_memory::tiny_memory_limits;
pub use whole::whole_resources;
