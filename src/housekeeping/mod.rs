//! Keeping the host in order around the pods: what is left of pods that are gone, what all pods together may use, shims
//! that nobody stands behind, and other kubelets on the same runtime. Never touches a pod that runs.

mod janitor;
mod leftover_shims;
mod other_kubelets;
mod pods_limit;

pub use janitor::HostJanitor;
pub use leftover_shims::LeftoverShims;
pub use other_kubelets::OtherKubelets;
pub use pods_limit::PodsLimit;
