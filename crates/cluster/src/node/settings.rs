//! Settings of the Node: from the configuration, and from other modules.

use std::net::IpAddr;
use std::time::Duration;

use hostlet_config as config;

/// Settings of the Node object. Names in parentheses are fields of KubeletConfiguration, or flags.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Its name, which is also reported as its host name (`--hostname-override`).
    pub name: String,
    /// Addresses to report; an unspecified address requests the default of its family (`--node-ip`).
    pub node_ips: Vec<IpAddr>,
    /// How many pods may run on it (`maxPods`, `podsPerCore`).
    pub max_pods: usize,
    /// Port of the kubelet's HTTPS server; `None` if it does not run. Without a port, an API server tries the default one.
    pub server_port: Option<u16>,
    /// Everything else.
    pub node: config::Node,
}

impl NodeSettings {
    /// Timeout of requests for the Node and its lease (upstream: the lesser of lease duration and status frequency).
    pub fn request_timeout(&self) -> Duration {
        self.node.lease_duration.min(self.node.status_update_frequency)
    }
}
