//! What a node must know of a certificate: its validity and its key. Verifies no signature: the API server does.

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Decode, Encode};
use x509_cert::time::Time;

use super::{AlternativeNames, PrivateKey, TlsError};

/// A certificate's validity and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Start of its validity.
    pub not_before: Timestamp,
    /// When it expires, or an intermediate certificate below it, whichever is earlier.
    pub not_after: Timestamp,
    /// The names and addresses that it is for.
    pub names: AlternativeNames,
    /// Its public key as `SubjectPublicKeyInfo` in DER.
    public_key: Vec<u8>,
}

impl CertificateInfo {
    /// Reads the certificates of a PEM text, the node's own first. Skips keys in it.
    pub fn from_pem(text: &[u8]) -> Result<Self, TlsError> {
        let mut own: Option<Self> = None;
        for der in CertificateDer::pem_slice_iter(text) {
            let certificate =
                Certificate::from_der(&der.map_err(TlsError::Pem)?).map_err(TlsError::Decode)?;
            let certificate = certificate.tbs_certificate();
            let not_after = timestamp(certificate.validity().not_after)?;
            match &mut own {
                Some(own) => own.not_after = own.not_after.min(not_after),
                None => {
                    let public_key = certificate.subject_public_key_info().to_der();
                    own = Some(Self {
                        not_before: timestamp(certificate.validity().not_before)?,
                        not_after,
                        names: AlternativeNames::of_certificate(certificate),
                        public_key: public_key.map_err(TlsError::Decode)?,
                    });
                }
            }
        }
        own.ok_or(TlsError::NoCertificate)
    }

    /// A certificate with these times, of no key.
    #[cfg(any(test, feature = "fakes"))]
    pub fn of_times(not_before: Timestamp, not_after: Timestamp) -> Self {
        Self { not_before, not_after, names: AlternativeNames::default(), public_key: Vec::new() }
    }

    /// The same for these names.
    #[cfg(any(test, feature = "fakes"))]
    pub fn with_names(self, names: AlternativeNames) -> Self {
        Self { names, ..self }
    }

    /// Fails unless the certificate is for the public key that belongs to `key`.
    pub fn check_key(&self, key: &PrivateKey) -> Result<(), TlsError> {
        if self.public_key == key.public_key()? { Ok(()) } else { Err(TlsError::OtherKey) }
    }

    /// How long it is valid in total.
    pub fn lifetime(&self) -> SignedDuration {
        self.not_after.duration_since(self.not_before)
    }

    /// Whether `now` is after the last second of its validity.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.not_after < now
    }
}

/// The certificates of a PEM text without anything else, such as their key.
pub fn certificates_of(text: &[u8]) -> Result<String, TlsError> {
    let ders: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(TlsError::Pem)?;
    let certificates = pem_of(ders.iter().map(|der| &**der))?;
    if certificates.is_empty() { Err(TlsError::NoCertificate) } else { Ok(certificates) }
}

/// The certificates of a PEM text in DER. Like Go's decoder, skips whatever else is in it, broken blocks too.
pub fn ders_of(text: &str) -> Vec<Vec<u8>> {
    let blocks = CertificateDer::pem_slice_iter(text.as_bytes());
    blocks.filter_map(Result::ok).map(|der| der.to_vec()).collect()
}

/// These certificates as PEM.
pub fn pem_of<'a>(certificates: impl IntoIterator<Item = &'a [u8]>) -> Result<String, TlsError> {
    let mut text = String::new();
    for der in certificates {
        let block = encode_string("CERTIFICATE", LineEnding::LF, der);
        text.push_str(&block.map_err(|_| TlsError::NoCertificate)?);
    }
    Ok(text)
}

/// The rest of a PEM text without its certificates: the key.
pub fn keys_of(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut is_certificate = false;
    let mut keys = String::new();
    for line in text.lines() {
        is_certificate |= line.starts_with("-----BEGIN CERTIFICATE-----");
        if !is_certificate {
            keys.push_str(line);
            keys.push('\n');
        }
        is_certificate &= !line.starts_with("-----END CERTIFICATE-----");
    }
    keys
}

fn timestamp(time: Time) -> Result<Timestamp, TlsError> {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).map_err(|_| TlsError::Time)?;
    Timestamp::from_second(seconds).map_err(|_| TlsError::Time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tls::certificate_request;
    use crate::tls::fake::FakeAuthority;

    #[test]
    fn the_validity_is_that_of_the_whole_chain() {
        let (key, authority) = (PrivateKey::generate().unwrap(), FakeAuthority::new());
        let request = certificate_request(&key, "system:nodes", "system:node:a").unwrap();
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let issue = |hours: u64| authority.issue(&request, start, Duration::from_secs(hours * 3600)).unwrap();
        let (short, long) = (issue(1), issue(2));
        let info = |text: String| CertificateInfo::from_pem(text.as_bytes()).unwrap();
        let alone = info(format!("{}{long}", key.pem()));
        assert_eq!((alone.not_before, alone.lifetime()), (start, SignedDuration::from_hours(2)));
        assert_eq!(info(format!("{long}{short}")).not_after, start + SignedDuration::from_hours(1));
        let both = format!("{long}{}{short}", key.pem());
        assert_eq!(certificates_of(both.as_bytes()).unwrap(), format!("{long}{short}"));
        assert_eq!(keys_of(both.as_bytes()), key.pem());
        assert!(certificates_of(key.pem().as_bytes()).is_err());
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        let ders = ders_of(&format!("noise\n{long}{broken}{}{short}", key.pem()));
        assert_eq!(pem_of(ders.iter().map(Vec::as_slice)).unwrap(), format!("{long}{short}"));
        assert!(alone.check_key(&key).is_ok());
        assert!(matches!(alone.check_key(&PrivateKey::generate().unwrap()), Err(TlsError::OtherKey)));
        assert!(!alone.is_expired(alone.not_after));
        assert!(alone.is_expired(alone.not_after + SignedDuration::from_secs(1)));
    }

    #[test]
    fn anything_else_is_no_certificate() {
        let key = PrivateKey::generate().unwrap();
        for text in [
            "",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\n",
            key.pem(),
        ] {
            assert!(CertificateInfo::from_pem(text.as_bytes()).is_err(), "{text}");
        }
    }
}
