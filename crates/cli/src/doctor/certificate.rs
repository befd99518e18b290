//! The validity of X.509 certificates (RFC 5280). Verifies nothing.

use jiff::Timestamp;
use x509_cert::Certificate;
use x509_cert::time::Time;

use super::facts::{CertificateFacts, Seen, Unseen};

/// Which certificate of a PEM text counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// The first: the others are its chain (RFC 8446, section 4.4.2).
    First,
    /// The one that expires last: each is trusted, and old ones are left in bundles.
    Latest,
}

/// The validity of the certificate that counts.
pub(super) fn validity(pem: &[u8], counts: Counts) -> Seen<CertificateFacts> {
    let chain = Certificate::load_pem_chain(pem).map_err(|error| Unseen(error.to_string()))?;
    let validities: Seen<Vec<CertificateFacts>> = chain
        .iter()
        .map(|certificate| {
            let validity = certificate.tbs_certificate().validity();
            Ok(CertificateFacts {
                from: timestamp(validity.not_before)?,
                until: timestamp(validity.not_after)?,
            })
        })
        .collect();
    let mut validities = validities?.into_iter();
    let found = match counts {
        Counts::First => validities.next(),
        Counts::Latest => validities.max_by_key(|validity| validity.until),
    };
    found.ok_or_else(|| Unseen("it has no certificate".to_owned()))
}

fn timestamp(time: Time) -> Seen<Timestamp> {
    let since = time.to_unix_duration().as_secs();
    let timestamp = i64::try_from(since).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    timestamp.ok_or_else(|| Unseen("its validity is out of range".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Self-signed by `openssl ca`, valid for all of 2030, and of 2031.
    const CERTIFICATE: &str = include_str!("testdata/2030.pem");
    const LATER: &str = include_str!("testdata/2031.pem");

    #[test]
    fn the_validity_of_the_certificate_that_counts_is_read() {
        let year = CertificateFacts {
            from: "2030-01-01T00:00:00Z".parse().unwrap(),
            until: "2031-01-01T00:00:00Z".parse().unwrap(),
        };
        let later = CertificateFacts {
            from: "2031-01-01T00:00:00Z".parse().unwrap(),
            until: "2032-01-01T00:00:00Z".parse().unwrap(),
        };
        let bundle = format!("{CERTIFICATE}{LATER}");
        assert_eq!(validity(CERTIFICATE.as_bytes(), Counts::Latest), Ok(year));
        assert_eq!(validity(bundle.as_bytes(), Counts::First), Ok(year));
        assert_eq!(validity(bundle.as_bytes(), Counts::Latest), Ok(later));
    }

    #[test]
    fn anything_else_is_an_error() {
        for pem in ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(validity(pem.as_bytes(), Counts::First).is_err(), "{pem}");
        }
    }
}
