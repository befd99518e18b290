//! The request of an `httpGet` of a probe or hook. Pure.

use std::time::Duration;

use hostlet_base::{HttpScheme, HttpUrl, PodUid};
use hostlet_net::http::{HttpProtocol, HttpRequest};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};

use super::port::{PortError, resolve_port};

/// The request to a container of a pod with this UID and address, with this time limit for all of it.
pub(crate) fn http_get_request(
    uid: &PodUid,
    action: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
    user_agent: &str,
    timeout: Duration,
) -> Result<HttpRequest, PortError> {
    let port = resolve_port(&action.port, container)?;
    let scheme = match action.scheme.as_deref() {
        Some("HTTPS") => HttpScheme::Https,
        Some(_) | None => HttpScheme::Http,
    };
    let headers = action.http_headers.iter().flatten();
    let path = action.path.as_deref().unwrap_or_default();
    Ok(HttpRequest {
        pod: uid.clone(),
        url: HttpUrl::new(scheme, or(action.host.as_deref(), pod_ip), port, path),
        headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        user_agent: user_agent.to_owned(),
        protocol: match action.protocol.as_deref() {
            Some("HTTP2") => HttpProtocol::Http2,
            Some(_) | None => HttpProtocol::Http1,
        },
        is_anonymous: false,
        timeout,
    })
}

/// What is given, unless it is empty.
pub(super) fn or<'a>(given: Option<&'a str>, default: &'a str) -> &'a str {
    given.filter(|given| !given.is_empty()).unwrap_or(default)
}
