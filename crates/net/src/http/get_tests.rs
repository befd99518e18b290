//! The client against scripted servers on the loopback interface.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hostlet_base::{HttpScheme, HttpUrl};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use super::testing::{Server, Then, converse};
use super::{HttpAnswer, HttpClient, HttpError, HttpProtocol, HttpRequest};
use crate::tls::{PrivateKey, certificate_request};

const LONG: Duration = Duration::from_secs(30);

fn request(port: u16, path: &str) -> HttpRequest {
    HttpRequest {
        pod: "uid-1".into(),
        url: HttpUrl::new(HttpScheme::Http, "127.0.0.1", port, path),
        headers: Vec::new(),
        user_agent: "kube-probe/1.37".to_owned(),
        protocol: HttpProtocol::Http1,
        is_anonymous: false,
        timeout: LONG,
    }
}

async fn get(request: &HttpRequest) -> Result<HttpAnswer, HttpError> {
    HttpClient::default().get(request).await
}

fn answered(status: u16, body: &str) -> Result<HttpAnswer, HttpError> {
    Ok(HttpAnswer { status, body: body.as_bytes().to_vec() })
}

fn exchange_error(url: &str, text: &str) -> Result<HttpAnswer, HttpError> {
    Err(HttpError::Exchange(format!("Get \"{url}\": {text}")))
}

#[tokio::test]
async fn a_request_is_the_stock_kubelets() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let mut asked = request(server.port, "/healthz?verbose");
    assert_eq!(get(&asked).await, answered(200, "ok"));
    asked.headers = vec![("x-trace".into(), "1".into()), ("Authorization".into(), "Bearer x".into())];
    asked.is_anonymous = true;
    assert_eq!(get(&asked).await, answered(200, "ok"));
    let port = server.port;
    assert_eq!(
        server.requests(),
        [
            format!(
                "GET /healthz?verbose HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: kube-probe/1.37\r\nAccept: */*\r\n\
                 Connection: close\r\n\r\n"
            ),
            format!(
                "GET /healthz?verbose HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: kube-probe/1.37\r\nAccept: */*\r\n\
                 X-Trace: 1\r\nConnection: close\r\n\r\n"
            )
        ]
    );
}

#[tokio::test]
async fn bodies_of_every_kind_are_read_up_to_their_limit() {
    for (answer, status, length) in [
        ("HTTP/1.0 200 OK\r\n\r\nto the end".to_owned(), 200, 10),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned(), 200, 3),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_owned(), 204, 0),
        (format!("HTTP/1.1 500 Oops\r\n\r\n{}", "x".repeat(20_000)), 500, 10 << 10),
        (
            format!("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n{}", "x".repeat(20_000)),
            200,
            10 << 10,
        ),
        ("HTTP/1.1 302 Found\r\nContent-Length: 1\r\n\r\nx".to_owned(), 302, 1),
        ("HTTP/1.1 304 Not Modified\r\nLocation: /x\r\n\r\n".to_owned(), 304, 0),
    ] {
        let server = Server::saying(&answer).await;
        let got = get(&request(server.port, "/")).await.unwrap();
        assert_eq!((got.status, got.body.len()), (status, length), "{answer:.60}");
    }
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let to = |location: &str| format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\nmoved").into_bytes();
    let done = b"HTTP/1.1 200 OK\r\n\r\ndone".to_vec();
    let server = Server::answering(vec![to("/next?a=b"), to("other"), done.clone()], Then::Close).await;
    let mut asked = request(server.port, "/dir/first");
    asked.headers = vec![("Host".into(), "example.org".into())];
    assert_eq!(get(&asked).await, answered(200, "done"));
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().filter_map(|request| request.lines().next()).collect();
    assert_eq!(lines, ["GET /dir/first HTTP/1.1", "GET /next?a=b HTTP/1.1", "GET /other HTTP/1.1"]);
    let referer = format!("Referer: http://127.0.0.1:{}/dir/first\r\n", server.port);
    assert!(requests[1].contains(&referer) && requests[2].contains("Host: example.org\r\n"), "{requests:?}");

    // Another port of the host is fine, and does not keep the given host.
    let target = Server::saying("HTTP/1.1 200 OK\r\n\r\ndone").await;
    let location = format!("http://127.0.0.1:{}/x", target.port);
    let server = Server::answering(vec![to(&location)], Then::Close).await;
    let asked =
        HttpRequest { headers: vec![("Host".into(), "example.org".into())], ..request(server.port, "/") };
    assert_eq!(get(&asked).await, answered(200, "done"));
    assert!(target.requests()[0].contains(&format!("Host: 127.0.0.1:{}\r\n", target.port)));

    let server = Server::answering(vec![to("http://elsewhere.invalid/")], Then::Close).await;
    assert_eq!(get(&request(server.port, "/")).await, answered(302, "moved"));

    let server = Server::answering(vec![to("/again")], Then::Close).await;
    assert_eq!(get(&request(server.port, "/")).await, exchange_error("/again", "stopped after 10 redirects"));
    assert_eq!(server.requests().len(), 10);

    let server = Server::answering(vec![to("ftp://127.0.0.1/")], Then::Close).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    assert_eq!(
        get(&request(server.port, "/")).await,
        exchange_error(&url, "unsupported protocol scheme \"ftp\"")
    );
}

#[tokio::test]
async fn errors_are_those_of_go() {
    let error = async |answer: &str| {
        let server = Server::saying(answer).await;
        let text = get(&request(server.port, "/x")).await.unwrap_err().to_string();
        text.replace(&format!("http://127.0.0.1:{}/x", server.port), "URL")
    };
    assert_eq!(error("").await, "Get \"URL\": EOF");
    let broken = "net/http: HTTP/1.x transport connection broken:";
    let garbage = format!("Get \"URL\": {broken} malformed HTTP response \"\\x00\\x00\\x06\\x04\"");
    assert_eq!(error("\0\0\u{6}\u{4}").await, garbage);
    assert_eq!(
        error("SSH-2.0-x\r\n").await,
        format!("Get \"URL\": {broken} malformed HTTP response \"SSH-2.0-x\"")
    );
    assert_eq!(error("HTTP/1.1 200 OK\r\nA: b\r\n").await, format!("Get \"URL\": {broken} unexpected EOF"));
    assert_eq!(error("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab").await, "unexpected EOF");
    let huge = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(3_000_000));
    assert!(error(&huge).await.contains("server response headers exceeded"));

    let port = Server::saying("").await.port;
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let url = format!("http://127.0.0.1:{port}/");
    // The port is free once the server's task has ended.
    let closed = async { while get(&request(port, "/")).await != exchange_error(&url, &refused) {} };
    tokio::time::timeout(LONG, closed).await.unwrap();

    let invalid = HttpRequest { headers: vec![("A".into(), "\n".into())], ..request(port, "/") };
    assert!(matches!(get(&invalid).await, Err(HttpError::Request(_))));
}

#[tokio::test]
async fn a_reset_connection_names_both_ends() {
    let server = Server::handling(|connection| async move {
        #[allow(deprecated, reason = "a zero linger does not block: it resets the connection")]
        connection.set_linger(Some(Duration::ZERO)).unwrap();
        connection.readable().await.unwrap();
    })
    .await;
    let text = get(&request(server.port, "/")).await.unwrap_err().to_string();
    let end = format!("->127.0.0.1:{}: read: connection reset by peer", server.port);
    assert!(text.contains("read tcp 127.0.0.1:") && text.ends_with(&end), "{text}");
}

#[tokio::test]
async fn the_time_limit_covers_all_of_it() {
    let short = Duration::from_millis(100);
    let silent = Server::answering(vec![Vec::new()], Then::Hang).await;
    let asked = HttpRequest { timeout: short, ..request(silent.port, "/") };
    let url = asked.url.to_string();
    let text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(get(&asked).await, exchange_error(&url, text));
    let slow =
        Server::answering(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab".to_vec()], Then::Hang).await;
    let asked = HttpRequest { timeout: short, ..request(slow.port, "/") };
    let text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    assert_eq!(get(&asked).await, Err(HttpError::Body(text.to_owned())));
    // The answer is complete, whether or not the server closes the connection.
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab".to_vec();
    let server = Server::answering(vec![whole], Then::Hang).await;
    assert_eq!(get(&request(server.port, "/")).await, answered(200, "ab"));
}

/// A server with a certificate that nobody signed for it.
async fn tls_server(protocols: &[&[u8]]) -> Server {
    let key = PrivateKey::generate().unwrap();
    let request = certificate_request(&key, "nobody", "nobody").unwrap();
    let issued = crate::tls::fake::FakeAuthority::new()
        .issue(&request, jiff::Timestamp::UNIX_EPOCH, Duration::from_secs(60))
        .unwrap();
    let chain = rustls_pki_types::pem::PemObject::pem_slice_iter(issued.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    let key = rustls_pki_types::pem::PemObject::from_pem_slice(key.pem().as_bytes()).unwrap();
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::handling(move |connection| {
        let acceptor = acceptor.clone();
        async move {
            let connection = acceptor.accept(connection).await.unwrap();
            if connection.get_ref().1.alpn_protocol() == Some(b"h2") {
                http2_server(connection).await;
            } else {
                let answer = b"HTTP/1.1 200 OK\r\n\r\ntls".to_vec();
                converse(connection, answer, Then::Close, Arc::default()).await;
            }
        }
    })
    .await
}

/// Answers each request with its own first lines.
async fn http2_server(connection: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let Ok(mut connection) = h2::server::handshake(connection).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let agent = request.headers().get("user-agent").map(|value| value.to_str().unwrap().to_owned());
        let has_connection = request.headers().contains_key("connection");
        let text = format!("{} {} {agent:?} {has_connection}", request.method(), request.uri().path());
        let status = if request.uri().path() == "/bad" { 503 } else { 200 };
        let head = http::Response::builder().status(status).body(()).unwrap();
        let mut body = respond.send_response(head, false).unwrap();
        body.send_data(Bytes::from(text), true).unwrap();
    }
}

#[tokio::test]
async fn tls_is_not_verified_and_negotiates_http2() {
    let over_tls = |server: &Server, path: &str| {
        let url = HttpUrl::new(HttpScheme::Https, "127.0.0.1", server.port, path);
        HttpRequest { url, ..request(server.port, "/") }
    };
    let server = tls_server(&[b"http/1.1"]).await;
    assert_eq!(get(&over_tls(&server, "/")).await, answered(200, "tls"));
    let server = tls_server(&[b"h2", b"http/1.1"]).await;
    let said = "GET /x Some(\"kube-probe/1.37\") false";
    assert_eq!(get(&over_tls(&server, "/x")).await, answered(200, said));

    let plain = Server::handling(|mut connection| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        connection.read_u8().await.unwrap();
        connection.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await.unwrap();
        connection.shutdown().await.unwrap();
    })
    .await;
    let asked = over_tls(&plain, "/");
    let url = asked.url.to_string();
    let text = format!("Get \"{url}\": http: server gave HTTP response to HTTPS client");
    assert_eq!(get(&asked).await, Err(HttpError::NoTls(text)));
}

#[tokio::test]
async fn http2_is_spoken_without_tls_on_request() {
    let server = Server::handling(http2_server).await;
    let asked = |path: &str| HttpRequest { protocol: HttpProtocol::Http2, ..request(server.port, path) };
    let said = "GET /x Some(\"kube-probe/1.37\") false";
    assert_eq!(get(&asked("/x")).await, answered(200, said));
    assert_eq!(get(&asked("/bad")).await.unwrap().status, 503);
    // A server of HTTP/1.1 is no such server.
    let server = Server::saying("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let asked = HttpRequest { protocol: HttpProtocol::Http2, ..request(server.port, "/") };
    assert!(matches!(get(&asked).await, Err(HttpError::Exchange(_))));
}
