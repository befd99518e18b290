//! Port-forwarding over WebSockets (KEP-4006): a client's SPDY in messages, which the runtime receives as bytes.

use std::future::pending;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::copy::BUFFER;
use super::idle::Activity;
use super::reports::Reports;
use super::websocket::{PING, Socket, close};

/// Passes bytes on both ways until one side ends, or nothing has passed for `idle`. Then both are closed.
pub(super) async fn tunnel<R: AsyncRead + AsyncWrite>(socket: Socket, runtime: R, idle: Duration) {
    let activity = Activity::new(idle);
    let (mut to_client, mut from_client) = socket.split();
    let (mut from_runtime, mut to_runtime) = split(runtime);
    let sending = async {
        while let Some(Ok(message)) = from_client.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Text(_) | Message::Close(_) | Message::Frame(_) => return,
            };
            activity.note();
            if to_runtime.write_all(&bytes).await.is_err() || to_runtime.flush().await.is_err() {
                // What the runtime has sent is still to be received.
                return pending().await;
            }
        }
    };
    let receiving = async {
        let mut reports = Reports::default();
        let mut buffer = BytesMut::with_capacity(BUFFER);
        loop {
            buffer.clear();
            let message = match timeout(PING, from_runtime.read_buf(&mut buffer)).await {
                Ok(Ok(1..)) => {
                    activity.note();
                    Message::Binary(reports.filter(&buffer).freeze())
                }
                Ok(Ok(0) | Err(_)) => return,
                Err(_) => Message::Ping(Bytes::new()),
            };
            if to_client.send(message).await.is_err() {
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
