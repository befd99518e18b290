//! Which of the pods that the sources name may run on this node, and the memory of which may. Never changes a pod.

mod admitted;
#[cfg(test)]
mod admitted_tests;
mod affinity;
mod fit;
mod judge;
mod node;
mod refusal;
mod reread;
mod sysctls;
mod task;
mod victims;

pub use admitted::{AdmittedPods, InheritedPod};
pub use node::{Allocatable, NodeView};
pub use refusal::RefusedPod;
pub use task::{Admission, AdmissionInputs, Judged};
