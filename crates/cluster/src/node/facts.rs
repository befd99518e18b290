//! The observed facts of this node that its status reports. Values only; observers publish them through watch channels.

use std::net::IpAddr;

use hostlet_base::node::{PluginResources, PressureStates};
use hostlet_host::Machine;
use hostlet_runtime::cri::{ImageInfo, RuntimeStatus, Version};

use super::KernelConditions;

/// What the Node says of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Its hardware, kernel and operating system.
    pub machine: Machine,
    /// Addresses of the node, primary first; empty if none could be found.
    pub addresses: Vec<IpAddr>,
}

/// What the Node says of the container runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Its name and version; `None` until it first responds.
    pub version: Option<Version>,
    /// Its images, in the runtime's order.
    pub images: Vec<ImageInfo>,
}

/// All facts that a status reports.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Hardware, system and addresses.
    pub host: HostFacts,
    /// The runtime's version and images.
    pub runtime: RuntimeFacts,
    /// The runtime's own status; `None` until it first responds.
    pub status: Option<RuntimeStatus>,
    /// What is known of the node's pressures.
    pub pressures: PressureStates,
    /// The conditions that follow from the kernel's log.
    pub kernel: KernelConditions,
    /// The volumes in use, sorted.
    pub volumes_in_use: Vec<String>,
    /// What device plugins offer.
    pub devices: PluginResources,
    /// Why the node is not ready; empty if it is ready.
    pub unready: Vec<String>,
}
