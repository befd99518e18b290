//! Which part of a file a request asks for, and whether it has changed (RFC 9110, sections 13 and 14), as Go's file server decides. Pure.

use std::ops::Range;

use http::HeaderMap;
use http::header::{IF_MODIFIED_SINCE, IF_RANGE, RANGE};
use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};

/// The conditions of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    range: Option<String>,
    if_range: Option<String>,
    if_modified_since: Option<String>,
}

/// What of a file is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Portion {
    /// All of it.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Nothing, because there are no such bytes.
    Unsatisfiable,
    /// Nothing, because the client has it.
    NotModified,
}

impl Conditions {
    /// The conditions in these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self { range: text(RANGE), if_range: text(IF_RANGE), if_modified_since: text(IF_MODIFIED_SINCE) }
    }

    /// What is sent of a file of this size that was changed at this second.
    pub(super) fn portion(&self, size: u64, modified: Timestamp) -> Portion {
        let date = |text: &str| DateTimeParser::new().parse_timestamp(text).ok();
        if let Some(since) = self.if_modified_since.as_deref().and_then(date)
            && modified <= since
        {
            return Portion::NotModified;
        }
        let is_same = self.if_range.as_deref().is_none_or(|text| date(text) == Some(modified));
        match &self.range {
            // Of an empty file there is no part, but a client that always asks for one is answered.
            Some(range) if is_same && size > 0 => portion(range, size),
            Some(_) | None => Portion::Whole,
        }
    }
}

/// The time as in `Last-Modified`; `None` for one that the format does not have.
pub(super) fn http_date(time: Timestamp) -> Option<String> {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()
}

/// The part of a `Range`. Several of them are more than a log needs, so that they are all of it, as RFC 9110 permits.
fn portion(range: &str, size: u64) -> Portion {
    let Some(spec) = range.strip_prefix("bytes=") else { return Portion::Unsatisfiable };
    if spec.contains(',') {
        return Portion::Whole;
    }
    let Some((first, last)) = spec.trim().split_once('-') else { return Portion::Unsatisfiable };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let part = match (first.trim(), last.trim()) {
        ("", last) => number(last).map(|length| size.saturating_sub(length)..size),
        (first, "") => number(first).map(|first| first..size),
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Some(first..last.saturating_add(1).min(size)),
            (_, _) => None,
        },
    };
    match part {
        Some(part) if !part.is_empty() => Portion::Part(part),
        Some(_) | None => Portion::Unsatisfiable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_range_is_a_part_of_the_file() {
        for (range, expected) in [
            ("bytes=0-3", Portion::Part(0..4)),
            ("bytes=4-", Portion::Part(4..10)),
            ("bytes=-3", Portion::Part(7..10)),
            ("bytes=-30", Portion::Part(0..10)),
            ("bytes=5-99", Portion::Part(5..10)),
            ("bytes=0-1,4-5", Portion::Whole),
            ("bytes=10-", Portion::Unsatisfiable),
            ("bytes=-0", Portion::Unsatisfiable),
            ("bytes=3-2", Portion::Unsatisfiable),
            ("bytes=x-", Portion::Unsatisfiable),
            ("lines=1-2", Portion::Unsatisfiable),
        ] {
            let conditions = Conditions { range: Some(range.to_owned()), ..Conditions::default() };
            assert_eq!(conditions.portion(10, at(0)), expected, "{range}");
        }
        assert_eq!(Conditions::default().portion(10, at(0)), Portion::Whole);
        let first = Conditions { range: Some("bytes=0-9".to_owned()), ..Conditions::default() };
        assert_eq!(first.portion(0, at(0)), Portion::Whole);
    }

    #[test]
    fn conditions_compare_seconds() {
        let date = http_date(at(1_000_000_000)).unwrap();
        assert_eq!(date, "Sun, 09 Sep 2001 01:46:40 GMT");
        let since = Conditions { if_modified_since: Some(date.clone()), ..Conditions::default() };
        assert_eq!(since.portion(10, at(1_000_000_000)), Portion::NotModified);
        assert_eq!(since.portion(10, at(1_000_000_001)), Portion::Whole);
        let range = Some("bytes=-1".to_owned());
        let of = |if_range: &str| Conditions {
            range: range.clone(),
            if_range: Some(if_range.to_owned()),
            ..Conditions::default()
        };
        assert_eq!(of(&date).portion(10, at(1_000_000_000)), Portion::Part(9..10));
        assert_eq!(of(&date).portion(10, at(1_000_000_001)), Portion::Whole);
        assert_eq!(of("\"tag\"").portion(10, at(0)), Portion::Whole);
    }
}
