//! Scripted failures: which requests are refused, delayed, lost or left hanging.

use std::time::Duration;

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// It is refused with this code and reason, without effect; seconds of `Retry-After`, if more than 0.
    Refuse {
        /// HTTP status.
        code: u16,
        /// `Status.reason`.
        reason: &'static str,
        /// Seconds.
        retry_after: u32,
    },
    /// The connection is reset before it takes effect.
    Reset,
    /// It takes effect, and the connection is reset before the answer.
    LostAnswer,
    /// It takes so long, then does its work.
    Delay(Duration),
    /// It is never answered and has no effect.
    Hang,
    /// It takes effect but for the field at this pointer of its body, as a webhook may have it.
    Strip(&'static str),
    /// A watch is opened and ends with a reset after so many events.
    CutWatch(usize),
    /// A watch is opened and is silent for ever after so many events, whatever happens.
    HalfOpenWatch(usize),
}

/// Which requests a fault is for.
#[derive(Clone, Debug)]
pub struct ApiRule {
    /// The method; any if empty. `WATCH` for watches, which `GET` does not mean.
    pub method: &'static str,
    /// Part of the path.
    pub path: String,
    /// So many requests that match pass first.
    pub skip: u32,
    /// How often it goes wrong after that.
    pub times: u32,
    /// What goes wrong.
    pub fault: ApiFault,
}

impl ApiRule {
    /// The next request like this goes wrong.
    pub fn once(method: &'static str, path: &str, fault: ApiFault) -> Self {
        Self { method, path: path.to_owned(), skip: 0, times: 1, fault }
    }

    /// All requests like this go wrong.
    pub fn always(method: &'static str, path: &str, fault: ApiFault) -> Self {
        Self { times: u32::MAX, ..Self::once(method, path, fault) }
    }
}

/// The first rule that is for this request, taken once.
pub(super) fn due(rules: &mut [ApiRule], method: &str, path: &str) -> Option<ApiFault> {
    for rule in rules {
        let is_for_it = (rule.method.is_empty() || rule.method == method) && path.contains(&rule.path);
        if !is_for_it || rule.times == 0 {
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
