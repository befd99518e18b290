//! Distinguished names of an organization and a common name, encoded as Go does.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{self, Any};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};

/// `id-at-organizationName` and `id-at-commonName` (RFC 5280).
pub(super) const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
pub(super) const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The UID of a user (upstream `asn1.X509UID`).
pub(super) const USER_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

/// The name with these two attributes.
pub(super) fn distinguished_name(organization: &str, common_name: &str) -> der::Result<Name> {
    name(&[(ORGANIZATION, organization), (COMMON_NAME, common_name)])
}

/// The name with only a common name.
pub(super) fn common_name(common_name: &str) -> der::Result<Name> {
    name(&[(COMMON_NAME, common_name)])
}

pub(super) fn name(attributes: &[(ObjectIdentifier, &str)]) -> der::Result<Name> {
    let mut names = RdnSequence::default();
    for (oid, text) in attributes {
        let value = match PrintableStringRef::new(*text) {
            Ok(text) => Any::encode_from(&text)?,
            Err(_) => Any::encode_from(&Utf8StringRef::new(*text)?)?,
        };
        let mut name = RelativeDistinguishedName::default();
        name.insert(AttributeTypeAndValue { oid: *oid, value })?;
        names.push(name);
    }
    Ok(Name::hazmat_from_rdn_sequence(names))
}
