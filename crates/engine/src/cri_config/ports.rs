//! Port mappings of a sandbox from host ports to the pod. Pure; the runtime's network plugin applies them.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use hostlet_runtime::cri::wire::{PortMapping, Protocol};

/// Mappings of the pod's containers in order, including ports without a host port; a port that a container declares twice counts
/// once.
pub(super) fn port_mappings(containers: &[Container]) -> Vec<PortMapping> {
    containers.iter().flat_map(container_mappings).collect()
}

fn container_mappings(container: &Container) -> Vec<PortMapping> {
    let mut seen = HashSet::new();
    let ports = container.ports.iter().flatten();
    ports.filter(|port| seen.insert(identity(port))).map(mapping).collect()
}

/// Identity of a port: its name or, without one, its target, per address family.
fn identity(port: &ContainerPort) -> String {
    let host_ip = port.host_ip.as_deref().unwrap_or_default();
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let family = match host_ip {
        "" => "any",
        ip if ip.parse::<Ipv6Addr>().is_ok() => "v6",
        _ => "v4",
    };
    let protocol = port.protocol.as_deref().unwrap_or_default();
    format!("{family}-{protocol}-{host_ip}:{}:{}", port.container_port, port.host_port.unwrap_or_default())
}

fn mapping(port: &ContainerPort) -> PortMapping {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        // `TCP`, the default and upstream's fallback for an unknown protocol.
        _ => Protocol::Tcp,
    };
    PortMapping {
        protocol: protocol.into(),
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mappings(ports: Value) -> Vec<(i32, i32, i32, String)> {
        let container = serde_json::from_value(json!({"name": "c", "ports": ports})).unwrap();
        let shown = |m: PortMapping| (m.protocol, m.container_port, m.host_port, m.host_ip);
        port_mappings(&[container]).into_iter().map(shown).collect()
    }

    #[test]
    fn every_port_is_mapped_in_order() {
        let ports = json!([
            {"name": "http", "containerPort": 80, "protocol": "TCP"},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
            {"containerPort": 9, "protocol": "SCTP", "hostIP": "127.0.0.1"}
        ]);
        let none = String::new;
        assert_eq!(
            mappings(ports),
            [(0, 80, 0, none()), (1, 53, 5353, none()), (2, 9, 0, "127.0.0.1".into())]
        );
    }

    #[test]
    fn a_port_declared_twice_counts_once_per_address_family() {
        let ports = json!([
            {"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81},
            {"containerPort": 1}, {"containerPort": 1},
            {"containerPort": 2, "hostIP": "0.0.0.0"}, {"containerPort": 2, "hostIP": "::"}
        ]);
        assert_eq!(mappings(ports).into_iter().map(|mapping| mapping.1).collect::<Vec<_>>(), [80, 1, 2, 2]);
    }
}
