//! Handshakes with and without certificates, on the loopback interface.

use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::client::Unverified;
use super::super::fake::FakeAuthority;
use super::super::{PrivateKey, Trust, certificate_request, client_config};
use super::*;

/// A certificate of the authority for this name, and its key.
fn identity(authority: &FakeAuthority, name: &str) -> (String, String) {
    let key = PrivateKey::generate().unwrap();
    let request = certificate_request(&key, "system:masters", name).unwrap();
    let pem = authority.issue(&request, Timestamp::now(), Duration::from_secs(3600)).unwrap();
    (pem, key.pem().to_string())
}

/// Makes a handshake and exchanges a byte. Returns the client's certificates as the server sees them, and the version.
async fn handshake(
    server: ServerConfig,
    client: rustls::ClientConfig,
) -> Result<(Vec<CertificateDer<'static>>, ProtocolVersion), String> {
    let (near, far) = tokio::io::duplex(1 << 14);
    let accept = async {
        let mut stream = TlsAcceptor::from(Arc::new(server)).accept(far).await?;
        stream.write_all(b"x").await?;
        stream.shutdown().await?;
        let (_, connection) = stream.get_ref();
        let certificates = connection.peer_certificates().unwrap_or_default();
        Ok::<_, std::io::Error>((certificates.to_vec(), connection.protocol_version().unwrap()))
    };
    let connect = async {
        let connector = TlsConnector::from(Arc::new(client));
        let mut stream = connector.connect("host1".try_into().unwrap(), near).await?;
        stream.read_exact(&mut [0]).await
    };
    let (accepted, connected) = tokio::join!(accept, connect);
    connected.map_err(|error| error.to_string())?;
    accepted.map_err(|error| error.to_string())
}

fn client(identity: Option<&(String, String)>) -> rustls::ClientConfig {
    let identity = identity.map(|(certificate, key)| (certificate.as_bytes(), key.as_bytes()));
    client_config(Trust::Anybody, identity).unwrap()
}

#[tokio::test]
async fn clients_of_any_authority_connect_and_are_told_apart_afterwards() {
    let (authority, other) = (FakeAuthority::new(), FakeAuthority::new());
    let authorities = ClientAuthorities::from_pem(authority.certificate().unwrap().as_bytes()).unwrap();
    let (certificate, key) = identity(&authority, "host1");
    let config = || {
        let identity = Some((certificate.as_bytes(), key.as_bytes()));
        ServerTls::default().config(identity, Some(&authorities)).unwrap()
    };
    let admin = Subject {
        common_name: "admin".to_owned(),
        uid: String::new(),
        organizations: vec!["system:masters".to_owned()],
    };
    let (seen, version) = handshake(config(), client(Some(&identity(&authority, "admin")))).await.unwrap();
    assert_eq!(
        (authorities.verify(&seen[0], &seen[1..]).unwrap(), version),
        (admin, ProtocolVersion::TLSv1_3)
    );
    let (seen, _) = handshake(config(), client(Some(&identity(&other, "admin")))).await.unwrap();
    let refused = authorities.verify(&seen[0], &[]).unwrap_err();
    assert!(matches!(refused, TlsError::Client(_)), "{refused}");
    assert_eq!(handshake(config(), client(None)).await.unwrap().0, []);
}

#[tokio::test]
async fn without_a_certificate_no_handshake_succeeds() {
    let config = ServerTls::default().config(None, None).unwrap();
    handshake(config, client(None)).await.unwrap_err();
}

#[tokio::test]
async fn restrictions_are_kept() {
    let authority = FakeAuthority::new();
    let (certificate, key) = identity(&authority, "host1");
    let identity = Some((certificate.as_bytes(), key.as_bytes()));
    let old_client = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&TLS12]).unwrap().dangerous();
        builder.with_custom_certificate_verifier(Arc::new(Unverified)).with_no_client_auth()
    };
    let with = |tls: &ServerTls| tls.config(identity, None).unwrap();
    let (_, version) = handshake(with(&ServerTls::default()), old_client()).await.unwrap();
    assert_eq!(version, ProtocolVersion::TLSv1_2);
    let newest = ServerTls { oldest: TlsVersion::V13, ..ServerTls::default() };
    handshake(with(&newest), old_client()).await.unwrap_err();
    for (suite, is_enough) in [
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", true),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", true),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", false),
    ] {
        let tls = ServerTls { cipher_suites: vec![suite.to_owned()], ..ServerTls::default() };
        assert_eq!(handshake(with(&tls), old_client()).await.is_ok(), is_enough, "{suite}");
    }
    let tls = ServerTls { groups: vec![4_711], ..ServerTls::default() };
    assert!(matches!(tls.config(identity, None), Err(TlsError::Restricted(_))));
    let tls = ServerTls { groups: vec![29], ..ServerTls::default() };
    handshake(with(&tls), client(None)).await.unwrap();
}
