//! The state of the client certificate, for users. Pure.

use jiff::{SignedDuration, Timestamp};

/// The state of the client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateReport {
    /// When the certificate expires; `None` without one.
    pub expires: Option<Timestamp>,
    /// When it is renewed; `None` if it is not.
    pub renewed: Option<Timestamp>,
    /// Whether the API server rejects it.
    pub is_rejected: bool,
    /// The request that waits for approval and issuance, by name.
    pub waits_for: Option<String>,
    /// Why the last attempt to get a certificate failed.
    pub problem: Option<String>,
}

impl CertificateReport {
    /// Whether the node cannot use the API server with it, or soon cannot.
    pub fn is_problem(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| expires < now) || self.is_rejected || self.problem.is_some()
    }

    /// The state as sentences.
    pub fn sentences(&self, now: Timestamp) -> String {
        let mut sentences = vec![match self.expires {
            None => "This node has no client certificate yet.".to_owned(),
            Some(expires) if expires < now => {
                format!("The client certificate of this node expired {} ago ({expires}).", span(now, expires))
            }
            Some(expires) if self.is_rejected => {
                format!(
                    "The API server rejects the client certificate of this node, which is valid until {expires}."
                )
            }
            Some(expires) => {
                format!(
                    "The client certificate of this node is valid for {} ({expires}).",
                    span(expires, now)
                )
            }
        }];
        match self.renewed {
            Some(renewed) if renewed > now && !self.is_rejected => {
                sentences.push(format!("It is renewed in {}.", span(renewed, now)));
            }
            Some(_) | None => {}
        }
        if let Some(name) = &self.waits_for {
            sentences.push(format!(
                "The request {name} waits to be approved and signed; if nothing approves it automatically: \
                 kubectl certificate approve {name}."
            ));
        }
        if let Some(problem) = &self.problem {
            sentences.push(format!(
                "Getting a new one failed: {}; hostlet retries.",
                problem.trim_end_matches('.')
            ));
        }
        sentences.join(" ")
    }
}

/// A time span in its largest unit, rounded down: enough to know whether to hurry.
fn span(later: Timestamp, earlier: Timestamp) -> String {
    let seconds = later.duration_since(earlier).max(SignedDuration::ZERO).as_secs();
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_described_with_the_time_left() {
        let now: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let days = |days: i64| Some(now + SignedDuration::from_hours(24 * days));
        let report = |expires, renewed| CertificateReport { expires, renewed, ..Default::default() };
        let valid = report(days(30), days(3));
        assert_eq!(
            valid.sentences(now),
            "The client certificate of this node is valid for 30 days (2026-12-24T00:00:00Z). \
             It is renewed in 3 days."
        );
        assert!(!valid.is_problem(now));
        let expired = CertificateReport { problem: Some("no.".to_owned()), ..report(days(-1), days(-2)) };
        assert_eq!(
            expired.sentences(now),
            "The client certificate of this node expired 24 hours ago (2026-11-23T00:00:00Z). \
             Getting a new one failed: no; hostlet retries."
        );
        let rejected = CertificateReport { is_rejected: true, ..valid.clone() };
        assert!(rejected.sentences(now).starts_with("The API server rejects the client certificate"));
        let none = CertificateReport { waits_for: Some("node-csr-x".to_owned()), ..report(None, None) };
        assert!(none.sentences(now).ends_with("kubectl certificate approve node-csr-x."));
        assert!([expired, rejected, none].iter().all(|report| report.is_problem(now)));
    }
}
