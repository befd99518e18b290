//! The server's side of WebSockets (RFC 6455) of which the kubelet itself is the end.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::copy::{BUFFER, LINGER};

/// Limit for a message of a client in bytes, as upstream (`websocket.DefaultMaxPayloadBytes`).
const MOST_MESSAGE: usize = 32 << 20;

/// How often a client gets a ping while there is nothing to send. Sending to a client that has left fails, also while what it has sent
/// waits for the runtime, and is not read.
pub(super) const PING: Duration = Duration::from_secs(10);

/// What RFC 6455 appends to a client's key, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// An upgraded connection.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A handshake that is none. `Display` is upstream's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HandshakeError {
    /// Only a GET is one.
    #[error("bad method")]
    Method,
    /// Another version of the protocol.
    #[error("missing or bad WebSocket Version")]
    Version,
    /// The key is missing.
    #[error("mismatch challenge/response")]
    Key,
    /// No protocol of a tunnel that this server has.
    #[error("unable to upgrade: no tunneling spdy protocols provided")]
    NoTunnel,
}

/// The answer that accepts a client's handshake, with the chosen subprotocol.
pub(super) fn accept(
    method: &Method,
    headers: &HeaderMap,
    protocol: Option<HeaderValue>,
) -> Result<Response, HandshakeError> {
    if *method != Method::GET {
        return Err(HandshakeError::Method);
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(HandshakeError::Version);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()).ok_or(HandshakeError::Key)?;
    let accepted = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID].concat()));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = HeaderValue::try_from(accepted) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    headers.extend(protocol.map(|protocol| (SEC_WEBSOCKET_PROTOCOL, protocol)));
    Ok(response)
}

/// The socket on a connection whose handshake was accepted.
pub(super) async fn socket(connection: Upgraded) -> Socket {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(MOST_MESSAGE))
        .max_frame_size(Some(MOST_MESSAGE));
    WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, Some(config)).await
}

/// Says goodbye, and gives the client a moment to read what was sent before.
pub(super) async fn close(mut socket: Socket) {
    let goodbye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    let closing = async {
        // Fails if the client has left.
        let _ = socket.send(Message::Close(Some(goodbye))).await;
        while let Some(Ok(_)) = socket.next().await {}
    };
    let _ = timeout(LINGER, closing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_accepted_as_the_rfc_says() {
        let mut headers = HeaderMap::new();
        assert_eq!(accept(&Method::POST, &headers, None).unwrap_err(), HandshakeError::Method);
        assert_eq!(accept(&Method::GET, &headers, None).unwrap_err(), HandshakeError::Version);
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        assert_eq!(accept(&Method::GET, &headers, None).unwrap_err(), HandshakeError::Key);
        // The example of section 1.3.
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        let chat = HeaderValue::from_static("chat");
        let response = accept(&Method::GET, &headers, Some(chat)).unwrap();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(response.headers()[SEC_WEBSOCKET_PROTOCOL], "chat");
    }
}
