//! Requests through proxies that a test plays.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_net::http::ProxyEnvironment;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_net::tls::{PrivateKey, certificate_request};
use jiff::Timestamp;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api::kubeconfig::of_one_user;
use crate::api::{ClientOptions, Connections, Credentials, CredentialsSource, Purpose, connect};

/// An address that nothing on a test's machine answers.
const SERVER: &str = "192.0.2.1:8080";

/// A client for the server at [`SERVER`] with this proxy in its kubeconfig, or in its environment.
fn client(dir: &Path, in_kubeconfig: Option<&str>, environment: &str) -> (kube::Client, DropGuard) {
    let proxies = ProxyEnvironment { http: environment.to_owned(), ..ProxyEnvironment::default() };
    client_with(dir, proxies, |text| match in_kubeconfig {
        Some(url) => text.replace("server:", &format!("proxy-url: '{url}', server:")),
        None => text,
    })
}

/// A client for the server at [`SERVER`] with an edited kubeconfig.
fn client_with(
    dir: &Path,
    proxies: ProxyEnvironment,
    edit: impl Fn(String) -> String,
) -> (kube::Client, DropGuard) {
    let kubeconfig = dir.join("kubeconfig");
    std::fs::write(&kubeconfig, edit(of_one_user(&format!("http://{SERVER}"), "{token: t}"))).unwrap();
    let (task, credentials) = Credentials::new(CredentialsSource::new(kubeconfig).with_proxies(proxies));
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(cancel.clone()));
    let connection = ClientOptions {
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
    stream.write_all(version_for(&request).as_bytes()).await.unwrap();
}

/// The server's answer to the request for its version.
fn version_for(request: &str) -> String {
    assert!(request.starts_with("GET /version HTTP/1.1") && request.contains("Bearer t"), "{request}");
    let body = r#"{"major":"1","minor":"37","gitVersion":"v1.37.2","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
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

/// The TLS of a proxy, with a certificate that nobody vouches for.
fn proxy_tls() -> ServerConnection {
    let key = PrivateKey::generate().unwrap();
    let request = certificate_request(&key, "proxy", "tests").unwrap();
    let lifetime = Duration::from_secs(3600);
    let certificate = FakeAuthority::new().issue(&request, Timestamp::now(), lifetime).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(
        vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
        PrivateKeyDer::from_pem_slice(key.pem().as_bytes()).unwrap(),
    );
    ServerConnection::new(Arc::new(config.unwrap())).unwrap()
}

#[tokio::test]
async fn requests_go_through_an_https_proxy_if_its_certificate_is_trusted() {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    for is_trusted in [false, true] {
        let (client, _running) = client_with(dir.path(), ProxyEnvironment::default(), |text| {
            let skip = if is_trusted { "insecure-skip-tls-verify: true, " } else { "" };
            text.replace("server:", &format!("{skip}proxy-url: '{url}', server:"))
        });
        let proxy = async {
            let stream = listener.accept().await.unwrap().0.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            // Blocking: a connection of rustls is synchronous, and the test needs no other.
            tokio::task::spawn_blocking(move || {
                let mut stream = StreamOwned::new(proxy_tls(), stream);
                let mut bytes = vec![0; 4096];
                let length = stream.read(&mut bytes)?;
                let connect = String::from_utf8_lossy(&bytes[..length]).into_owned();
                assert!(connect.starts_with(&format!("CONNECT {SERVER} HTTP/1.1\r\n")), "{connect}");
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                let length = stream.read(&mut bytes)?;
                let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                stream.write_all(version_for(&request).as_bytes())
            })
            .await
            .unwrap()
        };
        let (version, proxied) = tokio::join!(client.apiserver_version(), proxy);
        assert_eq!(proxied.is_ok(), is_trusted, "{proxied:?}");
        match version {
            Ok(version) => assert!(is_trusted && version.git_version == "v1.37.2"),
            Err(error) => {
                let text = crate::api::message(&error);
                assert!(!is_trusted && text.contains("certificate"), "{text}");
            }
        }
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
