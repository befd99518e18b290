//! A certificate authority in memory, for tests. Issues whatever is requested.

use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Decode, Encode, Header, Length, Tag};
use x509_cert::request::CertReq;
use x509_cert::time::{Time, Validity};

use super::name::distinguished_name;
use super::{PrivateKey, TlsError};

/// Version 3, as an explicitly tagged integer.
const VERSION: [u8; 5] = [0xa0, 3, 2, 1, 2];
/// The same serial number for all.
const SERIAL: [u8; 3] = [2, 1, 1];

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
        let der = CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).map_err(TlsError::Pem)?;
        let request = CertReq::from_der(&der).map_err(TlsError::Decode)?.info;
        let time = |at: Timestamp| Time::try_from(std::time::SystemTime::from(at)).map_err(TlsError::Encode);
        let validity: Validity = Validity::new(time(start)?, time(start + lifetime)?);
        let issuer = distinguished_name("tests", "fake-ca").map_err(TlsError::Encode)?;
        let (algorithm, _) = self.0.sign(&[])?;
        let content = sequence(&[
            VERSION.to_vec(),
            SERIAL.to_vec(),
            encode(&algorithm)?,
            encode(&issuer)?,
            encode(&validity)?,
            encode(&request.subject)?,
            encode(&request.public_key)?,
        ])?;
        let (algorithm, signature) = self.0.sign(&content)?;
        let certificate = sequence(&[content, encode(&algorithm)?, encode(&signature)?])?;
        encode_string("CERTIFICATE", LineEnding::LF, &certificate).map_err(|_| TlsError::NoCertificate)
    }
}

fn encode(part: &impl Encode) -> Result<Vec<u8>, TlsError> {
    part.to_der().map_err(TlsError::Encode)
}

fn sequence(parts: &[Vec<u8>]) -> Result<Vec<u8>, TlsError> {
    let content = parts.concat();
    let length = Length::try_from(content.len()).map_err(TlsError::Encode)?;
    Ok([encode(&Header::new(Tag::Sequence, length))?, content].concat())
}
