//! Requests through proxies that a test plays.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api::kubeconfig::of_one_user;
use crate::api::{
    Connection, Connections, Credentials, CredentialsSource, ProxyEnvironment, Purpose, connect,
};

/// An address that nothing on a test's machine answers.
const SERVER: &str = "192.0.2.1:8080";

/// A client for the server at [`SERVER`] with this proxy in its kubeconfig, or in its environment.
fn client(dir: &Path, in_kubeconfig: Option<&str>, environment: &str) -> (kube::Client, DropGuard) {
    let kubeconfig = dir.join("kubeconfig");
    let mut text = of_one_user(&format!("http://{SERVER}"), "{token: t}");
    if let Some(url) = in_kubeconfig {
        text = text.replace("server:", &format!("proxy-url: '{url}', server:"));
    }
    std::fs::write(&kubeconfig, text).unwrap();
    let proxies = ProxyEnvironment { http: environment.to_owned(), ..ProxyEnvironment::default() };
    let (task, credentials) = Credentials::new(CredentialsSource::new(kubeconfig).with_proxies(proxies));
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    let connection = Connection {
        user_agent: "test".to_owned(),
        limit: None,
        purpose: Purpose::Pods,
        connections: Connections::default(),
    };
    (connect(&connection, credentials).unwrap(), cancel.drop_guard())
}

async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Answers the request that comes through the tunnel.
async fn serve(stream: &mut TcpStream) {
    let request = read(stream).await;
    assert!(request.starts_with("GET /version HTTP/1.1") && request.contains("Bearer t"), "{request}");
    let body = r#"{"major":"1","minor":"37","gitVersion":"v1.37.2","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn requests_go_through_an_http_proxy() {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let of_kubeconfig = format!("http://user:pass@{address}");
    let of_environment = address.to_string();
    for (in_kubeconfig, environment) in
        [(Some(of_kubeconfig.as_str()), "http://192.0.2.2:1"), (None, of_environment.as_str())]
    {
        let (client, _running) = client(dir.path(), in_kubeconfig, environment);
        let proxy = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read(&mut stream).await;
            assert!(request.starts_with(&format!("CONNECT {SERVER} HTTP/1.1\r\n")), "{request}");
            let has_credentials = request.contains("Basic dXNlcjpwYXNz");
            assert_eq!(has_credentials, in_kubeconfig.is_some(), "{request}");
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            serve(&mut stream).await;
        };
        let (version, ()) = tokio::join!(client.apiserver_version(), proxy);
        assert_eq!(version.unwrap().git_version, "v1.37.2");
    }
}

#[tokio::test]
async fn requests_go_through_a_socks5_proxy() {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("socks5://{}", listener.local_addr().unwrap());
    let (client, _running) = client(dir.path(), Some(&url), "");
    let proxy = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // RFC 1928: no authentication, then CONNECT to an IPv4 address.
        let mut hello = [0; 3];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(hello, [5, 1, 0]);
        stream.write_all(&[5, 0]).await.unwrap();
        let mut request = [0; 10];
        stream.read_exact(&mut request).await.unwrap();
        assert_eq!(request, [5, 1, 0, 1, 192, 0, 2, 1, 0x1f, 0x90]);
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        serve(&mut stream).await;
    };
    let (version, ()) = tokio::join!(client.apiserver_version(), proxy);
    assert_eq!(version.unwrap().git_version, "v1.37.2");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, _running) = client(dir.path(), Some(&format!("http://user:secret@{address}")), "");
    let proxy = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.unwrap();
    };
    let (version, ()) = tokio::join!(client.apiserver_version(), proxy);
    let error = crate::api::message(&version.unwrap_err());
    assert!(error.contains(&format!("the proxy http://{address} makes no connection")), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
