//! The time by which the renewal of a certificate is planned: that of the wall clock, unless it contradicts the signer's. Pure.
//!
//! On a host whose clock is years ahead, each new certificate would be due at once, and requests would never stop; on one whose clock is
//! behind, it would expire. A certificate that was valid when it was received counts from then.

use hostlet_net::tls::CertificateInfo;
use jiff::Timestamp;

use super::plan::renewal;

/// What is known of the signer's time.
#[derive(Debug, Default)]
pub(super) struct SignerTime {
    /// The last certificate that contradicts the wall clock, and when it was received by the steady clock.
    contradiction: Option<(CertificateInfo, Timestamp)>,
}

impl SignerTime {
    /// A certificate was received, at this time of the wall clock and of the steady one.
    pub(super) fn received(&mut self, certificate: &CertificateInfo, wall: Timestamp, steady: Timestamp) {
        let is_plausible = certificate.not_before <= wall && wall < renewal(certificate, 0.0);
        self.contradiction = (!is_plausible).then(|| (certificate.clone(), steady));
        if !is_plausible {
            let (from, until) = (certificate.not_before, certificate.not_after);
            tracing::warn!(%from, %until, "the clock of this host contradicts a certificate that it has just received");
        }
    }

    /// The time by which the renewal of `current` is planned.
    pub(super) fn now(
        &self,
        current: Option<&CertificateInfo>,
        wall: Timestamp,
        steady: Timestamp,
    ) -> Timestamp {
        match &self.contradiction {
            Some((certificate, received)) if Some(certificate) == current => {
                certificate.not_before.saturating_add(steady.duration_since(*received)).unwrap_or(wall)
            }
            Some(_) | None => wall,
        }
    }
}

#[cfg(test)]
mod tests {
    use hostlet_base::testing::at;

    use super::*;

    const TEN_YEARS: i64 = 10 * 365 * 86_400;
    const BEGIN: i64 = 2 * TEN_YEARS;

    #[test]
    fn a_certificate_that_contradicts_the_clock_counts_from_its_receipt() {
        let certificate = CertificateInfo::of_times(at(BEGIN - 300), at(BEGIN + 3600));
        let mut signer = SignerTime::default();
        signer.received(&certificate, at(BEGIN), at(BEGIN));
        assert_eq!(signer.now(Some(&certificate), at(BEGIN + 60), at(BEGIN + 60)), at(BEGIN + 60));
        for wall in [BEGIN - TEN_YEARS, BEGIN + TEN_YEARS] {
            signer.received(&certificate, at(wall), at(50));
            assert_eq!(signer.now(Some(&certificate), at(wall + 60), at(110)), at(BEGIN - 300 + 60));
            let other = CertificateInfo::of_times(at(BEGIN), at(BEGIN + 3600));
            assert_eq!(signer.now(Some(&other), at(wall + 60), at(110)), at(wall + 60));
            assert_eq!(signer.now(None, at(wall + 60), at(110)), at(wall + 60));
        }
    }
}
