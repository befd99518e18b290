//! A certificate authority in memory, for tests. Issues whatever is requested.

use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::der::Decode;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::ext::Extension;
use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq};

use super::issue::{Certified, encode, issue};
use super::name::{distinguished_name, name};
use super::{PrivateKey, TlsError};

/// A certificate authority with a key of its own.
#[derive(Debug)]
pub struct FakeAuthority(PrivateKey);

impl Default for FakeAuthority {
    #[allow(clippy::expect_used, reason = "a test without random numbers cannot go on")]
    fn default() -> Self {
        Self(PrivateKey::generate().expect("random numbers"))
    }
}

impl FakeAuthority {
    /// A new authority.
    pub fn new() -> Self {
        Self::default()
    }

    /// Signs a request: a certificate as PEM that is valid from `start` for this long.
    pub fn issue(&self, request: &str, start: Timestamp, lifetime: Duration) -> Result<String, TlsError> {
        let request = decode(request)?;
        let mut extensions = Vec::new();
        for attribute in request.attributes.iter().filter(|attribute| attribute.oid == ExtensionReq::OID) {
            for value in attribute.values.iter() {
                extensions.extend(value.decode_as::<Vec<Extension>>().map_err(TlsError::Decode)?);
            }
        }
        self.sign(encode(&request.subject)?, encode(&request.public_key)?, (start, lifetime), extensions)
    }

    /// The same for somebody else than was requested, with these attributes by their OID.
    pub fn issue_to(
        &self,
        subject: &[(&'static str, &'static str)],
        request: &str,
        start: Timestamp,
        lifetime: Duration,
    ) -> Result<String, TlsError> {
        let attribute =
            |(oid, text): &(&'static str, &'static str)| (ObjectIdentifier::new_unwrap(oid), *text);
        let subject = name(&subject.iter().map(attribute).collect::<Vec<_>>()).map_err(TlsError::Encode)?;
        let key = encode(&decode(request)?.public_key)?;
        self.sign(encode(&subject)?, key, (start, lifetime), Vec::new())
    }

    /// The authority's own certificate as PEM.
    pub fn certificate(&self) -> Result<String, TlsError> {
        let name = encode(&distinguished_name("tests", "fake-ca").map_err(TlsError::Encode)?)?;
        let key = encode(&self.0.public_key_info()?)?;
        let always = (Timestamp::UNIX_EPOCH, Duration::from_secs(60 * 365 * 24 * 3600));
        self.sign(name, key, always, Vec::new())
    }

    fn sign(
        &self,
        subject: Vec<u8>,
        key: Vec<u8>,
        (start, lifetime): (Timestamp, Duration),
        extensions: Vec<Extension>,
    ) -> Result<String, TlsError> {
        let issuer = encode(&distinguished_name("tests", "fake-ca").map_err(TlsError::Encode)?)?;
        let validity = (start, start + lifetime);
        issue(Certified { issuer, subject, key, validity, extensions }, &self.0)
    }
}

fn decode(request: &str) -> Result<CertReqInfo, TlsError> {
    let der = CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).map_err(TlsError::Pem)?;
    Ok(CertReq::from_der(&der).map_err(TlsError::Decode)?.info)
}
