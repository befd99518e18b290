//! Housekeeping on the host: leftovers of removed pods, dead containers of terminated ones, the limits of all pods together and of the
//! host's daemons, leftover shims and tasks, iptables chains, other kubelets on the same runtime, the cgroups of processes that are no
//! pod's, and the daemon's heap. Never touches a running pod.

mod dead_containers;
mod heap_trim;
mod iptables;
mod janitor;
mod leftover_shims;
mod leftover_tasks;
mod other_kubelets;
mod pods_limit;
mod protected_memory;
mod reserved_cgroups;
mod reserved_memory;
mod system_cgroups;
#[cfg(test)]
mod testing;

pub use dead_containers::{DeadContainers, DeadRemoved};
pub use heap_trim::trim_heap_regularly;
pub use iptables::{
    Family, IPTABLES, IptablesChains, IptablesError, has_iptables_chains, remove_iptables_chains,
};
pub(crate) use janitor::HostJanitor;
pub(crate) use leftover_shims::LeftoverShims;
pub(crate) use leftover_tasks::LeftoverTasks;
pub use other_kubelets::OtherKubelets;
pub(crate) use pods_limit::PodsLimit;
pub(crate) use protected_memory::ProtectedMemory;
pub use reserved_cgroups::{NotEnforced, ReservedCgroups};
pub(crate) use reserved_memory::ReservedMemory;
pub use system_cgroups::SystemCgroups;
