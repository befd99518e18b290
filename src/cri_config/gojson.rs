//! JSON in the format of Go's encoder, for annotations and hashes that a stock kubelet reads or recomputes.

use k8s_openapi::api::core::v1::ContainerPort;
use serde::Serialize;

/// Compact JSON with Go's HTML escapes.
pub(super) fn to_string(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let plain = serde_json::to_string(value)?;
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Ok(plain);
    }
    // JSON has these characters only in strings, so all of them can be replaced.
    Ok(plain
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

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

    #[test]
    fn characters_of_html_are_escaped_as_go_does() {
        assert_eq!(to_string(&"a<b>&\u{2028}\"\n").unwrap(), r#""a\u003cb\u003e\u0026\u2028\"\n""#);
    }

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
            to_string(&ports).unwrap(),
            r#"[{"name":"http","containerPort":80,"protocol":"TCP"},{"hostPort":5353,"containerPort":53,"protocol":"UDP","hostIP":"127.0.0.1"}]"#
        );
    }
}
