//! Types in the field order of Go's structs, for annotations and hashes that a stock kubelet reads or recomputes.

use k8s_openapi::api::core::v1::ContainerPort;
use serde::Serialize;

/// A container port in the field order of the Go struct, without zero values.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Port<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_port: Option<i32>,
    container_port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'a str>,
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
    host_ip: Option<&'a str>,
}

impl<'a> From<&'a ContainerPort> for Port<'a> {
    fn from(port: &'a ContainerPort) -> Self {
        let text = |value: &'a Option<String>| value.as_deref().filter(|text| !text.is_empty());
        Self {
            name: text(&port.name),
            host_port: port.host_port.filter(|port| *port != 0),
            container_port: port.container_port,
            protocol: text(&port.protocol),
            host_ip: text(&port.host_ip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::go_json;

    #[test]
    fn ports_keep_gos_field_order() {
        let ports = [
            ContainerPort {
                name: Some("http".into()),
                container_port: 80,
                protocol: Some("TCP".into()),
                ..Default::default()
            },
            ContainerPort {
                host_ip: Some("127.0.0.1".into()),
                host_port: Some(5353),
                container_port: 53,
                protocol: Some("UDP".into()),
                ..Default::default()
            },
        ];
        let ports: Vec<_> = ports.iter().map(Port::from).collect();
        assert_eq!(
            go_json(&ports).unwrap(),
            r#"[{"name":"http","containerPort":80,"protocol":"TCP"},{"hostPort":5353,"containerPort":53,"protocol":"UDP","hostIP":"127.0.0.1"}]"#
        );
    }
}
