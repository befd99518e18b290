//! Housekeeping on the host: leftovers of removed pods, the limit of all pods together, leftover shims, iptables chains, other kubelets on
//! the same runtime, and the daemon's free memory. Never touches a running pod.

mod free_memory;
mod iptables;
mod janitor;
mod leftover_shims;
mod other_kubelets;
mod pods_limit;
mod protected_memory;

pub use free_memory::return_memory;
pub use iptables::{
    Family, IPTABLES, IptablesChains, IptablesError, has_iptables_chains, remove_iptables_chains,
};
pub use janitor::HostJanitor;
pub use leftover_shims::LeftoverShims;
pub use other_kubelets::OtherKubelets;
pub use pods_limit::PodsLimit;
pub use protected_memory::ProtectedMemory;
