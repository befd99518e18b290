//! What is observed of this node, as the status is made of it. Values only; who observes publishes them in watches.

use std::net::IpAddr;

use super::Pressures;
use crate::cri::{ImageInfo, RuntimeStatus, Version};
use crate::sys::Machine;

/// What the host is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The machine.
    pub machine: Machine,
    /// Addresses of the node, primary first; empty if none could be found.
    pub addresses: Vec<IpAddr>,
}

/// What the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Its name and version; none before it answered.
    pub version: Option<Version>,
    /// Its images, in its order.
    pub images: Vec<ImageInfo>,
}

/// Everything a status is made of.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The host.
    pub host: HostFacts,
    /// What the runtime has.
    pub runtime: RuntimeFacts,
    /// What the runtime says of itself; none before it answered.
    pub status: Option<RuntimeStatus>,
    /// What the node is short of.
    pub pressures: Pressures,
    /// What keeps the node from being ready; empty if nothing does.
    pub unready: Vec<String>,
}
