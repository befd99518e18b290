//! What kind of client asks for streams, from the headers of its request.

use axum::extract::Request;
use axum::http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use axum::http::{HeaderMap, HeaderName, Method};
use hostlet_runtime::streaming::PROTOCOL_VERSION;
use hyper::upgrade::OnUpgrade;

use super::super::auth::remove_tokens;
use super::error::RequestError;

/// The WebSocket protocol of commands that the kubelet translates: the only one whose input can end.
pub(super) const V5: &str = "v5.channel.k8s.io";

/// The beginning and end of the protocols of tunnels.
const TUNNEL: &str = "SPDY/3.1+";
const KUBERNETES: &str = ".k8s.io";

/// A client that wants its connection upgraded.
pub(super) struct Client {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) connection: OnUpgrade,
}

impl Client {
    /// The client of a request for an upgrade.
    pub(super) fn of(mut request: Request) -> Result<Self, RequestError> {
        let has_token = |value: &str| value.to_ascii_lowercase().contains("upgrade");
        let connection = request.headers().get_all(CONNECTION);
        if !connection.iter().any(|value| value.to_str().is_ok_and(has_token)) {
            return Err(RequestError::NoUpgrade);
        }
        let connection = hyper::upgrade::on(&mut request);
        let (head, _) = request.into_parts();
        Ok(Self { method: head.method, headers: head.headers, connection })
    }

    /// The headers that the runtime needs for the upgrade. Others, credentials among them, are none of its business.
    pub(super) fn upgrade_headers(&self) -> HeaderMap {
        let is_needed = |name: &HeaderName| {
            let name = name.as_str();
            name == UPGRADE.as_str() || name == PROTOCOL_VERSION || name.starts_with("sec-websocket-")
        };
        let needed = self.headers.iter().filter(|(name, _)| is_needed(name));
        let mut needed = needed.map(|(name, value)| (name.clone(), value.clone())).collect();
        remove_tokens(&mut needed);
        needed
    }
}

/// Whether a request's headers ask for a WebSocket.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether the client speaks the version of WebSockets that is translated.
pub(super) fn speaks_v5(headers: &HeaderMap) -> bool {
    is_websocket(headers) && protocols(headers).any(|protocol| protocol == V5)
}

/// The protocols that the client would tunnel, without their prefix.
pub(super) fn tunnelled(headers: &HeaderMap) -> Vec<&str> {
    let inner = protocols(headers).filter_map(|protocol| protocol.strip_prefix(TUNNEL));
    inner.filter(|protocol| is_websocket(headers) && protocol.ends_with(KUBERNETES)).collect()
}

/// The name of a tunnel's protocol.
pub(super) fn tunnel_of(protocol: &str) -> String {
    format!("{TUNNEL}{protocol}")
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    all.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(upgrade: &'static str, protocols: &[&'static str]) -> HeaderMap {
        let protocols = protocols.iter().map(|value| (SEC_WEBSOCKET_PROTOCOL, value.parse().unwrap()));
        protocols.chain([(UPGRADE, upgrade.parse().unwrap())]).collect()
    }

    #[test]
    fn clients_are_told_apart_by_their_protocols() {
        let v5 = headers("WebSocket", &["v4.channel.k8s.io, v5.channel.k8s.io"]);
        assert!(is_websocket(&v5) && speaks_v5(&v5) && tunnelled(&v5).is_empty());
        let v4 = headers("websocket", &["v4.channel.k8s.io"]);
        assert!(is_websocket(&v4) && !speaks_v5(&v4));
        let spdy = headers("SPDY/3.1", &["v5.channel.k8s.io"]);
        assert!(!is_websocket(&spdy) && !speaks_v5(&spdy));
        let tunnel = headers("websocket", &["SPDY/3.1+portforward.k8s.io", "SPDY/3.1+other", "chat"]);
        assert_eq!(tunnelled(&tunnel), ["portforward.k8s.io"]);
        assert_eq!(tunnel_of("portforward.k8s.io"), "SPDY/3.1+portforward.k8s.io");
    }
}
