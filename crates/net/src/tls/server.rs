//! The TLS configuration of the node's API, and the verification of its clients. As upstream, a handshake asks for a client certificate and
//! takes any: whether it is accepted is part of the answer to a request, which may have other credentials.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ProtocolVersion, RootCertStore, ServerConfig,
    SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::Any;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{BmpString, Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::name::Name;

use super::TlsError;
use super::name::{COMMON_NAME, ORGANIZATION, USER_ID};

/// The oldest permitted version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// Clients may use TLS 1.2 or 1.3.
    #[default]
    V12,
    /// Clients must use TLS 1.3.
    V13,
}

/// What a server agrees to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTls {
    /// Clients with an older version are rejected.
    pub oldest: TlsVersion,
    /// The permitted cipher suites of TLS 1.2, by Go's names; empty for all. The suites of TLS 1.3 are always permitted.
    pub cipher_suites: Vec<String>,
    /// The permitted groups for the key exchange, by number (IANA, "TLS Supported Groups"); empty for all.
    pub groups: Vec<u16>,
}

impl ServerTls {
    /// The permitted cipher suites that hostlet does not support.
    pub fn unsupported_suites(&self) -> Vec<&str> {
        let known = rustls::crypto::ring::default_provider().cipher_suites;
        let is_unknown = |name: &&String| !known.iter().any(|suite| is_called(suite, name));
        self.cipher_suites.iter().filter(is_unknown).map(String::as_str).collect()
    }

    /// The configuration of a server with this identity: its certificates and their key, in PEM. Without one every handshake fails.
    /// Clients learn the names of the authorities.
    ///
    /// # Errors
    /// Certificate and key cannot be used, or the restrictions leave nothing.
    pub fn config(
        &self,
        identity: Option<(&[u8], &[u8])>,
        authorities: Option<&ClientAuthorities>,
    ) -> Result<ServerConfig, TlsError> {
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites.retain(|suite| {
            suite.version().version == ProtocolVersion::TLSv1_3
                || self.cipher_suites.is_empty()
                || self.cipher_suites.iter().any(|permitted| is_called(suite, permitted))
        });
        provider
            .kx_groups
            .retain(|group| self.groups.is_empty() || self.groups.contains(&u16::from(group.name())));
        if provider.kx_groups.is_empty() {
            return Err(TlsError::Restricted("group for the key exchange"));
        }
        let identity = identity.map(|identity| certified_key(identity, &provider)).transpose()?;
        let provider = Arc::new(provider);
        let versions: &[&SupportedProtocolVersion] = match self.oldest {
            TlsVersion::V12 => &[&TLS13, &TLS12],
            TlsVersion::V13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder =
            builder.with_protocol_versions(versions).map_err(|_| TlsError::Restricted("cipher suite"))?;
        let names = authorities.map_or_else(Vec::new, |authorities| authorities.names.clone());
        let mut config = builder
            .with_client_cert_verifier(Arc::new(AnyClient { names, provider }))
            .with_cert_resolver(Arc::new(Identity(identity)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Whether Go has this name for the suite. It has two for some: with and without the hash.
fn is_called(suite: &SupportedCipherSuite, go: &str) -> bool {
    suite.suite().as_str().is_some_and(|name| {
        let name = name.strip_prefix("TLS13_").map_or_else(|| name.to_owned(), |rest| format!("TLS_{rest}"));
        go == name || name.strip_suffix("_SHA256") == Some(go)
    })
}

fn certified_key(
    (certificates, key): (&[u8], &[u8]),
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(TlsError::Pem)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::NoKey)?;
    CertifiedKey::from_der(chain, key, provider).map(Arc::new).map_err(TlsError::Identity)
}

/// The same certificate for every client.
#[derive(Debug)]
struct Identity(Option<Arc<CertifiedKey>>);

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }
}

/// Takes every certificate, but checks that the client has its key.
#[derive(Debug)]
struct AnyClient {
    names: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The authorities whose client certificates are accepted.
#[derive(Debug)]
pub struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<DistinguishedName>,
}

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its common name; empty without one.
    pub common_name: String,
    /// The UID of the user; empty without one.
    pub uid: String,
    /// The user's groups, as Kubernetes reads them from organizations.
    pub organizations: Vec<String>,
}

impl ClientAuthorities {
    /// The authorities of a PEM text.
    ///
    /// # Errors
    /// It has no certificate, or one that is unusable.
    pub fn from_pem(text: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for der in CertificateDer::pem_slice_iter(text) {
            roots.add(der.map_err(TlsError::Pem)?).map_err(TlsError::Authority)?;
        }
        if roots.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let names = roots.subjects();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { verifier: verifier.map_err(TlsError::Authorities)?, names })
    }

    /// Whom the certificate is for, if it is valid now.
    ///
    /// # Errors
    /// It is of other authorities, expired, not for clients, or has no readable subject.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<Subject, TlsError> {
        let verified = self.verifier.verify_client_cert(certificate, intermediates, UnixTime::now());
        verified.map_err(TlsError::Client)?;
        let certificate = Certificate::from_der(certificate).map_err(TlsError::Decode)?;
        Subject::of(certificate.tbs_certificate().subject())
    }
}

impl Subject {
    /// The subject with this name. Of several common names the last one counts, as in Go; a UID is unique, as upstream.
    fn of(name: &Name) -> Result<Self, TlsError> {
        let mut subject = Self { common_name: String::new(), uid: String::new(), organizations: Vec::new() };
        for attribute in name.iter() {
            let text = || text(&attribute.value).ok_or(TlsError::Subject("a part that is no text"));
            match attribute.oid {
                COMMON_NAME => subject.common_name = text()?,
                ORGANIZATION => subject.organizations.push(text()?),
                USER_ID if !subject.uid.is_empty() => return Err(TlsError::Subject("several UIDs")),
                USER_ID => {
                    subject.uid = text()?;
                    if subject.uid.is_empty() {
                        return Err(TlsError::Subject("an empty UID"));
                    }
                }
                _ => {}
            }
        }
        Ok(subject)
    }
}

/// A value of one of the types of text that Go reads.
fn text(value: &Any) -> Option<String> {
    Utf8StringRef::try_from(value)
        .map(|text| text.as_str().to_owned())
        .or_else(|_| PrintableStringRef::try_from(value).map(|text| text.as_str().to_owned()))
        .or_else(|_| TeletexStringRef::try_from(value).map(|text| text.as_str().to_owned()))
        .or_else(|_| Ia5StringRef::try_from(value).map(|text| text.as_str().to_owned()))
        .or_else(|_| value.decode_as::<BmpString>().map(|text| text.to_string()))
        .ok()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
