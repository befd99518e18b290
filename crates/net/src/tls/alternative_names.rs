//! The names and addresses that a server's certificate is for. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use x509_cert::TbsCertificate;
use x509_cert::der::asn1::Ia5String;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::TlsError;
use super::issue::extension;

/// Host names and addresses, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// The host names.
    pub names: BTreeSet<String>,
    /// IPv4 and IPv6 addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl AlternativeNames {
    /// Only this host, which is an address or a name.
    pub(super) fn of_host(host: &str) -> Self {
        let mut only = Self::default();
        match host.parse() {
            Ok(address) => only.addresses.insert(address),
            Err(_) => only.names.insert(host.to_owned()),
        };
        only
    }

    /// Whether all of `others` are among them.
    pub fn contains(&self, others: &Self) -> bool {
        self.names.is_superset(&others.names) && self.addresses.is_superset(&others.addresses)
    }

    /// The names of a certificate. Other kinds of names are left out.
    pub(super) fn of_certificate(certificate: &TbsCertificate) -> Self {
        let mut found = Self::default();
        let Ok(Some((_, names))) = certificate.get_extension::<SubjectAltName>() else { return found };
        for name in names.0 {
            match name {
                GeneralName::DnsName(name) => {
                    found.names.insert(name.to_string());
                }
                GeneralName::IpAddress(octets) => found.addresses.extend(address(octets.as_bytes())),
                _ => {}
            }
        }
        found
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.addresses.is_empty()
    }

    /// The extension of a certificate or request.
    pub(super) fn extension(&self) -> Result<Extension, TlsError> {
        let name = |name: &String| Ia5String::new(name).map(GeneralName::DnsName);
        let names = self.names.iter().map(name).collect::<Result<Vec<_>, _>>().map_err(TlsError::Encode)?;
        let addresses = self.addresses.iter().map(|address| GeneralName::from(*address));
        extension(&SubjectAltName(names.into_iter().chain(addresses).collect()), false)
    }
}

/// The address with these bytes.
fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}
