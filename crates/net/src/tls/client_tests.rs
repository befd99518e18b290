//! Servers whose certificates a client without verification takes, as Go's does. OpenSSL makes their keys and serves them: ring does
//! not know all of these keys.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hostlet_host::testing::skipped;
use jiff::Timestamp;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;
use x509_cert::der::asn1::OctetString;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Any, Decode, Encode, Tag, TagNumber};
use x509_cert::ext::Extension;

use super::super::PrivateKey;
use super::super::issue::{Certified, issue};
use super::super::name::distinguished_name;
use super::Unverified;

/// What is unusual about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oddity {
    /// Nothing but perhaps its key.
    Key,
    Version1,
    /// It has a critical extension that nobody knows.
    UnknownExtension,
    /// It has an identifier of its issuer (RFC 5280, 4.1.2.8).
    UniqueId,
}

/// What OpenSSL prints for these arguments and this input.
fn openssl(arguments: &[&str], input: &str) -> Vec<u8> {
    let mut command = std::process::Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A certificate of the key, as PEM.
fn certificate(key: &str, oddity: Oddity) -> String {
    let name = distinguished_name("tests", "odd").unwrap().to_der().unwrap();
    let now = Timestamp::now();
    let unknown = || Extension {
        extn_id: ObjectIdentifier::new_unwrap("1.3.6.1.4.1.55555.1"),
        critical: true,
        extn_value: OctetString::new(b"\x05\x00".as_slice()).unwrap(),
    };
    let certified = Certified {
        issuer: name.clone(),
        subject: name,
        key: openssl(&["pkey", "-pubout", "-outform", "DER"], key),
        validity: (now, now + Duration::from_secs(3600)),
        extensions: (oddity == Oddity::UnknownExtension).then(unknown).into_iter().collect(),
    };
    let pem = issue(certified, &PrivateKey::generate().unwrap()).unwrap();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut certificate = Vec::<Any>::from_der(&der).unwrap();
    let mut content = certificate[0].decode_as::<Vec<Any>>().unwrap();
    match oddity {
        Oddity::Key | Oddity::UnknownExtension => {}
        Oddity::Version1 => drop(content.remove(0)),
        Oddity::UniqueId => {
            let tag = Tag::ContextSpecific { constructed: false, number: TagNumber(1) };
            content.push(Any::new(tag, b"\x00\x2a".as_slice()).unwrap());
        }
    }
    certificate[0] = Any::encode_from(&content).unwrap();
    encode_string("CERTIFICATE", LineEnding::LF, &certificate.to_der().unwrap()).unwrap()
}

/// Serves the certificate until it is dropped. Returns the address.
async fn serve(directory: &TempDir, key: &str, certificate: &str) -> (Child, String) {
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("key"), key).unwrap();
    std::fs::write(path("certificate"), certificate).unwrap();
    let mut command = Command::new("openssl");
    // Short keys are beyond the default level of security.
    command.args(["s_server", "-www", "-accept", "127.0.0.1:0", "-cipher", "ALL:@SECLEVEL=0"]);
    command.arg("-key").arg(path("key")).arg("-cert").arg(path("certificate"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut server = command.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(address) = line.strip_prefix("ACCEPT ") {
            return (server, address.to_owned());
        }
    }
    let output = server.wait_with_output().await.unwrap();
    panic!("openssl serves nothing: {}", String::from_utf8_lossy(&output.stderr));
}

async fn handshake(
    address: &str,
    version: &'static SupportedProtocolVersion,
) -> std::io::Result<Option<ProtocolVersion>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified));
    let connector = TlsConnector::from(Arc::new(builder.with_no_client_auth()));
    let tcp = TcpStream::connect(address).await?;
    let stream = connector.connect("odd.test".try_into().unwrap(), tcp).await?;
    Ok(stream.get_ref().1.protocol_version())
}

#[tokio::test]
async fn every_certificate_that_go_takes_without_verification_is_taken() {
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        return skipped("needs openssl");
    }
    let rsa = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
    let [p256, p521] = ["P-256", "P-521"].map(|curve| {
        let curve = format!("ec_paramgen_curve:{curve}");
        let key = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", &curve], "");
        String::from_utf8(key).unwrap()
    });
    let rsa = String::from_utf8(openssl(&rsa, "")).unwrap();
    let both: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];
    for (name, key, oddity, versions) in [
        ("version 1", &p256, Oddity::Version1, both),
        ("an unknown critical extension", &p256, Oddity::UnknownExtension, both),
        ("a unique identifier", &p256, Oddity::UniqueId, both),
        ("RSA 1024", &rsa, Oddity::Key, both),
        ("RSA 1024 of version 1", &rsa, Oddity::Version1, both),
        // In TLS 1.2 OpenSSL takes only curves that the client can also exchange keys on, and ring has no P-521.
        ("P-521", &p521, Oddity::Key, &[&TLS13]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (server, address) = serve(&directory, key, &certificate(key, oddity)).await;
        for version in versions {
            let agreed = handshake(&address, version).await;
            let agreed = agreed.unwrap_or_else(|error| panic!("{name}, {version:?}: {error}"));
            assert_eq!(agreed, Some(version.version), "{name}");
        }
        drop(server);
    }
}
