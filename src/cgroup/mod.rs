//! The QoS cgroup tree: pod cgroups on v1 and v2 hosts, with the cgroupfs and the systemd driver. Writes only the controller files
//! named here; containers' own cgroups belong to the runtime.

mod error;
mod files;
mod hierarchy;
mod kill;
mod knobs;
mod names;
mod settings;
mod shares;
mod systemd;
mod tree;

#[cfg(test)]
mod tests;

pub use error::CgroupError;
pub use hierarchy::CgroupVersion;
pub use settings::{AllPods, CgroupSettings, PodResources};
pub use shares::{MAX_SHARES, MIN_SHARES, cpu_quota, cpu_shares};
pub use tree::Cgroups;
