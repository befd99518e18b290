//! Which of the pods a source names may run on this node, and the memory of which may. Never changes a pod.

mod admit;
mod admitted;
#[cfg(test)]
mod admitted_tests;
mod sysctls;

pub use admit::{Limits, admit};
pub use admitted::{AdmittedPods, InheritedPod};
