//! What the node room is told: the part of the configuration it acts on, and what other rooms know.

use std::net::IpAddr;
use std::time::Duration;

use crate::config;

/// Settings of the node as an object of a cluster. Names in brackets are fields of KubeletConfiguration, or flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, which is also the name it tells as its host's. (`--hostname-override`)
    pub name: String,
    /// Addresses it is to tell; an unspecified one asks for the default of its family. (`--node-ip`)
    pub node_ips: Vec<IpAddr>,
    /// How many pods it takes. (`maxPods`, `podsPerCore`)
    pub max_pods: usize,
    /// Port of its HTTPS server; none while there is none. An API server that is told no port tries the default.
    pub server_port: Option<u16>,
    /// All else.
    pub node: config::Node,
}

impl Settings {
    /// How long a request about the node or its lease may take: as long as it may be late without harm. Upstream's rule.
    pub fn request_timeout(&self) -> Duration {
        self.node.lease_duration.min(self.node.status_update_frequency)
    }
}
