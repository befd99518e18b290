//! Connections over real sockets: versions of TLS and HTTP, client certificates, and what strangers cannot do.

use std::time::Duration;

use axum::Extension;
use axum::routing::get;
use futures::stream;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_net::tls::{ClientAuthorities, PrivateKey, ServerTls, Trust, certificate_request, client_config};
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use jiff::Timestamp;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::DropGuard;

use super::super::connection_use::{IDLE, Refused, UNREAD};
use super::*;

/// A certificate with its key, as PEM.
fn identity(authority: &FakeAuthority, name: &str) -> (String, String) {
    let key = PrivateKey::generate().unwrap();
    let request = certificate_request(&key, "operators", name).unwrap();
    let pem = authority.issue(&request, Timestamp::now(), Duration::from_secs(3600)).unwrap();
    (pem, key.pem().to_owned())
}

/// A served port.
struct Served {
    address: SocketAddr,
    tls: watch::Sender<Arc<ServerConfig>>,
    _stop: DropGuard,
}

fn server_config(name: &str) -> Arc<ServerConfig> {
    let (certificate, key) = identity(&FakeAuthority::new(), name);
    let authority = FakeAuthority::new().certificate().unwrap();
    let authorities = ClientAuthorities::from_pem(authority.as_bytes()).unwrap();
    let identity = Some((certificate.as_bytes(), key.as_bytes()));
    Arc::new(ServerTls::default().config(identity, Some(&authorities)).unwrap())
}

/// Serves the number of the client's certificates at `/`, at `/slow` nothing, at `/endless` a body that does not end, at `/quiet` one that
/// does not begin, refuses `/secret`, and takes whoever asks for `/own` for somebody with credentials.
fn serve_app(is_plain: bool) -> Served {
    serve_app_at_most(MOST, is_plain)
}

fn serve_app_at_most(most: usize, is_plain: bool) -> Served {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "port", "set another port").unwrap();
    let address = listener.local_addr().unwrap();
    let tls = watch::Sender::new(server_config("host1"));
    let transport = if is_plain { Transport::Plain } else { Transport::Tls(tls.subscribe()) };
    let count =
        async |Extension(ClientCertificates(all)): Extension<ClientCertificates>| all.len().to_string();
    let part = || Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1 << 16]));
    let endless = async move || Body::from_stream(stream::repeat_with(part));
    let quiet = async || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let secret = async || (StatusCode::UNAUTHORIZED, Extension(Refused), "Unauthorized");
    let own = async |Extension(client): Extension<Client>| client.let_in.set();
    let app = Router::new()
        .route("/", get(count))
        .route("/own", get(own))
        .route("/slow", get(std::future::pending::<()>))
        .route("/endless", get(endless))
        .route("/quiet", get(quiet))
        .route("/secret", get(secret));
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(async move { serve_at_most(most, listener, &transport, app, &cancel).await });
    Served { address, tls, _stop: stop.drop_guard() }
}

impl Served {
    async fn connect(&self, alpn: &[u8], identity: Option<&(String, String)>) -> TlsStream<TcpStream> {
        let identity = identity.map(|(certificate, key)| (certificate.as_bytes(), key.as_bytes()));
        let mut config: ClientConfig = client_config(Trust::Anybody, identity).unwrap();
        config.alpn_protocols = vec![alpn.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect("host1".try_into().unwrap(), stream).await.unwrap()
    }
}

/// What is read until the server closes the connection.
async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn both_versions_of_http_see_the_certificate_of_the_client() {
    let served = serve_app(false);
    let own = identity(&FakeAuthority::new(), "robot");
    for (identity, seen) in [(None, "0"), (Some(&own), "1")] {
        let mut stream = served.connect(b"http/1.1", identity).await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let text = until_closed(&mut stream).await;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with(seen), "{text}");
        assert!(text.contains("\r\ndate: "), "{text}");

        let stream = served.connect(b"h2", identity).await;
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let ask = async {
            let request = Request::get("https://host1/").body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), seen);
        };
        tokio::select! {
            () = ask => {}
            ended = connection => panic!("{ended:?}"),
        }
    }
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let served = serve_app(false);
    let certificate = |stream: &TlsStream<TcpStream>| {
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    };
    let mut first = served.connect(b"http/1.1", None).await;
    served.tls.send_replace(server_config("host1"));
    let second = served.connect(b"http/1.1", None).await;
    assert_ne!(certificate(&first), certificate(&second));
    first.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(until_closed(&mut first).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(start_paused = true)]
async fn who_sends_nothing_is_disconnected() {
    let served = serve_app(false);
    let began = Instant::now();
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    let elapsed = began.elapsed();
    assert!(elapsed >= HANDSHAKE && elapsed < HANDSHAKE * 2, "{elapsed:?}");
}

/// How many connections a small port has.
const ROOM: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks on a connection, and reads the beginning of the answer.
async fn ask(stream: &mut TcpStream, path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("it is answered").unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
}

/// Asks for the last time on a connection that was asked once.
async fn ask_again(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let rest = timeout(PATIENCE, until_closed(stream)).await.expect("it is answered");
    assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 1, "{rest}");
}

#[tokio::test]
async fn strangers_who_fill_the_port_make_room_for_others() {
    let served = serve_app_at_most(ROOM, true);
    let mut friend = TcpStream::connect(served.address).await.unwrap();
    ask(&mut friend, "/own").await;
    let mut strangers = Vec::new();
    for _ in 0..4 * ROOM {
        strangers.push(TcpStream::connect(served.address).await.unwrap());
        strangers.push(TcpStream::connect(served.address).await.unwrap());
        let mut refused = TcpStream::connect(served.address).await.unwrap();
        refused.write_all(b"GET /secret HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        strangers.push(refused);
        let mut answered = TcpStream::connect(served.address).await.unwrap();
        ask(&mut answered, "/").await;
        strangers.push(answered);
    }
    // The friend's connection stayed, the first stranger's did not.
    ask_again(&mut friend).await;
    assert_eq!(timeout(PATIENCE, until_closed(&mut strangers[0])).await.expect("it is closed"), "");
}

/// As on `readOnlyPort`.
#[tokio::test]
async fn without_credentials_who_fills_the_port_closes_only_their_own_connections() {
    let served = serve_app_at_most(ROOM, true);
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(served.address).await.unwrap();
    ask(&mut other, "/").await;
    let mut many = Vec::new();
    for _ in 0..4 * ROOM {
        many.push(TcpStream::connect(served.address).await.unwrap());
        ask(many.last_mut().unwrap(), "/").await;
    }
    ask_again(&mut other).await;
}

#[tokio::test(start_paused = true)]
async fn headers_that_come_slowly_are_not_waited_for() {
    let served = serve_app(true);
    let began = Instant::now();
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
    let closed = async {
        loop {
            sleep(Duration::from_secs(5)).await;
            if slow.write_all(b"x: y\r\n").await.is_err() {
                return;
            }
        }
    };
    timeout(HEADERS * 4, closed).await.unwrap();
    assert!(began.elapsed() >= HEADERS, "{:?}", began.elapsed());
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let served = serve_app(true);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let write = async {
        let _ = writing.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx: ").await;
        // Until the server has enough.
        while writing.write_all(&[b'a'; 1 << 16]).await.is_ok() {}
    };
    let read = async {
        let mut start = vec![0; 12];
        reading.read_exact(&mut start).await.unwrap();
        String::from_utf8(start).unwrap()
    };
    let status = tokio::select! {
        biased;
        status = read => status,
        () = write => panic!("no answer"),
    };
    assert_eq!(status, "HTTP/1.1 431");
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_without_requests_ends_and_one_with_a_request_stays() {
    let served = serve_app(false);
    let handshake = async || {
        let stream = served.connect(b"h2", None).await;
        hyper::client::conn::http2::handshake::<_, _, Empty<Bytes>>(
            TokioExecutor::new(),
            TokioIo::new(stream),
        )
        .await
        .unwrap()
    };
    let (_sender, idle) = handshake().await;
    let began = Instant::now();
    let _ = timeout(IDLE * 3, idle).await.unwrap();
    assert!(began.elapsed() >= IDLE, "{:?}", began.elapsed());

    let (mut sender, busy) = handshake().await;
    let request = Request::get("https://host1/slow").body(Empty::<Bytes>::new()).unwrap();
    let ask = async {
        let _ = sender.send_request(request).await;
    };
    tokio::select! {
        () = ask => panic!("there is no answer"),
        _ = busy => panic!("it stays"),
        () = sleep(IDLE * 4) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_only_refused_is_disconnected() {
    let served = serve_app(false);
    // Asks again and again.
    let stream = served.connect(b"h2", None).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let ask = async {
        loop {
            let request = Request::get("https://host1/secret").body(Empty::<Bytes>::new()).unwrap();
            match sender.send_request(request).await {
                Ok(response) => assert_eq!(response.status(), StatusCode::UNAUTHORIZED),
                Err(_) => return std::future::pending::<()>().await,
            }
            sleep(IDLE / 3).await;
        }
    };
    tokio::select! {
        () = ask => {}
        ended = timeout(IDLE * 3, connection) => assert!(ended.is_ok(), "it is held by asking"),
    }

    // Asks once, and has no room for the answer.
    let stream = served.connect(b"h2", None).await;
    let (sender, connection) =
        h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    let ask = async {
        let request = Request::get("https://host1/secret").body(()).unwrap();
        let (response, _) = sender.ready().await.unwrap().send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = ask => {}
        ended = timeout(IDLE * 3, connection) => assert!(ended.is_ok(), "it is held by not reading"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_disconnected_and_who_waits_is_not() {
    let served = serve_app(true);
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
        stream
    };
    let (mut deaf, mut patient) = (ask("/endless").await, ask("/quiet").await);
    sleep(UNREAD - IDLE).await;
    // There still is what the kernel keeps, and more once there is room.
    deaf.read_exact(&mut vec![0; 1 << 24]).await.unwrap();
    sleep(UNREAD + 2 * IDLE).await;
    timeout(IDLE, until_closed(&mut deaf)).await.expect("it is closed");
    let mut head = [0; 12];
    patient.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    assert!(timeout(IDLE, until_closed(&mut patient)).await.is_err(), "it stays");
}

/// A frame of HTTP/2 (RFC 9113).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The error codes of the frames GOAWAY in a text of frames.
fn goaways(mut text: &[u8]) -> Vec<u32> {
    let mut codes = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = text {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        if *kind == 7 {
            codes.push(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        text = rest;
    }
    codes
}

/// CVE-2023-44487. A client of the library sends no request that it resets at once.
#[tokio::test]
async fn streams_that_are_reset_at_once_end_the_connection() {
    let served = serve_app(false);
    let mut stream = served.connect(b"h2", None).await;
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    flood.extend(frame(4, 0, 0, &[]));
    for number in 0..1_000 {
        let id = 2 * number + 1;
        // `GET https /`, in names of the static table, with the flags END_STREAM and END_HEADERS; then CANCEL.
        flood.extend(frame(1, 5, id, &[0x82, 0x87, 0x84]));
        flood.extend(frame(3, 0, id, &8u32.to_be_bytes()));
    }
    let _ = stream.write_all(&flood).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.unwrap();
    let calm = u32::from(h2::Reason::ENHANCE_YOUR_CALM);
    assert!(goaways(&answer).contains(&calm), "{:?}", goaways(&answer));
}

#[tokio::test]
async fn a_port_in_use_is_reported_with_the_remedy() {
    let taken = bind("0.0.0.0:0".parse().unwrap(), "port", "set another port").unwrap();
    let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), taken.local_addr().unwrap().port());
    let error = bind(address, "port", "set another port").unwrap_err().to_string();
    assert!(
        error.starts_with("port: ")
            && error.contains(&address.to_string())
            && error.ends_with("set another port"),
        "{error}"
    );
    // As with Go, IPv4 and IPv6 both work, where the host has both.
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).await;
    assert!(stream.is_ok(), "{stream:?}");
}
