//! What everything on the node uses, as one answer shows it. Plain values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{ContainerId, PodRef, SandboxId};
use hostlet_host::FilesystemUsage;
use jiff::Timestamp;

use super::usage::{BlockDevice, CgroupUsage, DiskActivity, NetworkDevice};

/// A cgroup and what it uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitUsage {
    /// Its path below the mount of cgroups, e.g. `/kubepods`.
    pub path: String,
    /// What it uses.
    pub usage: CgroupUsage,
}

/// A running container and what it uses.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerUsage {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// The runtime's ID.
    pub id: ContainerId,
    /// Its image as the runtime names it.
    pub image: String,
    /// When the runtime created it.
    pub created_at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// Its cgroup; `None` without one that could be read.
    pub unit: Option<UnitUsage>,
}

/// A sandbox and what it uses.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxUsage {
    /// The runtime's ID.
    pub id: SandboxId,
    /// When the runtime created it.
    pub created_at: Timestamp,
    /// Its cgroup; `None` without one that could be read, and unless with [`Detail::All`](super::Detail::All).
    pub unit: Option<UnitUsage>,
}

/// A pod and what it uses.
#[derive(Clone, Debug, PartialEq)]
pub struct PodUsage {
    /// Whose use it is.
    pub pod: PodRef,
    /// Its newest sandbox.
    pub sandbox: SandboxUsage,
    /// Its cgroup, if pods have any.
    pub unit: Option<UnitUsage>,
    /// The devices of its network namespace, the host's devices with the host's network; `None` if unknown.
    pub network: Option<Vec<NetworkDevice>>,
    /// Its running containers, sorted by name.
    pub containers: Vec<ContainerUsage>,
}

impl PodUsage {
    /// What the pod uses. Without a cgroup it is the sum of its containers' CPU, memory and swap, as upstream; `None` if nothing of
    /// it could be measured.
    pub fn usage(&self) -> Option<Cow<'_, CgroupUsage>> {
        if let Some(unit) = &self.unit {
            return Some(Cow::Borrowed(&unit.usage));
        }
        let units = self.containers.iter().filter_map(|container| container.unit.as_ref());
        CgroupUsage::sum(&units.map(|unit| &unit.usage).collect::<Vec<_>>()).map(Cow::Owned)
    }
}

/// The processes and threads of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCount {
    /// How many exist; `None` if unknown.
    pub current: Option<u64>,
    /// How many there can be.
    pub max: Option<u64>,
}

/// The filesystem of the daemon's directory.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFilesystem {
    /// The name of its device, such as `/dev/vda`; empty if that is no disk.
    pub device: String,
    /// How full it is.
    pub usage: FilesystemUsage,
    /// What its disk did.
    pub disk: Option<DiskActivity>,
}

/// What everything on the node uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeUsage {
    /// When it was measured.
    pub at: Timestamp,
    /// The whole host.
    pub root: UnitUsage,
    /// The network devices of the host.
    pub network: Vec<NetworkDevice>,
    /// The daemon's own cgroup, unless that is the whole host's.
    pub kubelet: Option<UnitUsage>,
    /// The runtime's cgroup, if it is configured.
    pub runtime: Option<UnitUsage>,
    /// The cgroup of other processes of the host, if it is configured.
    pub misc: Option<UnitUsage>,
    /// The cgroup of all pods.
    pub all_pods: Option<UnitUsage>,
    /// The pods that the runtime has, sorted by namespace and name.
    pub pods: Vec<PodUsage>,
    /// The names of block devices.
    pub devices: BTreeMap<BlockDevice, String>,
    /// The processes and threads of the host.
    pub tasks: TaskCount,
    /// The filesystem of the daemon's directory.
    pub filesystem: Option<NodeFilesystem>,
}
