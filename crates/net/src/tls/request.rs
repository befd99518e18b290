//! Certificate requests (PKCS #10, RFC 2986). Pure.

use x509_cert::attr::{Attribute, Attributes};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Encode, EncodePem};
use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq, Version};

use super::name::distinguished_name;
use super::{AlternativeNames, PrivateKey, TlsError};

/// A request for a certificate of `key` with this subject, as PEM.
pub fn certificate_request(
    key: &PrivateKey,
    organization: &str,
    common_name: &str,
) -> Result<String, TlsError> {
    serving_certificate_request(key, organization, common_name, &AlternativeNames::default())
}

/// The same for the certificate of a server with these names.
pub fn serving_certificate_request(
    key: &PrivateKey,
    organization: &str,
    common_name: &str,
    names: &AlternativeNames,
) -> Result<String, TlsError> {
    let mut attributes = Attributes::default();
    if !names.is_empty() {
        let extensions = ExtensionReq(vec![names.extension()?]);
        let attribute = Attribute::try_from(extensions).map_err(TlsError::Encode)?;
        attributes.insert(attribute).map_err(TlsError::Encode)?;
    }
    let info = CertReqInfo {
        version: Version::V1,
        subject: distinguished_name(organization, common_name).map_err(TlsError::Encode)?,
        public_key: key.public_key_info()?,
        attributes,
    };
    let (algorithm, signature) = key.sign(&info.to_der().map_err(TlsError::Encode)?)?;
    CertReq { info, algorithm, signature }.to_pem(LineEnding::LF).map_err(TlsError::Encode)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use hostlet_host::testing::skipped;

    /// An independent implementation verifies the signature and reads the subject.
    #[test]
    fn openssl_verifies_a_request() {
        let key = PrivateKey::generate().unwrap();
        for name in ["system:node:host1", "system:node:h\u{f6}st"] {
            let request = certificate_request(&key, "system:nodes", name).unwrap();
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-verify", "-noout", "-subject", "-nameopt", "utf8,sep_comma_plus"]);
            let openssl = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let Ok(mut openssl) = openssl else { return skipped("needs openssl") };
            openssl.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
            let output = openssl.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(text.contains("O=system:nodes") && text.contains(&format!("CN={name}")), "{text}");
        }
    }
}
