//! Keys of the kinds that pods may ask certificates for, each with an empty certificate request that proves its possession. The keys
//! are made here and never used: they go to their pods.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rsa::Generate;
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey};
use rsa::rand_core::{TryCryptoRng, TryRng};
use x509_cert::SubjectPublicKeyInfo;
use x509_cert::attr::Attributes;
use x509_cert::der::asn1::{BitString, Null};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Any, Decode, Encode};
use x509_cert::name::Name;
use x509_cert::request::{CertReq, CertReqInfo, Version};
use x509_cert::spki::AlgorithmIdentifierOwned;

use super::TlsError;

/// Label of a PKCS #8 key (RFC 7468).
const LABEL: &str = "PRIVATE KEY";

/// Algorithms and curves (RFC 5480, RFC 5758, RFC 8017, RFC 8410).
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const PRIME256V1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const SECP384R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const SECP521R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_WITH_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
const SHA256_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// What precedes the seed of an Ed25519 key in PKCS #8 version 1 (RFC 8410). ring writes version 2, which OpenSSL 1.1 cannot read.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A kind of key. `Display` is its name in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA with a modulus of 3072 bits. Takes a second or so to make.
    Rsa3072,
    /// RSA with a modulus of 4096 bits. Takes seconds to make.
    Rsa4096,
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// ECDSA on P-521.
    EcdsaP521,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    /// All kinds, in the order of the API's documentation.
    pub const ALL: [Self; 6] =
        [Self::Rsa3072, Self::Rsa4096, Self::EcdsaP256, Self::EcdsaP384, Self::EcdsaP521, Self::Ed25519];

    /// The kind with this name in the API, e.g. `ECDSAP256`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rsa3072 => "RSA3072",
            Self::Rsa4096 => "RSA4096",
            Self::EcdsaP256 => "ECDSAP256",
            Self::EcdsaP384 => "ECDSAP384",
            Self::EcdsaP521 => "ECDSAP521",
            Self::Ed25519 => "ED25519",
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A private key and the request for a certificate of it. Neither is printed.
pub struct SubjectKey {
    /// PKCS #8 as PEM, which is secret.
    pub pem: String,
    /// An empty certificate request (PKCS #10) in DER, signed with the key.
    pub request: Vec<u8>,
}

impl fmt::Debug for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectKey")
    }
}

impl SubjectKey {
    /// A new key of this kind. Blocking; a key for RSA takes seconds of a CPU.
    pub fn generate(kind: KeyKind) -> Result<Self, TlsError> {
        match kind {
            KeyKind::Rsa3072 => rsa_key(3072),
            KeyKind::Rsa4096 => rsa_key(4096),
            KeyKind::EcdsaP256 => ecdsa_key(&ECDSA_P256_SHA256_ASN1_SIGNING, &PRIME256V1, ECDSA_WITH_SHA256),
            KeyKind::EcdsaP384 => ecdsa_key(&ECDSA_P384_SHA384_ASN1_SIGNING, &SECP384R1, ECDSA_WITH_SHA384),
            KeyKind::EcdsaP521 => ecdsa_p521_key(),
            KeyKind::Ed25519 => ed25519_key(),
        }
    }

    fn new(
        pkcs8: &[u8],
        public_key: SubjectPublicKeyInfo,
        algorithm: AlgorithmIdentifierOwned,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, TlsError>,
    ) -> Result<Self, TlsError> {
        let info = CertReqInfo {
            version: Version::V1,
            subject: Name::default(),
            public_key,
            attributes: Attributes::default(),
        };
        let signature = sign(&info.to_der().map_err(TlsError::Encode)?)?;
        let signature = BitString::from_bytes(&signature).map_err(TlsError::Encode)?;
        let request = CertReq { info, algorithm, signature }.to_der().map_err(TlsError::Encode)?;
        let pem = encode_string(LABEL, LineEnding::LF, pkcs8).map_err(|_| TlsError::Generate)?;
        Ok(Self { pem, request })
    }
}

/// ring makes no such keys, but signs with them.
fn rsa_key(bits: usize) -> Result<SubjectKey, TlsError> {
    let key = rsa::PrivateKey::new(&mut SystemNumbers, bits).map_err(|_| TlsError::Generate)?;
    let pkcs8 = key.to_pkcs8_der().map_err(|_| TlsError::Generate)?;
    let public_key = key.to_public_key().to_public_key_der().map_err(|_| TlsError::Generate)?;
    let public_key = SubjectPublicKeyInfo::from_der(public_key.as_bytes()).map_err(TlsError::Encode)?;
    let pair = RsaKeyPair::from_pkcs8(pkcs8.as_bytes()).map_err(|_| TlsError::Generate)?;
    let parameters = Some(Any::encode_from(&Null).map_err(TlsError::Encode)?);
    let algorithm = AlgorithmIdentifierOwned { oid: SHA256_WITH_RSA, parameters };
    SubjectKey::new(pkcs8.as_bytes(), public_key, algorithm, |message| {
        let mut signature = vec![0; pair.public().modulus_len()];
        let signed = pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature);
        signed.map(|()| signature).map_err(|_| TlsError::Random)
    })
}

fn ecdsa_key(
    ring_algorithm: &'static EcdsaSigningAlgorithm,
    curve: &ObjectIdentifier,
    signature_algorithm: ObjectIdentifier,
) -> Result<SubjectKey, TlsError> {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(ring_algorithm, &random).map_err(|_| TlsError::Random)?;
    let pair = EcdsaKeyPair::from_pkcs8(ring_algorithm, pkcs8.as_ref(), &random);
    let pair = pair.map_err(|_| TlsError::Generate)?;
    let public_key = ec_public_key(curve, pair.public_key().as_ref())?;
    let algorithm = AlgorithmIdentifierOwned { oid: signature_algorithm, parameters: None };
    SubjectKey::new(pkcs8.as_ref(), public_key, algorithm, |message| {
        let signature = pair.sign(&random, message).map_err(|_| TlsError::Random)?;
        Ok(signature.as_ref().to_vec())
    })
}

/// ring has nothing of this curve.
fn ecdsa_p521_key() -> Result<SubjectKey, TlsError> {
    use p521::ecdsa::signature::Signer;

    let key = p521::SecretKey::try_generate_from_rng(&mut SystemNumbers).map_err(|_| TlsError::Random)?;
    let pkcs8 = key.to_pkcs8_der().map_err(|_| TlsError::Generate)?;
    let public_key = ec_public_key(&SECP521R1, &key.public_key().to_sec1_bytes())?;
    let algorithm = AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA512, parameters: None };
    let pair = p521::ecdsa::SigningKey::from(&key);
    SubjectKey::new(pkcs8.as_bytes(), public_key, algorithm, |message| {
        let signature: p521::ecdsa::DerSignature = pair.try_sign(message).map_err(|_| TlsError::Random)?;
        Ok(signature.as_bytes().to_vec())
    })
}

fn ed25519_key() -> Result<SubjectKey, TlsError> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| TlsError::Random)?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| TlsError::Generate)?;
    let algorithm = AlgorithmIdentifierOwned { oid: ED25519, parameters: None };
    let point = BitString::from_bytes(pair.public_key().as_ref()).map_err(TlsError::Encode)?;
    let public_key = SubjectPublicKeyInfo { algorithm: algorithm.clone(), subject_public_key: point };
    let pkcs8 = [&ED25519_PKCS8[..], &seed].concat();
    SubjectKey::new(&pkcs8, public_key, algorithm, |message| Ok(pair.sign(message).as_ref().to_vec()))
}

fn ec_public_key(curve: &ObjectIdentifier, point: &[u8]) -> Result<SubjectPublicKeyInfo, TlsError> {
    let curve = Any::encode_from(curve).map_err(TlsError::Encode)?;
    let algorithm = AlgorithmIdentifierOwned { oid: EC_PUBLIC_KEY, parameters: Some(curve) };
    let subject_public_key = BitString::from_bytes(point).map_err(TlsError::Encode)?;
    Ok(SubjectPublicKeyInfo { algorithm, subject_public_key })
}

/// The system's random numbers for what ring cannot make.
struct SystemNumbers;

/// The system provides no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random numbers")]
struct NoNumbers;

impl TryRng for SystemNumbers {
    type Error = NoNumbers;

    fn try_next_u32(&mut self) -> Result<u32, NoNumbers> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes).map(|()| u32::from_ne_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, NoNumbers> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes).map(|()| u64::from_ne_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), NoNumbers> {
        SystemRandom::new().fill(bytes).map_err(|_| NoNumbers)
    }
}

impl TryCryptoRng for SystemNumbers {}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use hostlet_host::testing::skipped;

    /// What OpenSSL answers to a key or a request in PEM.
    fn openssl(arguments: &[&str], input: &str) -> Option<String> {
        let mut openssl = Command::new("openssl");
        openssl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut openssl = openssl.spawn().ok()?;
        openssl.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = openssl.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// An independent implementation verifies the signature, and finds the key of the request in that of the file.
    #[test]
    fn openssl_verifies_the_request_of_every_kind_of_key() {
        for kind in KeyKind::ALL {
            let key = SubjectKey::generate(kind).unwrap();
            let request = encode_string("CERTIFICATE REQUEST", LineEnding::LF, &key.request).unwrap();
            let arguments = ["req", "-verify", "-noout", "-subject", "-pubkey"];
            let Some(answer) = openssl(&arguments, &request) else { return skipped("needs openssl") };
            let public_key = openssl(&["pkey", "-pubout"], &key.pem).unwrap();
            assert!(answer.contains(&public_key), "{kind}: {answer}");
            assert!(answer.contains("subject=\n"), "{kind}: {answer}");
            assert_eq!(format!("{key:?}"), "SubjectKey");
        }
    }

    #[test]
    fn kinds_have_the_names_of_the_api() {
        for kind in KeyKind::ALL {
            assert_eq!(KeyKind::named(&kind.to_string()), Some(kind));
        }
        assert_eq!(KeyKind::named("RSA2048"), None);
    }
}
