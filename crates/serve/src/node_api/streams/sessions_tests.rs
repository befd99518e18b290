//! How sessions end: connections of a port-forward that break, clients that leave, thousands of sessions.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use hostlet_runtime::cri::StdStreams;
use hostlet_runtime::spdy::fake::{Event, FakeServer};
use hostlet_runtime::spdy::{Connection, Stream};
use hostlet_runtime::streaming::fake::{AGREED, answer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::tests::{Bench, HANDSHAKE, PATIENCE, SPDY, channels, exec};

const RESET: &[u8] = b"error forwarding port 80 to pod 5a, uid : read: connection reset by peer";
const REFUSED: &[u8] = b"error forwarding port 80 to pod 5a, uid : connect: connection refused";

/// The bytes of a connection before the pod resets it.
const FLOOD: usize = 100 << 10;

/// Upgrades a client's connection. Returns it with the runtime's end.
async fn upgraded(bench: &mut Bench, method: &str, path: &str, headers: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    bench.fake.serve_streams_at(&format!("http://{}", listener.local_addr().unwrap()));
    let serving = async {
        let (mut runtime, _) = listener.accept().await.unwrap();
        answer(&mut runtime, &AGREED.replace("v4.channel.k8s.io", "portforward.k8s.io")).await;
        runtime
    };
    let (runtime, (client, head)) = tokio::join!(serving, bench.connect(method, path, headers));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    (client, runtime)
}

/// A port-forward by one of kubectl's protocols.
async fn port_forward(bench: &mut Bench, is_tunnel: bool) -> (TcpStream, TcpStream) {
    let tunnel = format!("{HANDSHAKE}Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n");
    let (method, headers) = if is_tunnel { ("GET", tunnel.as_str()) } else { ("POST", SPDY) };
    upgraded(bench, method, "/portForward/default/web", headers).await
}

/// The client's SPDY.
async fn client_of(bench: &mut Bench, client: TcpStream, is_tunnel: bool) -> Connection {
    if !is_tunnel {
        return driven(bench, client);
    }
    let (near, far) = duplex(64 << 10);
    let socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    bench.tasks.spawn(in_messages(socket, far));
    driven(bench, near)
}

fn driven(bench: &mut Bench, io: impl AsyncRead + AsyncWrite + Send + 'static) -> Connection {
    let (connection, driver) = Connection::new(io);
    bench.tasks.spawn(async move { driver.run().await.unwrap() });
    connection
}

async fn in_messages(socket: WebSocketStream<TcpStream>, io: DuplexStream) {
    let (mut sink, mut stream) = socket.split();
    let (mut reader, mut writer) = tokio::io::split(io);
    let sending = async {
        let mut buffer = vec![0; 4 << 10];
        while let Ok(read @ 1..) = reader.read(&mut buffer).await {
            sink.send(Message::Binary(Bytes::copy_from_slice(&buffer[..read]))).await.unwrap();
        }
    };
    let receiving = async {
        while let Some(Ok(message)) = stream.next().await {
            writer.write_all(&message.into_data()).await.unwrap();
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
    }
}

/// A pod's port as containerd forwards it: repeats what it gets, or sends bytes and then resets the connection, or refuses it.
async fn serve_ports(runtime: TcpStream) {
    let mut server = FakeServer::new(runtime);
    let (mut error, mut errors) = (0, HashMap::new());
    while let Some(event) = server.next().await {
        match event {
            Event::Open { stream, headers } => {
                server.accept(stream).await;
                match headers[0].1.as_str() {
                    "error" => error = stream,
                    _ => drop(errors.insert(stream, error)),
                }
            }
            Event::Data { stream, data, .. } => {
                let Some(error) = errors.get(&stream).copied() else { continue };
                let report = match &data[..] {
                    b"reset" => {
                        for _ in 0..FLOOD >> 10 {
                            server.send(stream, &[b'x'; 1 << 10], false).await;
                        }
                        RESET
                    }
                    b"refuse" => REFUSED,
                    bytes => {
                        server.send(stream, bytes, false).await;
                        continue;
                    }
                };
                server.send(error, report, false).await;
                server.send(stream, b"", true).await;
                server.send(error, b"", true).await;
            }
            Event::Reset { .. } => {}
        }
    }
}

/// A connection of a port-forward.
struct Forwarded {
    error: Stream,
    data: Stream,
}

impl Forwarded {
    /// Opens its streams as kubectl does.
    async fn open(connection: &Connection) -> Self {
        let headers = |kind: &str| vec![("streamtype", kind.to_owned()), ("port", "80".to_owned())];
        let mut error = connection.open(headers("error")).await.unwrap();
        error.finish().await.unwrap();
        Self { error, data: connection.open(headers("data")).await.unwrap() }
    }

    async fn send(&self, bytes: &'static [u8]) {
        self.data.send(Bytes::from_static(bytes)).await.unwrap();
    }

    /// Whether bytes come back.
    async fn assert_works(&mut self) {
        self.send(b"hello").await;
        assert_eq!(timeout(PATIENCE, self.data.receive()).await.unwrap().unwrap(), "hello");
    }

    /// The data and the report until the end of both.
    async fn end(mut self) -> (usize, Vec<u8>) {
        let (mut length, mut report) = (0, Vec::new());
        while let Some(bytes) = timeout(PATIENCE, self.data.receive()).await.unwrap() {
            length += bytes.len();
        }
        while let Some(bytes) = timeout(PATIENCE, self.error.receive()).await.unwrap() {
            report.extend(bytes);
        }
        (length, report)
    }
}

#[tokio::test]
async fn a_broken_connection_ends_no_other_of_its_port_forward() {
    for is_tunnel in [false, true] {
        let mut bench = Bench::new().await;
        let (client, runtime) = port_forward(&mut bench, is_tunnel).await;
        bench.tasks.spawn(serve_ports(runtime));
        let connection = client_of(&mut bench, client, is_tunnel).await;
        let mut steady = Forwarded::open(&connection).await;
        steady.assert_works().await;
        for _ in 0..3 {
            let reset_in_the_pod = Forwarded::open(&connection).await;
            reset_in_the_pod.send(b"reset").await;
            // kubectl would end all of them after a report.
            assert_eq!(reset_in_the_pod.end().await, (FLOOD, Vec::new()));
            steady.assert_works().await;
            let mut reset_by_the_client = Forwarded::open(&connection).await;
            reset_by_the_client.send(b"reset").await;
            assert!(reset_by_the_client.data.receive().await.is_some());
            drop(reset_by_the_client);
            steady.assert_works().await;
        }
        // This one is for the user, as with every kubelet.
        let refused = Forwarded::open(&connection).await;
        refused.send(b"refuse").await;
        assert_eq!(refused.end().await, (0, REFUSED.to_vec()));
        steady.assert_works().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_websocket_client_that_leaves_is_noticed_although_the_runtime_takes_no_bytes() {
    for is_tunnel in [false, true] {
        let mut bench = Bench::new().await;
        let before = alive_tasks();
        let (client, runtime) = if is_tunnel {
            port_forward(&mut bench, true).await
        } else {
            let headers = format!("{HANDSHAKE}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n");
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            bench.fake.serve_streams_at(&format!("http://{}", listener.local_addr().unwrap()));
            let path = "/exec/default/web/c?command=x&input=1";
            let (client, _) = bench.connect("GET", path, &headers).await;
            let (mut runtime, _) = listener.accept().await.unwrap();
            answer(&mut runtime, AGREED).await;
            let mut server = FakeServer::new(runtime);
            for _ in ["error", "stdin"] {
                let Some(Event::Open { stream, .. }) = server.next().await else { panic!("no stream") };
                server.accept(stream).await;
            }
            (client, server.into_inner())
        };
        let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let bytes = Bytes::from(vec![0; 64 << 10]);
        // Until every buffer on the way is full.
        while let Ok(sent) =
            timeout(Duration::from_secs(20), socket.send(Message::Binary(bytes.clone()))).await
        {
            sent.unwrap();
        }
        assert!(alive_tasks() > before);
        drop(socket);
        wait_for_tasks(before).await;
        drop(runtime);
    }
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

async fn wait_for_tasks(most: usize) {
    let ending = async {
        while alive_tasks() > most {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, ending).await.unwrap();
}

#[tokio::test]
async fn nothing_of_thousands_of_sessions_remains() {
    const ROUNDS: usize = 500;
    let mut bench = Bench::new().await;
    let streaming = format!("http://{}", bench.streaming.local_addr().unwrap());
    // Other tests of this process open few descriptors.
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (tasks, before) = (alive_tasks(), descriptors());
    let streams = StdStreams { stdin: true, stdout: true, ..StdStreams::default() };
    for _ in 0..ROUNDS {
        // A command that ends, and one whose client leaves before.
        bench.fake.serve_streams_at(&streaming);
        let mut ends = bench.command("input=1&output=1", streams, exec("out", "", 0)).await;
        ends.send(Message::Binary(b"\xff\x00"[..].into())).await.unwrap();
        assert_eq!(channels(&mut ends).await[1], b"out");
        drop(bench.command("input=1&output=1", streams, exec("out", "", 0)).await);
        // A session that the runtime ends, and one that the client does.
        let (mut client, runtime) = port_forward(&mut bench, false).await;
        drop(runtime);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        let (client, mut runtime) = port_forward(&mut bench, true).await;
        drop(client);
        assert_eq!(runtime.read(&mut [0]).await.unwrap(), 0);
        while bench.tasks.try_join_next().is_some() {}
    }
    wait_for_tasks(tasks).await;
    let after = descriptors();
    assert!(after < before + ROUNDS, "{before} descriptors before, {after} after");
}
