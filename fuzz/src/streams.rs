//! Streams of commands and ports: queries, messages of WebSocket clients, the URL and the frames of a runtime.

use bytes::Bytes;
use futures::future::join3;
use hostlet_runtime::spdy::Connection;
use hostlet_runtime::streaming::{Ended, Input, StreamUrl};
use hostlet_serve::node_api::streams::{ClientMessage, Parameters};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A query of a client, or a URL of the runtime.
pub fn stream_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parameters = Parameters::parse(text);
    if let Ok(streams) = parameters.std_streams() {
        assert!(!(streams.tty && streams.stderr), "a terminal has one output");
    }
    match parameters.ports() {
        Ok(ports) => assert!(!ports.is_empty() && !ports.contains(&0), "{ports:?}"),
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
    }
    if let Err(error) = StreamUrl::parse(text) {
        assert!(error.to_string().len() < 2000, "a long message");
    }
}

/// A message of a WebSocket client, or the runtime's report of an end.
pub fn stream_message(data: &[u8]) {
    match ClientMessage::parse(Bytes::copy_from_slice(data)) {
        ClientMessage::Input(Input::Stdin(stdin)) => assert_eq!(stdin, data[1..]),
        ClientMessage::Input(Input::StdinEnd) => assert_eq!(data, b"\xff\x00"),
        ClientMessage::Input(Input::Resize(_)) => assert_eq!(data[0], 4),
        ClientMessage::Nothing | ClientMessage::Left => {}
    }
    let _ = Ended::parse(data);
}

/// What a runtime sends to a client that opens a stream.
pub fn spdy_frames(data: &[u8]) {
    let (near, mut far) = tokio::io::duplex(1 << 10);
    let (connection, driver) = Connection::new(near);
    let client = async move {
        let Ok(mut stream) = connection.open(vec![("streamtype", "stdout".to_owned())]).await else { return };
        let mut received = 0;
        while let Some(bytes) = stream.receive().await {
            received += bytes.len();
        }
        assert!(received <= data.len(), "bytes that were not sent");
    };
    let server = async move {
        // The client has opened its stream. It may leave before it has read everything.
        let _ = far.read_exact(&mut [0; 8]).await;
        let _ = far.write_all(data).await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _ = runtime.block_on(join3(client, driver.run(), server));
}
