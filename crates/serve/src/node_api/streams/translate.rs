//! Commands over WebSockets of version 5 (KEP-4006): translates between their channels and the runtime's streams.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::channel::mpsc;
use futures::future::try_join;
use futures::stream::unfold;
use futures::{FutureExt, SinkExt, StreamExt};
use hostlet_base::{error_chain, json as strict_json};
use hostlet_runtime::cri::StdStreams;
use hostlet_runtime::streaming::{
    Ended, Input, Output, StreamUrl, StreamingError, TerminalSize, remote_command,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::idle::Activity;
use super::websocket::{PING, Socket, close};

/// The channels, which are the first byte of each message.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// What is followed by the number of a channel that the client closes.
const CLOSE: u8 = 255;

/// How long the report of the end may take to send, as upstream.
const REPORTING: Duration = Duration::from_secs(10);

/// Runs a session of a client until the process ends, the client leaves, or nothing has passed for `idle`.
pub(super) async fn translate(socket: Socket, url: StreamUrl, streams: StdStreams, idle: Duration) {
    let activity = Activity::new(idle);
    let (mut sink, mut stream) = socket.split();
    // A client waits for a first message to know that the session is there.
    let first = match streams {
        StdStreams { stdout: true, .. } => STDOUT,
        StdStreams { stderr: true, .. } => STDERR,
        StdStreams { .. } => STATUS,
    };
    // Errors show that the client has left, which the reading end sees as well.
    let _ = sink.send(message(first, &[])).await;
    let input = unfold(&mut stream, async |stream| {
        loop {
            match ClientMessage::read(stream.next().await?.ok()?) {
                ClientMessage::Input(input) => {
                    activity.note();
                    return Some((input, stream));
                }
                ClientMessage::Nothing => {}
                ClientMessage::Left => return None,
            }
        }
    });
    let (output, mut printed) = mpsc::channel(0);
    let sending = async {
        loop {
            let message = match timeout(PING, printed.next()).await {
                Ok(Some(Output::Stdout(bytes))) => message(STDOUT, &bytes),
                Ok(Some(Output::Stderr(bytes))) => message(STDERR, &bytes),
                Ok(None) => return Ok(()),
                Err(_) => {
                    sink.send(Message::Ping(Bytes::new())).await?;
                    continue;
                }
            };
            activity.note();
            sink.send(message).await?;
        }
    };
    let running = remote_command(&url, streams, input, output).map(Ok::<_, Error>);
    let ended = tokio::select! {
        // Cancel-safe, both: the session ends with either. What cannot be sent has no receiver any more.
        ended = try_join(running, sending) => ended.map_or(Ok(Ended::Left), |(ended, ())| ended),
        () = activity.idle() => Ok(Ended::Left),
    };
    if let Some(status) = status_of(ended) {
        // A client that has left needs none.
        let _ = timeout(REPORTING, sink.send(message(STATUS, status.to_string().as_bytes()))).await;
    }
    if let Ok(socket) = sink.reunite(stream) {
        close(socket).await;
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(1 + bytes.len());
    message.put_u8(channel);
    message.extend_from_slice(bytes);
    Message::Binary(message.freeze())
}

/// What a message of a client means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// It is for the process.
    Input(Input),
    /// It is for nobody, and is ignored, as upstream.
    Nothing,
    /// The client has left, or speaks another protocol.
    Left,
}

impl ClientMessage {
    /// Reads the bytes of a message.
    #[must_use]
    pub fn parse(mut bytes: Bytes) -> Self {
        if bytes.is_empty() {
            return Self::Nothing;
        }
        match (bytes.split_to(1)[0], &bytes[..]) {
            (STDIN, _) => Self::Input(Input::Stdin(bytes)),
            (RESIZE, size) => match strict_json::from_slice::<TerminalSize>(size) {
                Ok(size) => Self::Input(Input::Resize(size)),
                Err(_) => Self::Nothing,
            },
            (CLOSE, [STDIN]) => Self::Input(Input::StdinEnd),
            (CLOSE, [STDOUT..=RESIZE]) => Self::Nothing,
            (CLOSE, _) => Self::Left,
            (_, _) => Self::Nothing,
        }
    }

    fn read(message: Message) -> Self {
        match message {
            Message::Binary(bytes) => Self::parse(bytes),
            Message::Text(text) => Self::parse(text.into()),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Self::Nothing,
            Message::Close(_) => Self::Left,
        }
    }
}

/// The report of an end to the client, as upstream; nothing if it has left.
fn status_of(ended: Result<Ended, StreamingError>) -> Option<Value> {
    match ended {
        Ok(Ended::Left) => None,
        Ok(Ended::Succeeded) => Some(json!({"metadata": {}, "status": "Success"})),
        Ok(Ended::Exited(code)) => {
            let message = "command terminated with non-zero exit code: command terminated with exit code";
            Some(json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("{message} {code}"),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }))
        }
        Ok(Ended::Failed(why)) => Some(internal_error(&why)),
        Err(error) => Some(internal_error(&error_chain(&error))),
    }
}

/// `apierrors.NewInternalError`.
fn internal_error(why: &str) -> Value {
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_by_channel() {
        let of = |bytes: &[u8]| ClientMessage::parse(bytes.to_vec().into());
        let stdin = |bytes: &'static [u8]| ClientMessage::Input(Input::Stdin(Bytes::from_static(bytes)));
        assert_eq!(of(b"\x00ls\n"), stdin(b"ls\n"));
        assert_eq!(of(b"\x00"), stdin(b""));
        assert_eq!(of(b"\xff\x00"), ClientMessage::Input(Input::StdinEnd));
        let size = TerminalSize { width: 80, height: 24 };
        assert_eq!(of(b"\x04{\"Width\":80,\"Height\":24}\n"), ClientMessage::Input(Input::Resize(size)));
        for nothing in [&b""[..], b"\x01x", b"\x09x", b"\x04{", b"\xff\x04"] {
            assert_eq!(of(nothing), ClientMessage::Nothing, "{nothing:?}");
        }
        for left in [&b"\xff"[..], b"\xff\x05", b"\xff\x00\x00"] {
            assert_eq!(of(left), ClientMessage::Left, "{left:?}");
        }
        assert_eq!(ClientMessage::read(Message::Close(None)), ClientMessage::Left);
    }
}
