//! Port-forwarding over WebSockets (KEP-4006): a client's SPDY in messages, which the runtime receives as bytes.

use std::time::Duration;

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio_tungstenite::tungstenite::Message;

use super::copy::BUFFER;
use super::idle::Activity;
use super::websocket::{Socket, close};

/// Passes bytes on both ways until one side ends, or nothing has passed for `idle`. Then both are closed.
pub(super) async fn tunnel<R: AsyncRead + AsyncWrite>(socket: Socket, runtime: R, idle: Duration) {
    let activity = Activity::new(idle);
    let (mut to_client, mut from_client) = socket.split();
    let (mut from_runtime, mut to_runtime) = split(runtime);
    let sending = async {
        while let Some(Ok(message)) = from_client.next().await {
            activity.note();
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Text(_) | Message::Close(_) | Message::Frame(_) => return,
            };
            if to_runtime.write_all(&bytes).await.is_err() || to_runtime.flush().await.is_err() {
                return;
            }
        }
    };
    let receiving = async {
        loop {
            let mut buffer = BytesMut::with_capacity(BUFFER);
            if !matches!(from_runtime.read_buf(&mut buffer).await, Ok(1..)) {
                return;
            }
            activity.note();
            if to_client.send(Message::Binary(buffer.freeze())).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        // Cancel-safe, all: the session ends with any of them.
        () = sending => {}
        () = receiving => {}
        () = activity.idle() => {}
    }
    if let Ok(socket) = to_client.reunite(from_client) {
        close(socket).await;
    }
}
