//! A certificate that the node signs itself, for an API whose clients do not verify it (upstream `GenerateSelfSignedCertKey`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_host::replace_file;
use jiff::Timestamp;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages};

use super::alternative_names::AlternativeNames;
use super::issue::{Certified, encode, extension, issue};
use super::name::common_name;
use super::{PrivateKey, TlsError};

/// Its validity, and how much earlier it starts, for clocks that are behind.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
const EARLIER: Duration = Duration::from_secs(3600);

/// `id-kp-serverAuth` (RFC 5280).
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// The paths of the node's own certificate and its key in this directory, by upstream's names. Makes them for `host` if there is no
/// certificate: a key alone is what remains of a start that was cut short. Blocks.
///
/// # Errors
/// A file could not be written, or there is a certificate without its key.
pub fn self_signed_files(directory: &Path, host: &str) -> Result<(PathBuf, PathBuf), TlsError> {
    let (certificate, key) = (directory.join("kubelet.crt"), directory.join("kubelet.key"));
    match (certificate.exists(), key.exists()) {
        (true, true) => return Ok((certificate, key)),
        (false, _) => {}
        (true, false) => return Err(TlsError::Half { present: certificate, missing: key }),
    }
    let (chain, private) = self_signed(host, Timestamp::now())?;
    let failed = |operation: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| TlsError::File { operation, path, source }
    };
    fs::create_dir_all(directory).map_err(failed("create", directory))?;
    replace_file(&key, private.pem().as_bytes(), 0o600).map_err(failed("write", &key))?;
    replace_file(&certificate, chain.as_bytes(), 0o644).map_err(failed("write", &certificate))?;
    Ok((certificate, key))
}

/// A certificate for `host`, followed by its authority's, and the key of the first, as PEM. The key of the authority is discarded.
fn self_signed(host: &str, now: Timestamp) -> Result<(String, PrivateKey), TlsError> {
    let (authority, key) = (PrivateKey::generate()?, PrivateKey::generate()?);
    let start = now - EARLIER;
    let validity = (start, start + VALIDITY);
    let name = |name: String| encode(&common_name(&name).map_err(TlsError::Encode)?);
    let seconds = now.as_second();
    let issuer = name(format!("{host}-ca@{seconds}"))?;
    let root = Certified {
        issuer: issuer.clone(),
        subject: issuer.clone(),
        key: encode(&authority.public_key_info()?)?,
        validity,
        extensions: vec![
            extension(
                &KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment | KeyUsages::KeyCertSign),
                true,
            )?,
            extension(&BasicConstraints { ca: true, path_len_constraint: None }, true)?,
        ],
    };
    let own = Certified {
        issuer,
        subject: name(format!("{host}@{seconds}"))?,
        key: encode(&key.public_key_info()?)?,
        validity,
        extensions: vec![
            extension(&KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment), true)?,
            extension(&ExtendedKeyUsage(vec![SERVER_AUTH]), false)?,
            AlternativeNames::of_host(host).extension()?,
        ],
    };
    Ok((format!("{}{}", issue(own, &authority)?, issue(root, &authority)?), key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    use x509_cert::Certificate;
    use x509_cert::der::Decode;

    use super::*;
    use crate::tls::{CertificateInfo, ServerTls};
    use hostlet_host::testing::skipped;

    #[test]
    fn no_two_certificates_have_the_same_serial_number() {
        let serials: Vec<Vec<u8>> = (0..4)
            .flat_map(|_| {
                let (chain, _) = self_signed("host1", Timestamp::now()).unwrap();
                let ders: Vec<_> =
                    CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
                ders.into_iter().map(|der| {
                    let certificate = Certificate::from_der(&der).unwrap();
                    certificate.tbs_certificate().serial_number().as_bytes().to_vec()
                })
            })
            .collect();
        // In DER, the first bit is the sign.
        assert!(
            serials.iter().all(|serial| serial.len() <= 8 && serial[0] < 0x80 && serial != &[0]),
            "{serials:?}"
        );
        assert_eq!(BTreeSet::from_iter(&serials).len(), 8, "{serials:?}");
    }

    #[test]
    fn a_key_without_its_certificate_is_replaced_by_a_pair() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = self_signed_files(dir.path(), "host1").unwrap();
        fs::remove_file(&certificate).unwrap();
        self_signed_files(dir.path(), "host1").unwrap();
        let own = PrivateKey::from_pem(&fs::read(&key).unwrap()).unwrap();
        CertificateInfo::from_pem(&fs::read(&certificate).unwrap()).unwrap().check_key(&own).unwrap();
        fs::remove_file(&key).unwrap();
        assert!(matches!(self_signed_files(dir.path(), "host1"), Err(TlsError::Half { .. })));
    }

    #[test]
    fn a_certificate_is_made_once_and_verified_by_its_authority() {
        let dir = tempfile::tempdir().unwrap();
        let pki = dir.path().join("pki");
        let (certificate, key) = self_signed_files(&pki, "host1").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));
        let (text, secret) = (fs::read(&certificate).unwrap(), fs::read(&key).unwrap());
        CertificateInfo::from_pem(&text).unwrap().check_key(&PrivateKey::from_pem(&secret).unwrap()).unwrap();
        ServerTls::default().config(Some((&text, &secret)), None).unwrap();
        assert_eq!(self_signed_files(&pki, "host2").unwrap(), (certificate.clone(), key.clone()));
        assert_eq!(fs::read(&certificate).unwrap(), text);
        let mut openssl = Command::new("openssl");
        openssl.args(["verify", "-purpose", "sslserver", "-verify_hostname", "host1", "-CAfile"]);
        let Ok(output) = openssl.arg(&certificate).arg(&certificate).output() else {
            return skipped("needs openssl");
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
