//! ECDSA P-256 private keys, the kind that upstream generates for a node. Signs; never prints itself.

use std::fmt;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::SubjectPublicKeyInfo;
use x509_cert::der::asn1::BitString;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Any, Encode};
use x509_cert::spki::AlgorithmIdentifierOwned;

use super::TlsError;

/// Label of a PKCS #8 key (RFC 7468).
const LABEL: &str = "PRIVATE KEY";

/// `id-ecPublicKey`, `prime256v1` and `ecdsa-with-SHA256` (RFC 5480, RFC 5758).
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const PRIME256V1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");

/// A private key on P-256, which never appears in logs: its `Debug` has nothing of it.
pub struct PrivateKey {
    pair: EcdsaKeyPair,
    /// PKCS #8 as PEM.
    pem: String,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

impl PrivateKey {
    /// A new key.
    pub fn generate() -> Result<Self, TlsError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        Self::from_der(document.map_err(|_| TlsError::Random)?.as_ref())
    }

    /// The first PKCS #8 key in a PEM text.
    pub fn from_pem(text: &[u8]) -> Result<Self, TlsError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(text).map_err(TlsError::NoKey)?;
        Self::from_der(der.secret_pkcs8_der())
    }

    fn from_der(der: &[u8]) -> Result<Self, TlsError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &SystemRandom::new());
        let pem = encode_string(LABEL, LineEnding::LF, der).map_err(|_| TlsError::Key)?;
        Ok(Self { pair: pair.map_err(|_| TlsError::Key)?, pem })
    }

    /// The key as PEM, which is secret.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The public key as `SubjectPublicKeyInfo` in DER, as in a certificate (RFC 5280).
    pub fn public_key(&self) -> Result<Vec<u8>, TlsError> {
        self.public_key_info()?.to_der().map_err(TlsError::Encode)
    }

    pub(super) fn public_key_info(&self) -> Result<SubjectPublicKeyInfo, TlsError> {
        let curve = Any::encode_from(&PRIME256V1).map_err(TlsError::Encode)?;
        let algorithm = AlgorithmIdentifierOwned { oid: EC_PUBLIC_KEY, parameters: Some(curve) };
        let point = self.pair.public_key().as_ref();
        let subject_public_key = BitString::from_bytes(point).map_err(TlsError::Encode)?;
        Ok(SubjectPublicKeyInfo { algorithm, subject_public_key })
    }

    /// Signs `message` with SHA-256. Returns the algorithm and the signature as in a certificate.
    pub(super) fn sign(&self, message: &[u8]) -> Result<(AlgorithmIdentifierOwned, BitString), TlsError> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| TlsError::Random)?;
        let signature = BitString::from_bytes(signature.as_ref()).map_err(TlsError::Encode)?;
        Ok((AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA256, parameters: None }, signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_and_is_not_printed() {
        let key = PrivateKey::generate().unwrap();
        let again = PrivateKey::from_pem(format!("noise\n{}", key.pem()).as_bytes()).unwrap();
        assert_eq!(key.public_key().unwrap(), again.public_key().unwrap());
        assert_ne!(key.public_key().unwrap(), PrivateKey::generate().unwrap().public_key().unwrap());
        assert_eq!(format!("{key:?}"), "PrivateKey");
    }

    #[test]
    fn anything_else_is_no_key() {
        let key = PrivateKey::generate().unwrap();
        let cut = &key.pem()[..60];
        let other = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for text in ["", "none", cut, other] {
            assert!(PrivateKey::from_pem(text.as_bytes()).is_err(), "{text}");
        }
    }
}
