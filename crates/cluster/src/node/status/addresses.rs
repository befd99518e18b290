//! `addresses`: where the node is reached. The host name comes last.

use k8s_openapi::api::core::v1::{NodeAddress, NodeStatus};

use crate::node::{HostFacts, NodeSettings};

/// With an external cloud provider, the addresses that it wrote stay. Before that, the node reports its host name, and
/// addresses only if some are configured.
pub(super) fn set(status: &mut NodeStatus, settings: &NodeSettings, host: &HostFacts) {
    let is_set = status.addresses.as_ref().is_some_and(|addresses| !addresses.is_empty());
    if settings.node.external_cloud && is_set {
        return;
    }
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let hostname = address("Hostname", settings.name.clone());
    if settings.node.external_cloud && settings.node_ips.is_empty() {
        status.addresses = Some(vec![hostname]);
        return;
    }
    if host.addresses.is_empty() {
        // None were found; the previous ones are more likely correct than none.
        return;
    }
    let ips = host.addresses.iter().map(|ip| address("InternalIP", ip.to_string()));
    status.addresses = Some(ips.chain([hostname]).collect());
}
