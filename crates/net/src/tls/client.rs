//! The TLS configuration of a client. kube's own would bring its auth providers along, with a JSONPath interpreter and a regular
//! expression engine: half a megabyte of the program that nothing uses (docs/decisions.md).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls_platform_verifier::BuilderVerifierExt;

use super::TlsError;

/// Whom a client trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// The authorities of the system.
    System,
    /// Certificates of these authorities, in DER.
    Authorities(&'a [Vec<u8>]),
    /// Everybody (`insecure-skip-tls-verify`).
    Anybody,
}

/// The configuration of a client with this identity, if any: its certificates and their key, in PEM. As with client-go, authorities that
/// are no certificates are errors.
pub fn client_config(trust: Trust<'_>, identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder();
    let builder = match trust {
        Trust::System => builder.with_platform_verifier().map_err(TlsError::SystemAuthorities)?,
        Trust::Authorities(authorities) => {
            let mut roots = RootCertStore::empty();
            for der in authorities {
                roots.add(CertificateDer::from_slice(der)).map_err(TlsError::Authority)?;
            }
            builder.with_root_certificates(roots)
        }
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified)),
    };
    let Some((certificates, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(TlsError::Pem)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::NoKey)?;
    builder.with_client_auth_cert(chain, key).map_err(TlsError::Identity)
}

/// Takes every certificate, as Go's `InsecureSkipVerify`, and every signature of a handshake: an impostor could present a certificate of
/// its own key, so the signature proves nothing. Verifying it would only reject servers that Go accepts: webpki reads no certificate of
/// version 1, with an unknown critical extension or with unique identifiers, and ring verifies neither RSA keys of 1024 bits nor P-521.
#[derive(Debug)]
pub(super) struct Unverified;

/// Go's, in its order.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
];

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod unverified_tests;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::super::fake::FakeAuthority;
    use super::super::{PrivateKey, certificate_request};
    use super::*;

    #[test]
    fn an_identity_needs_a_certificate_and_its_key() {
        let key = PrivateKey::generate().unwrap();
        let request = certificate_request(&key, "system:nodes", "system:node:a").unwrap();
        let issued =
            FakeAuthority::new().issue(&request, Timestamp::UNIX_EPOCH, Duration::from_secs(60)).unwrap();
        let (certificate, key) = (issued.as_bytes(), key.pem());
        let other = PrivateKey::generate().unwrap();
        let with = |certificate, key| client_config(Trust::Anybody, Some((certificate, key)));
        assert!(with(certificate, key.as_bytes()).unwrap().client_auth_cert_resolver.has_certs());
        assert!(!client_config(Trust::System, None).unwrap().client_auth_cert_resolver.has_certs());
        assert!(matches!(with(key.as_bytes(), key.as_bytes()), Err(TlsError::NoCertificate)));
        assert!(matches!(with(certificate, certificate), Err(TlsError::NoKey(_))));
        assert!(matches!(with(certificate, other.pem().as_bytes()), Err(TlsError::Identity(_))));
    }

    #[test]
    fn an_authority_has_to_be_a_certificate() {
        let error = client_config(Trust::Authorities(&[b"none".to_vec()]), None).unwrap_err();
        assert!(matches!(error, TlsError::Authority(_)), "{error}");
    }
}
