//! The port that a probe names.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use hostlet_base::go_quoted;

/// A port that cannot be probed. `Display` is upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortError {
    /// No port of the container has this name.
    #[error("port {} not found", go_quoted(.0))]
    NotFound(String),
    /// The number is no port.
    #[error("invalid port number: {0}")]
    Invalid(i32),
}

/// The number of a port that is given by number or by its name among the container's ports.
pub(super) fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, PortError> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name));
            named.ok_or_else(|| PortError::NotFound(name.clone()))?.container_port
        }
    };
    match u16::try_from(number) {
        Ok(port) if port != 0 => Ok(port),
        Ok(_) | Err(_) => Err(PortError::Invalid(number)),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;

    #[test]
    fn a_port_is_a_number_or_the_name_of_one() {
        let port = |name: &str, number| ContainerPort {
            name: Some(name.to_owned()),
            container_port: number,
            ..ContainerPort::default()
        };
        let ports = Some(vec![port("http", 8080), port("bad", 0)]);
        let container = Container { ports, ..Container::default() };
        let resolve = |port: IntOrString| resolve_port(&port, &container).map_err(|error| error.to_string());
        assert_eq!(resolve(IntOrString::Int(80)), Ok(80));
        assert_eq!(resolve(IntOrString::String("http".into())), Ok(8080));
        assert_eq!(resolve(IntOrString::String("bad".into())), Err("invalid port number: 0".into()));
        assert_eq!(resolve(IntOrString::String("none".into())), Err("port \"none\" not found".into()));
        assert_eq!(resolve(IntOrString::Int(70000)), Err("invalid port number: 70000".into()));
    }
}
