//! Connections to a server in memory, which speaks in bytes.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join3;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, join};

use super::frame::{Control, HEAD, Head, HeaderBlocks};
use super::{Connection, SpdyError, Stream};

/// The first opened stream as a server sees it: the block's head names the dictionary, its first block is stored, and an empty one follows.
const OPEN: &[u8] = b"\x80\x03\x00\x01\x00\x00\x00\x36\
    \x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\
    \x78\x20\xe3\xc6\xa7\xc2\
    \x00\x1c\x00\xe3\xff\
    \x00\x00\x00\x01\x00\x00\x00\x0astreamtype\x00\x00\x00\x06stdout\
    \x00\x00\x00\xff\xff";

/// The second one continues the same zlib stream.
const OPEN_NEXT: &[u8] = b"\x80\x03\x00\x01\x00\x00\x00\x30\
    \x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\
    \x00\x1c\x00\xe3\xff\
    \x00\x00\x00\x01\x00\x00\x00\x0astreamtype\x00\x00\x00\x06stdout\
    \x00\x00\x00\xff\xff";

const REPLY: &[u8] = b"\x80\x03\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01";

fn stdout() -> Vec<(&'static str, String)> {
    vec![("streamtype", "stdout".to_owned())]
}

/// Runs a client and a server until both have ended. Returns how the connection ended.
async fn with_server<C: Future<Output = ()>, S: Future<Output = ()>>(
    client: impl FnOnce(Connection) -> C,
    server: impl FnOnce(DuplexStream) -> S,
) -> Result<(), SpdyError> {
    let (near, far) = duplex(1 << 10);
    let (connection, driver) = Connection::new(near);
    join3(client(connection), server(far), driver.run()).await.2
}

async fn expect(server: &mut DuplexStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(read, bytes);
}

async fn all_of(stream: &mut Stream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.receive().await {
        all.extend(bytes);
    }
    all
}

#[tokio::test]
async fn a_stream_carries_bytes_both_ways_and_is_finished_by_each_side() {
    let client = async |connection: Connection| {
        let mut stream = connection.open(stdout()).await.unwrap();
        stream.send(Bytes::from_static(b"in")).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(all_of(&mut stream).await, b"output");
    };
    let server = async |mut server: DuplexStream| {
        expect(&mut server, OPEN).await;
        server.write_all(REPLY).await.unwrap();
        expect(&mut server, b"\x00\x00\x00\x01\x00\x00\x00\x02in\x00\x00\x00\x01\x01\x00\x00\x00").await;
        // Settings, a ping, and data of an unknown stream between.
        server.write_all(b"\x00\x00\x00\x01\x00\x00\x00\x03out").await.unwrap();
        server.write_all(b"\x80\x03\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00").await.unwrap();
        server.write_all(b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07").await.unwrap();
        server
            .write_all(b"\x00\x00\x00\x09\x01\x00\x00\x03not\x00\x00\x00\x01\x01\x00\x00\x03put")
            .await
            .unwrap();
        expect(&mut server, b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07").await;
        // Both have finished, so that nothing is reset.
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    };
    with_server(client, server).await.unwrap();
}

#[tokio::test]
async fn a_refused_stream_is_an_error_and_the_next_one_opens() {
    let client = async |connection: Connection| {
        let refused = connection.open(stdout()).await.unwrap_err();
        assert!(matches!(refused, SpdyError::Refused(3)), "{refused}");
        drop(connection.open(stdout()).await.unwrap());
    };
    let server = async |mut server: DuplexStream| {
        expect(&mut server, OPEN).await;
        server.write_all(b"\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x03").await.unwrap();
        expect(&mut server, OPEN_NEXT).await;
        server.write_all(b"\x80\x03\x00\x02\x00\x00\x00\x04\x00\x00\x00\x03").await.unwrap();
        // It was dropped before the server finished.
        expect(&mut server, b"\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\x05").await;
    };
    with_server(client, server).await.unwrap();
}

#[tokio::test]
async fn streams_and_pending_ones_end_with_the_connection() {
    let client = async |connection: Connection| {
        let mut stream = connection.open(stdout()).await.unwrap();
        assert_eq!(all_of(&mut stream).await, b"");
        assert!(matches!(connection.open(stdout()).await, Err(SpdyError::Ended)));
        assert!(matches!(stream.send(Bytes::new()).await, Err(SpdyError::Ended)));
    };
    let server = async |mut server: DuplexStream| {
        expect(&mut server, OPEN).await;
        server.write_all(REPLY).await.unwrap();
    };
    with_server(client, server).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_server_sends_arrives_although_it_reads_no_more() {
    let ((reader, mut sends), (writer, mut receives)) = (duplex(1 << 10), duplex(1 << 10));
    let (connection, driver) = Connection::new(join(reader, writer));
    let client = async move {
        let mut stream = connection.open(stdout()).await.unwrap();
        for _ in 0..20 {
            stream.send(Bytes::from_static(b"in")).await.unwrap();
        }
        assert!(matches!(connection.open(stdout()).await, Err(SpdyError::Ended)));
        assert_eq!(all_of(&mut stream).await, b"out");
    };
    let server = async move {
        expect(&mut receives, OPEN).await;
        drop(receives);
        sends.write_all(REPLY).await.unwrap();
        // The client's writes fail meanwhile.
        tokio::time::sleep(Duration::from_secs(1)).await;
        sends.write_all(b"\x00\x00\x00\x01\x01\x00\x00\x03out").await.unwrap();
    };
    let ((), (), driven) = join3(client, server, driver.run()).await;
    assert!(matches!(driven, Err(SpdyError::Write(_))), "{driven:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_neither_read_nor_used_ends() {
    let ((reader, mut sends), (writer, mut receives)) = (duplex(1 << 10), duplex(1 << 10));
    let (connection, driver) = Connection::new(join(reader, writer));
    let client = async move {
        let stream = connection.open(stdout()).await.unwrap();
        stream.send(Bytes::from_static(b"in")).await.unwrap();
    };
    let server = async {
        expect(&mut receives, OPEN).await;
        drop(receives);
        sends.write_all(REPLY).await.unwrap();
    };
    let ((), (), driven) = join3(client, server, driver.run()).await;
    assert!(matches!(driven, Err(SpdyError::Write(_))), "{driven:?}");
    // The server has not closed it.
    drop(sends);
}

#[tokio::test]
async fn a_slow_receiver_loses_nothing() {
    const FRAMES: usize = 300;
    let client = async |connection: Connection| {
        let mut stream = connection.open(stdout()).await.unwrap();
        let mut all = 0;
        while let Some(bytes) = stream.receive().await {
            tokio::task::yield_now().await;
            all += bytes.len();
        }
        assert_eq!(all, FRAMES << 10);
    };
    let server = async |mut server: DuplexStream| {
        expect(&mut server, OPEN).await;
        server.write_all(REPLY).await.unwrap();
        for _ in 0..FRAMES {
            server.write_all(b"\x00\x00\x00\x01\x00\x00\x04\x00").await.unwrap();
            server.write_all(&[b'x'; 1 << 10]).await.unwrap();
        }
    };
    with_server(client, server).await.unwrap();
}

#[tokio::test]
async fn what_is_no_spdy_ends_the_connection_with_a_reason() {
    for (bytes, reason) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], ""),
        (b"\x00\x00\x00\x00\x00\x00\x00\x01x", "data of stream 0"),
        (b"\x80\x02\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01", "another version than SPDY/3"),
        (b"\x80\x03\x00\x02\x00\xff\xff\xff", "a control frame exceeds 64 KiB"),
        (b"\x80\x03\x00\x02\x00\x00\x00\x02\x00\x00", "a control frame is too short"),
        (b"\x80\x03\x00\x01\x00\x00\x00\x00", "it opens a stream"),
    ] {
        let client = async |connection: Connection| {
            assert!(matches!(connection.open(stdout()).await, Err(SpdyError::Ended)));
        };
        let server = async |mut server: DuplexStream| {
            expect(&mut server, OPEN).await;
            server.write_all(bytes).await.unwrap();
        };
        let error = with_server(client, server).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_long_header_is_stored_in_several_blocks() {
    let (mut blocks, mut frame) = (HeaderBlocks::default(), Vec::new());
    blocks.encode_open(1, &[("a", &"x".repeat(70_000))], &mut frame);
    let block = 4 + 4 + 1 + 4 + 70_000;
    let head = Head::decode(*frame.first_chunk().unwrap());
    assert!(matches!(head, Err(SpdyError::InvalidFrame("a control frame exceeds 64 KiB"))), "of a server");
    assert_eq!(frame.len(), HEAD + 10 + 6 + 3 * 5 + block);
}

proptest! {
    #[test]
    fn no_bytes_panic(head: [u8; HEAD], payload: Vec<u8>) {
        if let Ok(Head::Control { kind, flags, .. }) = Head::decode(head) {
            let _ = Control::decode(kind, flags, &payload);
        }
    }
}
