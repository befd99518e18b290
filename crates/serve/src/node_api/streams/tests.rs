//! Requests for streams over real connections, with a runtime and its streaming server in this process.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::{SinkExt, StreamExt};
use hostlet_base::{CONTAINER_NAME_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};
use hostlet_observe::pleg::Pleg;
use hostlet_observe::status::{LifecycleSummary, PodDirectory, PodStatusEntry, StatusCache};
use hostlet_pod::{AdmittedPod, pod_ref};
use hostlet_runtime::cri::fake::{Exec, Failure, FakeRuntime, Fault, Rule};
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata,
};
use hostlet_runtime::cri::{ExecOutput, Operation, RuntimeService, StdStreams};
use hostlet_runtime::streaming::fake::{AGREED, answer, serve};
use hostlet_telemetry::Metrics;
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Pod;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{StreamDeps, StreamMetrics, routes};

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The headers of a WebSocket's handshake, except the protocol.
pub(super) const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

pub(super) const SPDY: &str =
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n";

/// A node with the pod `default/web` (UID `uid-1`), whose container `c` runs, whose container `tty` has a terminal, and whose
/// container `late` does not run.
pub(super) struct Bench {
    pub(super) fake: FakeRuntime,
    router: Router,
    metrics: Metrics,
    /// The runtime's streaming server.
    pub(super) streaming: TcpListener,
    pub(super) tasks: JoinSet<()>,
}

impl Bench {
    pub(super) async fn new() -> Self {
        let fake = FakeRuntime::new();
        fake.add_image("docker.io/library/img:1");
        run_pod(&fake, &["c", "tty"]).await;
        let streaming = TcpListener::bind("127.0.0.1:0").await.unwrap();
        fake.serve_streams_at(&format!("http://{}", streaming.local_addr().unwrap()));
        let (relister, pleg) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
        let containers = json!([{"name": "c"}, {"name": "tty", "tty": true}, {"name": "late"}]);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "uid-1"},
            "spec": {"containers": containers},
        }))
        .unwrap();
        let pods = StatusCache::default();
        pods.report(PodStatusEntry {
            pod: AdmittedPod::new(pod.clone()),
            status: Arc::default(),
            terminating_since: None,
            lifecycle: LifecycleSummary::Active,
            has_released: false,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(relister.run(CancellationToken::new()));
        pleg.cache().newer_than(&pod_ref(&pod), None).await.unwrap();
        let (metrics, counts) = (Metrics::default(), StreamMetrics::default());
        counts.register(&metrics);
        let router = routes(StreamDeps {
            pods: PodDirectory::of(pods),
            pleg,
            runtime: Arc::new(fake.clone()),
            idle: Duration::from_secs(3600),
            metrics: counts,
        });
        Self { fake, router, metrics, streaming, tasks }
    }

    /// The answer to a request without an upgrade, or before one.
    async fn ask(&self, method: &str, path: &str, headers: &str) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
            request = request.header(name, value);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }

    /// Sends a request on a new connection. Returns the connection and the head of the answer.
    pub(super) async fn connect(&mut self, method: &str, path: &str, headers: &str) -> (TcpStream, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(self.router.clone());
        self.tasks.spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
            connection.with_upgrades().await.unwrap();
        });
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer x\r\n{headers}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        (client, String::from_utf8(head).unwrap())
    }

    /// A WebSocket that runs a command, which the runtime serves as `exec` says.
    pub(super) async fn command(
        &mut self,
        query: &str,
        streams: StdStreams,
        exec: Exec,
    ) -> WebSocketStream<TcpStream> {
        let headers = format!("{HANDSHAKE}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n");
        let path = format!("/exec/default/web/c?command=x&{query}");
        let (client, head) = self.connect("GET", &path, &headers).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("sec-websocket-protocol: v5.channel.k8s.io\r\n"), "{head}");
        let (connection, _) = self.streaming.accept().await.unwrap();
        self.tasks.spawn(async move { serve(connection, streams, &exec).await });
        WebSocketStream::from_raw_socket(client, Role::Client, None).await
    }
}

async fn run_pod(fake: &FakeRuntime, containers: &[&str]) {
    let labels = |container: &str| {
        let all = [
            (POD_NAME_LABEL, "web"),
            (POD_NAMESPACE_LABEL, "default"),
            (POD_UID_LABEL, "uid-1"),
            (CONTAINER_NAME_LABEL, container),
        ];
        all.map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let sandbox_config = PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            uid: "uid-1".to_owned(),
            attempt: 0,
        }),
        labels: labels("").into_iter().take(3).collect(),
        ..PodSandboxConfig::default()
    };
    let sandbox = fake.run_sandbox(sandbox_config.clone(), "").await.unwrap();
    for name in containers {
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: (*name).to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: "docker.io/library/img:1".to_owned(), ..ImageSpec::default() }),
            labels: labels(name).into(),
            ..ContainerConfig::default()
        };
        let container = fake.create_container(&sandbox, config, sandbox_config.clone()).await.unwrap();
        fake.start_container(&container).await.unwrap();
    }
}

pub(super) fn exec(stdout: &str, stderr: &str, exit_code: i32) -> Exec {
    let output = ExecOutput { stdout: stdout.into(), stderr: stderr.into(), exit_code };
    Exec { takes: Duration::ZERO, output }
}

/// The bytes of each channel until the socket is closed.
pub(super) async fn channels(socket: &mut WebSocketStream<TcpStream>) -> [Vec<u8>; 4] {
    let mut channels: [Vec<u8>; 4] = Default::default();
    loop {
        match timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Binary(bytes) => channels[usize::from(bytes[0])].extend(&bytes[1..]),
            Message::Close(frame) => {
                assert_eq!(u16::from(frame.unwrap().code), 1000);
                return channels;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn requests_that_cannot_be_served_fail_as_upstream() {
    let bench = Bench::new().await;
    for (method, path, headers, status, text) in [
        ("POST", "/exec/default/web/c", "", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("POST", "/exec/default/web/c?output=true", "", 400, "you must specify at least 1 of"),
        ("POST", "/exec/default/other/c?output=1", "", 404, "pod does not exist"),
        ("POST", "/exec/other/web/c?output=1", "", 404, "pod does not exist"),
        ("GET", "/exec/default/web/late?output=1", "", 500, r#"container not found ("late")"#),
        ("GET", "/exec/default/web/any-uid/nope?output=1", "", 500, r#"container not found ("nope")"#),
        ("POST", "/exec/default/web/c?output=1", "", 500, "Upgrade request required"),
        ("POST", "/attach/default/web/c?tty=1", "", 400, "you must specify at least 1 of"),
        ("POST", "/attach/default/web/late?output=1", "", 500, "container late not found in pod web_default"),
        ("POST", "/attach/default/web/uid-2/c?output=1", "", 500, "pod web_default not found"),
        ("POST", "/attach/default/web/uid-1/c?output=1", "", 500, "Upgrade request required"),
        ("POST", "/portForward/default/other", "", 404, "pod does not exist"),
        ("POST", "/portForward/default/web/uid-2", "", 404, "pod not found"),
        ("POST", "/portForward/default/web", "", 500, "Upgrade request required"),
        ("GET", "/portForward/default/web", HANDSHAKE, 400, r#"query parameter "port" is required"#),
        ("GET", "/portForward/default/web?port=0", HANDSHAKE, 400, r#"port "0" must be > 0"#),
        ("POST", "/run/default/other/c?cmd=ls", "", 404, "pod does not exist"),
        ("POST", "/run/default/web/late?cmd=ls", "", 500, r#"container not found ("late")"#),
        ("GET", "/run/default/web/c?cmd=ls", "", 405, ""),
        ("PUT", "/exec/default/web/c?output=1", "", 405, ""),
    ] {
        let (found, said) = bench.ask(method, path, headers).await;
        assert_eq!(found, status, "{method} {path}: {said}");
        assert!(said.starts_with(text), "{method} {path}: {said}");
    }
    for (failure, status, text) in [
        (Failure::NotFound, 404, "rpc error: code = NotFound desc = not found"),
        (Failure::Failed("no".to_owned()), 500, "rpc error: code = Unknown desc = no"),
        (
            Failure::Failed("maximum number of in-flight requests exceeded".to_owned()),
            429,
            "rpc error: code = ResourceExhausted desc = maximum number of in-flight requests exceeded",
        ),
    ] {
        let fault = Fault::Fail { after: Duration::ZERO, failure };
        bench.fake.faults().add(Rule::new(Operation::Exec, fault).times(1));
        let (found, said) = bench.ask("POST", "/exec/default/web/c?output=1", SPDY).await;
        assert_eq!((found.as_u16(), said.as_str()), (status, text));
    }
    bench.fake.serve_streams_at("https://127.0.0.1:1");
    let (found, said) = bench.ask("POST", "/exec/default/web/c?output=1", SPDY).await;
    assert!(found == 500 && said.contains("enable_tls_streaming"), "{said}");
}

#[tokio::test]
async fn a_websocket_of_version_5_is_translated_for_the_runtime() {
    let mut bench = Bench::new().await;
    let streams = StdStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let mut socket = bench.command("input=1&output=1&error=1", streams, exec("out", "err", 7)).await;
    for message in [&b"\x00one "[..], b"\x00two ", b"\xff\x00"] {
        socket.send(Message::Binary(message.into())).await.unwrap();
    }
    let [stdin, stdout, stderr, status] = channels(&mut socket).await;
    assert_eq!((stdin, stdout, stderr), (Vec::new(), b"one two out".to_vec(), b"err".to_vec()));
    let status: Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "7"}]));
    assert_eq!((&status["status"], &status["reason"]), (&json!("Failure"), &json!("NonZeroExitCode")));

    let streams = StdStreams { stderr: false, tty: true, ..streams };
    let mut socket = bench.command("input=1&output=1&error=1&tty=1", streams, exec("", "", 0)).await;
    for message in [&b"\x04{\"Width\":80,\"Height\":24}"[..], b"\xff\x00"] {
        socket.send(Message::Binary(message.into())).await.unwrap();
    }
    let [_, stdout, _, status] = channels(&mut socket).await;
    assert_eq!(stdout, br#"{"Width":80,"Height":24}"#);
    assert_eq!(serde_json::from_slice::<Value>(&status).unwrap()["status"], "Success");
    let metrics = bench.metrics.encode();
    let count = "kubelet_websocket_streaming_requests_total{subresource=\"exec\"} 2";
    assert!(metrics.contains(count), "{metrics}");
}

#[tokio::test]
async fn a_runtime_that_refuses_a_websockets_command_is_reported_on_its_status_channel() {
    let mut bench = Bench::new().await;
    let headers = format!("{HANDSHAKE}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n");
    let (client, _) = bench.connect("GET", "/exec/default/web/c?output=1", &headers).await;
    let (mut connection, _) = bench.streaming.accept().await.unwrap();
    answer(&mut connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone").await;
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    let [_, _, _, status] = channels(&mut socket).await;
    let status: Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["message"], "Internal error occurred: unable to upgrade connection: gone");
    assert_eq!(status["code"], 500);
}

#[tokio::test]
async fn the_session_of_a_client_that_leaves_ends() {
    let mut bench = Bench::new().await;
    let streams = StdStreams { stdin: true, stdout: true, ..StdStreams::default() };
    let mut socket = bench.command("input=1&output=1", streams, exec("", "", 0)).await;
    // The first message says that the session is there.
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Binary(b"\x01"[..].into()));
    drop(socket);
    // Connection and session of the client, and the runtime's.
    for _ in 0..2 {
        timeout(PATIENCE, bench.tasks.join_next()).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn other_clients_are_connected_to_the_runtime_as_they_are() {
    // Also a frame of SPDY.
    const HELLO: &str = "\0\0\0\u{1}\0\0\0\u{5}hello";
    let mut bench = Bench::new().await;
    let v4 = format!("{HANDSHAKE}Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n");
    let browser = format!("{v4}Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.Z29vZA\r\n");
    for (method, path, headers) in [
        ("POST", "/exec/default/web/c?command=ls&output=1", SPDY),
        ("POST", "/attach/default/web/uid-1/tty?output=1", SPDY),
        ("POST", "/portForward/default/web", SPDY),
        ("GET", "/exec/default/web/c?output=1", &v4),
        ("GET", "/exec/default/web/c?output=1", &browser),
        ("GET", "/portForward/default/web?port=80,81", HANDSHAKE),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        bench.fake.serve_streams_at(&format!("http://{}", listener.local_addr().unwrap()));
        let serving = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let head = answer(&mut connection, &format!("{AGREED}{HELLO}")).await;
            let mut bytes = [0; 5];
            connection.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"bytes");
            head.to_lowercase()
        };
        let asking = async {
            let (mut client, head) = bench.connect(method, path, headers).await;
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
            client.write_all(b"bytes").await.unwrap();
            let mut text = String::new();
            timeout(PATIENCE, client.read_to_string(&mut text)).await.unwrap().unwrap();
            assert_eq!(text, HELLO);
        };
        let (head, ()) = tokio::join!(serving, asking);
        let of = path.split('/').nth(1).unwrap().to_lowercase();
        assert!(head.starts_with(&format!("{} /{of}/", method.to_lowercase())), "{head}");
        let passed_on = |line: &&str| !line.starts_with("connection") && !line.contains("bearer");
        for line in headers.to_lowercase().lines().filter(passed_on) {
            assert!(head.contains(line), "{line} in {head}");
        }
        assert!(!head.contains("bearer"), "{head}");
    }
}

#[tokio::test]
async fn an_error_of_the_runtimes_server_is_passed_on() {
    let mut bench = Bench::new().await;
    for (path, headers) in [
        ("/exec/default/web/c?output=1", SPDY.to_owned()),
        (
            "/portForward/default/web",
            format!("{HANDSHAKE}Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n"),
        ),
    ] {
        let streaming = &bench.streaming;
        let serving = async {
            let (mut connection, _) = streaming.accept().await.unwrap();
            let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno";
            answer(&mut connection, refusal).await;
        };
        let (answered, ()) = tokio::join!(bench.ask("GET", path, &headers), serving);
        assert_eq!(answered, (StatusCode::FORBIDDEN, "no".to_owned()));
    }
    bench.fake.serve_streams_at("http://127.0.0.1:1");
    let (status, text) = bench.ask("POST", "/portForward/default/web", SPDY).await;
    assert!(status == 500 && text.starts_with("error dialing backend: "), "{text}");
    bench.tasks.abort_all();
}

#[tokio::test]
async fn a_tunnel_carries_spdy_in_messages() {
    let mut bench = Bench::new().await;
    let headers = format!("{HANDSHAKE}Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    bench.fake.serve_streams_at(&format!("http://{}", listener.local_addr().unwrap()));
    let serving = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let agreed = AGREED.replace("v4.channel.k8s.io", "portforward.k8s.io");
        let head = answer(&mut connection, &agreed).await.to_lowercase();
        assert!(head.starts_with("post /portforward/"), "{head}");
        let lines = ["upgrade: spdy/3.1", "x-stream-protocol-version: portforward.k8s.io"];
        assert!(lines.iter().all(|line| head.contains(line)) && !head.contains("sec-websocket"), "{head}");
        let mut bytes = [0; 8];
        connection.read_exact(&mut bytes).await.unwrap();
        connection.write_all(&bytes).await.unwrap();
        assert_eq!(connection.read(&mut bytes).await.unwrap(), 0);
    };
    let asking = async {
        let (client, head) = bench.connect("GET", "/portForward/default/web", &headers).await;
        assert!(head.contains("sec-websocket-protocol: SPDY/3.1+portforward.k8s.io\r\n"), "{head}");
        let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        for part in [&b"four"[..], b"", b"more"] {
            socket.send(Message::Binary(part.into())).await.unwrap();
        }
        let mut all = Vec::new();
        while all.len() < 8 {
            all.extend(socket.next().await.unwrap().unwrap().into_data());
        }
        assert_eq!(all, b"fourmore");
        socket.close(None).await.unwrap();
    };
    timeout(PATIENCE, async { tokio::join!(serving, asking) }).await.unwrap();
}

#[tokio::test]
async fn a_command_without_streams_answers_with_what_it_printed() {
    let bench = Bench::new().await;
    bench.fake.script_exec(&["ls", "-l"], exec("out", "err", 0));
    bench.fake.script_exec(&["false", ""], exec("", "why", 1));
    bench.fake.script_exec(&["true"], exec("", "", 0));
    let answer = bench.ask("POST", "/run/default/web/c?cmd=ls+-l", "").await;
    assert_eq!(answer, (StatusCode::OK, "outerr".to_owned()));
    let answer = bench.ask("POST", "/run/default/web/uid-1/c?cmd=true", "").await;
    assert_eq!(answer, (StatusCode::OK, String::new()));
    let answer = bench.ask("POST", "/run/default/web/c?cmd=false+", "").await;
    let text = "command 'false ' exited with 1: why".to_owned();
    assert_eq!(answer, (StatusCode::INTERNAL_SERVER_ERROR, text));
    for (failure, text) in [
        (Failure::NotFound, "rpc error: code = NotFound desc = not found"),
        (Failure::Failed("no such program".to_owned()), "rpc error: code = Unknown desc = no such program"),
        (
            Failure::Failed("maximum number of in-flight requests exceeded".to_owned()),
            "rpc error: code = ResourceExhausted desc = maximum number of in-flight requests exceeded",
        ),
    ] {
        let fault = Fault::Fail { after: Duration::ZERO, failure };
        bench.fake.faults().add(Rule::new(Operation::ExecSync, fault).times(1));
        let answer = bench.ask("POST", "/run/default/web/c?cmd=ls", "").await;
        assert_eq!(answer, (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned()));
    }
}
