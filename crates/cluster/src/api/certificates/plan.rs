//! What to do about the client certificate. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use hostlet_net::tls::CertificateInfo;

/// How long the API server must reject every request before a valid certificate counts as revoked. A starting API server may
/// reject requests for a moment.
pub(super) const REVOKED_AFTER: Duration = Duration::from_secs(60);

/// How often a missing bootstrap kubeconfig is looked for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Earliest renewal as a part of the lifetime, and the range of the random addition; upstream's.
const EARLIEST: f64 = 0.7;
const RANGE: f64 = 0.2;

/// The state that decisions are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The node's credentials.
    pub(super) login: LoginState,
    /// How long the API server has rejected every request.
    pub(super) rejected_for: Option<Duration>,
    /// Whether there is a bootstrap kubeconfig.
    pub(super) can_bootstrap: bool,
}

/// The node's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoginState {
    /// Not known yet, or they cannot be used now although they exist.
    Unknown,
    /// There are none.
    Missing,
    /// The credentials are no client certificate.
    Other,
    /// A client certificate.
    Certificate(CertificateInfo),
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait for a change, or until then.
    Wait(Option<Timestamp>),
    /// Request a certificate with the bootstrap kubeconfig.
    Bootstrap(Cause),
    /// Request a certificate with the current one.
    Renew,
}

/// Why a bootstrap is necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// There are no credentials.
    Missing,
    /// The certificate is expired.
    Expired,
    /// The API server rejects it.
    Rejected,
}

/// The step at `now`. `rotates`: whether certificates are renewed. `draw`: a random number from 0 to 1, constant for a
/// certificate.
pub(super) fn plan(observed: &Observed, rotates: bool, draw: f64, now: Timestamp) -> Step {
    let look_again = || Step::Wait(Some(now + LOOK_AGAIN));
    match &observed.login {
        LoginState::Unknown | LoginState::Other => Step::Wait(None),
        LoginState::Missing if observed.can_bootstrap => Step::Bootstrap(Cause::Missing),
        LoginState::Missing => look_again(),
        LoginState::Certificate(certificate) => {
            let is_rejected = observed.rejected_for.is_some_and(|rejected| rejected >= REVOKED_AFTER);
            let due = renewal(certificate, draw);
            match certificate.is_expired(now) {
                true if observed.can_bootstrap => Step::Bootstrap(Cause::Expired),
                false if is_rejected && observed.can_bootstrap => Step::Bootstrap(Cause::Rejected),
                // The API server may still accept it: the clock of this host may be wrong.
                _ if rotates && due <= now => Step::Renew,
                _ if rotates => Step::Wait(Some(due)),
                true => look_again(),
                false => Step::Wait(Some(certificate.not_after + SignedDuration::from_secs(1))),
            }
        }
    }
}

/// When a certificate is renewed: at 70 to 90 % of its lifetime, so that nodes that joined together do not renew together.
pub(super) fn renewal(certificate: &CertificateInfo, draw: f64) -> Timestamp {
    let after = certificate.lifetime().mul_f64(EARLIEST + RANGE * draw);
    certificate.not_before.saturating_add(after).unwrap_or(certificate.not_after)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn start() -> Timestamp {
        "2026-11-24T00:00:00Z".parse().unwrap()
    }

    fn certificate() -> CertificateInfo {
        CertificateInfo::of_times(start(), start() + 10 * HOUR)
    }

    fn observed(login: LoginState, rejected: Option<u64>, can_bootstrap: bool) -> Observed {
        Observed { login, rejected_for: rejected.map(Duration::from_secs), can_bootstrap }
    }

    #[test]
    fn each_state_has_its_step() {
        let valid = || LoginState::Certificate(certificate());
        let (early, late, expired) = (start() + HOUR, start() + 9 * HOUR, start() + 11 * HOUR);
        let due = Step::Wait(Some(start() + 8 * HOUR));
        let again = |now| Step::Wait(Some(now + LOOK_AGAIN));
        for (login, rejected, can_bootstrap, rotates, now, expected) in [
            (LoginState::Unknown, None, true, true, early, Step::Wait(None)),
            (LoginState::Other, Some(900), true, true, early, Step::Wait(None)),
            (LoginState::Missing, None, true, false, early, Step::Bootstrap(Cause::Missing)),
            (LoginState::Missing, None, false, true, early, again(early)),
            (valid(), None, true, true, early, due),
            (valid(), Some(59), true, true, early, due),
            (valid(), Some(60), true, true, early, Step::Bootstrap(Cause::Rejected)),
            (valid(), Some(60), false, true, early, due),
            (valid(), None, true, true, late, Step::Renew),
            (valid(), None, true, true, expired, Step::Bootstrap(Cause::Expired)),
            (valid(), None, false, true, expired, Step::Renew),
            (valid(), None, false, false, expired, again(expired)),
            (
                valid(),
                None,
                true,
                false,
                late,
                Step::Wait(Some(start() + 10 * HOUR + SignedDuration::from_secs(1))),
            ),
        ] {
            let state = observed(login, rejected, can_bootstrap);
            assert_eq!(plan(&state, rotates, 0.5, now), expected, "{state:?} {rotates} {now}");
        }
    }

    proptest! {
        #[test]
        fn a_certificate_is_renewed_at_70_to_90_percent(
            draw in 0.0..1.0, lifetime in 1_i64..400_000_000, offset in 0_i64..1_000_000_000
        ) {
            let not_before = Timestamp::from_second(offset).unwrap();
            let not_after = not_before + SignedDuration::from_secs(lifetime);
            let at = renewal(&CertificateInfo::of_times(not_before, not_after), draw);
            let part = at.duration_since(not_before).as_secs_f64() / lifetime as f64;
            prop_assert!((0.699..0.901).contains(&part), "{part}");
        }
    }
}
