//! The kubeconfig and its certificates.

use hostlet_base::human_duration;
use jiff::{SignedDuration, Timestamp};

use super::super::facts::{CertificateFacts, Facts};
use super::super::report::Finding;

const CHECK: &str = "credentials";

/// How long before its expiry a certificate gives a warning.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let credentials = match &facts.credentials {
        None => return Vec::new(),
        Some(Ok(credentials)) => credentials,
        Some(Err(why)) if !facts.is_root => return vec![Finding::unknown(CHECK, why.to_string())],
        Some(Err(why)) => {
            let remedy = "write a kubeconfig of this node there; pods of the last contact run without it";
            return vec![Finding::wrong(CHECK, why.to_string(), remedy)];
        }
    };
    let mut findings = Vec::new();
    for file in &credentials.exposed {
        let file = file.display();
        findings.push(Finding::warning(
            CHECK,
            format!("{file} can be read by other users"),
            format!("chmod 600 {file}"),
        ));
    }
    for (what, certificate) in &credentials.certificates {
        findings.push(match certificate {
            Ok(certificate) => validity(what, *certificate, facts.now),
            Err(why) => Finding::wrong(CHECK, format!("{what} cannot be used: {why}"), "replace it"),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, credentials.file.display().to_string()));
    }
    findings
}

fn validity(what: &str, certificate: CertificateFacts, now: Timestamp) -> Finding {
    let CertificateFacts { from, until } = certificate;
    let day = |at: Timestamp| at.strftime("%Y-%m-%d %H:%MZ").to_string();
    if now < from {
        let text = format!("{what} is valid only from {}", day(from));
        return Finding::wrong(CHECK, text, "check the clock, or replace the certificate");
    }
    let left = until.duration_since(now);
    if left.is_negative() {
        return Finding::wrong(
            CHECK,
            format!("{what} expired on {}", day(until)),
            "replace it; running pods keep running",
        );
    }
    let text = format!("{what} expires on {} (in {})", day(until), human_duration(left));
    if left < SOON { Finding::warning(CHECK, text, "renew it") } else { Finding::ok(CHECK, text) }
}
