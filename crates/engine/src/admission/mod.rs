//! Decides which of the sources' pods may run on this node, and remembers which were admitted. Never changes a pod.

mod admitted;
#[cfg(test)]
mod admitted_tests;
mod admitter;
mod affinity;
mod app_armor;
mod by_itself;
mod counts;
mod fit;
mod metrics;
mod node;
mod pressure;
mod reread;
mod resize;
mod shutdown;
mod sysctls;
mod task;
mod tolerations;
mod victims;

pub(crate) use admitted::AdmittedPods;
pub use admitted::AdoptedPod;
pub use by_itself::unrunnable;
pub use node::NodeView;
pub(crate) use resize::ResizeLimits;
pub use shutdown::NodeShutdown;
pub(crate) use task::{Admission, AdmissionInputs, AdmissionOutputs};
