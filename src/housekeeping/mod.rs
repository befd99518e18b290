//! Keeping the host in order around the pods: what is left of pods that are gone, what all pods together may use, and shims
//! that nobody stands behind. Never touches a pod that runs.

mod janitor;
mod leftover_shims;
mod pods_limit;

pub use janitor::HostJanitor;
pub use leftover_shims::LeftoverShims;
pub use pods_limit::PodsLimit;
