//! A borrowed view of an API pod with optional parts resolved.

use std::net::IpAddr;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

static NO_SPEC: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);

/// The commonly read parts of a pod.
#[derive(Clone, Copy)]
pub struct PodView<'a> {
    /// Name, labels, annotations and times.
    pub meta: &'a ObjectMeta,
    /// Its spec; an empty one if it has none.
    pub spec: &'a PodSpec,
    /// `metadata.name`; empty if the pod has none.
    pub name: &'a str,
    /// `metadata.namespace`; empty if the pod has none.
    pub namespace: &'a str,
    /// `metadata.uid`; empty if the pod has none.
    pub uid: &'a str,
}

impl<'a> From<&'a Pod> for PodView<'a> {
    fn from(pod: &'a Pod) -> Self {
        let meta = &pod.metadata;
        Self {
            meta,
            spec: pod.spec.as_ref().unwrap_or_else(|| &NO_SPEC),
            name: meta.name.as_deref().unwrap_or_default(),
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
        }
    }
}

impl<'a> PodView<'a> {
    /// Whether the pod shares the host's network namespace.
    pub fn host_network(&self) -> bool {
        self.spec.host_network.unwrap_or(false)
    }

    /// Init containers in order, including sidecars.
    pub fn init_containers(&self) -> &'a [Container] {
        self.spec.init_containers.as_deref().unwrap_or_default()
    }

    /// `<name>_<namespace>(<uid>)`, as upstream formats pods in messages.
    pub fn describe(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }
}

/// The pod's IPs as `status.podIPs` and the downward API have them: the first of the node's primary family, then the first of
/// the other one. The runtime may report any number in any order, and none on the host's network, where they are the node's.
pub fn shown_ips(on_host_network: bool, pod_ips: &[IpAddr], node_ips: &[IpAddr]) -> Vec<IpAddr> {
    if on_host_network && pod_ips.is_empty() {
        return node_ips.to_vec();
    }
    let node_is_v6 = node_ips.first().is_some_and(IpAddr::is_ipv6);
    [node_is_v6, !node_is_v6]
        .iter()
        .filter_map(|v6| pod_ips.iter().find(|ip| ip.is_ipv6() == *v6))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_primary_family_comes_first() {
        let ips = ["fd00::2", "10.0.0.2", "10.0.0.3", "fd00::3"].map(|ip| ip.parse().unwrap());
        let shown =
            |node: &[IpAddr]| shown_ips(false, &ips, node).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&["192.0.2.1".parse().unwrap()]), ["10.0.0.2", "fd00::2"]);
        assert_eq!(shown(&["2001:db8::1".parse().unwrap()]), ["fd00::2", "10.0.0.2"]);
        assert_eq!(shown(&[]), ["10.0.0.2", "fd00::2"]);
        assert!(shown_ips(false, &[], &ips).is_empty());
        assert_eq!(shown_ips(true, &[], &ips[..2]), ips[..2]);
    }
}
