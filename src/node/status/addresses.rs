//! `addresses`: where the node is reached. The host's name comes last.

use k8s_openapi::api::core::v1::{NodeAddress, NodeStatus};

use crate::node::{HostFacts, Settings};

/// With an external cloud provider, the addresses that it wrote stay as they are; before it did, the node tells its name,
/// and addresses only if it was given some.
pub(super) fn set(status: &mut NodeStatus, settings: &Settings, host: &HostFacts) {
    let is_told = status.addresses.as_ref().is_some_and(|addresses| !addresses.is_empty());
    if settings.node.external_cloud && is_told {
        return;
    }
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let hostname = address("Hostname", settings.name.clone());
    if settings.node.external_cloud && settings.node_ips.is_empty() {
        status.addresses = Some(vec![hostname]);
        return;
    }
    if host.addresses.is_empty() {
        // None could be found. The ones that were told before are more likely true than none.
        return;
    }
    let ips = host.addresses.iter().map(|ip| address("InternalIP", ip.to_string()));
    status.addresses = Some(ips.chain([hostname]).collect());
}
