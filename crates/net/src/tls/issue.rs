//! Issues certificates (RFC 5280), encoded part by part: the crate for X.509 has no values of certificates but those it decoded.

use jiff::Timestamp;
use ring::rand::{Random, SystemRandom};
use x509_cert::der::asn1::OctetString;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Encode, Header, Length, Tag, TagNumber};
use x509_cert::ext::Extension;
use x509_cert::time::{Time, Validity};

use super::{PrivateKey, TlsError};

/// Version 3, as an explicitly tagged integer.
const VERSION: [u8; 5] = [0xa0, 3, 2, 1, 2];

/// Extensions are part 3 of a certificate.
const EXTENSIONS: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(3) };

/// What is certified. Names and keys are in DER.
pub(super) struct Certified {
    /// Who certifies it.
    pub(super) issuer: Vec<u8>,
    /// Who has the key.
    pub(super) subject: Vec<u8>,
    /// The key, as `SubjectPublicKeyInfo`.
    pub(super) key: Vec<u8>,
    /// From when until when.
    pub(super) validity: (Timestamp, Timestamp),
    /// What else.
    pub(super) extensions: Vec<Extension>,
}

/// The certificate as PEM, signed with the key of the issuer, with a random serial number.
pub(super) fn issue(certified: Certified, authority: &PrivateKey) -> Result<String, TlsError> {
    let Certified { issuer, subject, key, validity: (start, end), extensions } = certified;
    let time = |at: Timestamp| Time::try_from(std::time::SystemTime::from(at)).map_err(TlsError::Encode);
    let validity: Validity = Validity::new(time(start)?, time(end)?);
    let (algorithm, _) = authority.sign(&[])?;
    let serial = encode(&serial_number()?)?;
    let mut parts =
        vec![VERSION.to_vec(), serial, encode(&algorithm)?, issuer, encode(&validity)?, subject, key];
    if !extensions.is_empty() {
        parts.push(tagged(EXTENSIONS, &encode(&extensions)?)?);
    }
    let content = tagged(Tag::Sequence, &parts.concat())?;
    let (algorithm, signature) = authority.sign(&content)?;
    let certificate = [content, encode(&algorithm)?, encode(&signature)?].concat();
    let certificate = tagged(Tag::Sequence, &certificate)?;
    encode_string("CERTIFICATE", LineEnding::LF, &certificate).map_err(|_| TlsError::NoCertificate)
}

/// A positive number, as upstream's: clients refuse two certificates of one issuer with the same one.
fn serial_number() -> Result<u64, TlsError> {
    let random: Random<[u8; 8]> = ring::rand::generate(&SystemRandom::new()).map_err(|_| TlsError::Random)?;
    // Without the sign.
    Ok((u64::from_be_bytes(random.expose()) >> 1).max(1))
}

pub(super) fn extension<T: AssociatedOid + Encode>(value: &T, critical: bool) -> Result<Extension, TlsError> {
    let extn_value = OctetString::new(encode(value)?).map_err(TlsError::Encode)?;
    Ok(Extension { extn_id: T::OID, critical, extn_value })
}

/// A part in DER.
pub(super) fn encode(part: &impl Encode) -> Result<Vec<u8>, TlsError> {
    part.to_der().map_err(TlsError::Encode)
}

fn tagged(tag: Tag, content: &[u8]) -> Result<Vec<u8>, TlsError> {
    let length = Length::try_from(content.len()).map_err(TlsError::Encode)?;
    Ok([encode(&Header::new(tag, length))?, content.to_vec()].concat())
}
