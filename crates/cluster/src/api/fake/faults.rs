//! Scripted faults: requests that are rejected, delayed, lost or left hanging.

use std::time::Duration;

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// It is rejected with this code and reason, without effect; `Retry-After` in seconds if more than 0.
    Reject {
        /// HTTP status.
        code: u16,
        /// `Status.reason`.
        reason: &'static str,
        /// Seconds.
        retry_after: u32,
    },
    /// The connection is reset before the request takes effect.
    Reset,
    /// It takes effect, but the connection is reset before the response.
    LostAnswer,
    /// It is delayed by this time.
    Delay(Duration),
    /// It hangs without effect.
    Hang,
    /// It takes effect except for the field at this JSON pointer, like with an admission webhook.
    Strip(&'static str),
    /// A watch is reset after this many events.
    CutWatch(usize),
    /// A watch is silent after this many events.
    HalfOpenWatch(usize),
}

/// A fault and the requests that it applies to.
#[derive(Clone, Debug)]
pub struct ApiRule {
    /// The method; any if empty. `WATCH` for watches, which `GET` does not match.
    pub method: &'static str,
    /// A part of the path.
    pub path: String,
    /// Number of matching requests that pass first.
    pub skip: u32,
    /// Number of faults after that.
    pub times: u32,
    /// What becomes of a matching request.
    pub fault: ApiFault,
}

impl ApiRule {
    /// A fault of the next matching request.
    pub fn once(method: &'static str, path: &str, fault: ApiFault) -> Self {
        Self { method, path: path.to_owned(), skip: 0, times: 1, fault }
    }

    /// A fault of all matching requests.
    pub fn always(method: &'static str, path: &str, fault: ApiFault) -> Self {
        Self { times: u32::MAX, ..Self::once(method, path, fault) }
    }
}

/// Takes the first rule that matches this request.
pub(super) fn due(rules: &mut [ApiRule], method: &str, path: &str) -> Option<ApiFault> {
    for rule in rules {
        let matches = (rule.method.is_empty() || rule.method == method) && path.contains(&rule.path);
        if !matches || rule.times == 0 {
            continue;
        }
        if rule.skip > 0 {
            rule.skip -= 1;
            continue;
        }
        rule.times = rule.times.saturating_sub(u32::from(rule.times != u32::MAX));
        return Some(rule.fault.clone());
    }
    None
}
