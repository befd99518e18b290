//! The QoS cgroup tree: pod cgroups on v1 and v2, with the cgroupfs and systemd drivers. Containers' cgroups belong to the
//! runtime.

mod accounting;
mod controllers;
mod cpus;
mod cpuset;
mod daemons;
mod error;
mod files;
mod hierarchy;
mod kill;
mod metrics;
mod names;
mod place;
mod settings;
mod shares;
mod systemd;
mod tree;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use controllers::huge_page_size;
pub use cpuset::ContainerCpuset;
pub use error::CgroupError;
pub use hierarchy::CgroupVersion;
pub use place::own_cgroup;
pub use settings::{AllPods, CgroupSettings, ClassResources, DaemonResources, PodResources};
pub use shares::{MIN_SHARES, cpu_quota, cpu_shares};
pub use systemd::systemd_is_init;
pub use tree::Cgroups;
