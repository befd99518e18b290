//! The query of a request for a log. Pure. Decoding and validation are upstream's of `v1.PodLogOptions`.

use jiff::{SignedDuration, Timestamp};

use hostlet_observe::log::{LogOptions, LogStream};

/// A valid query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogQuery {
    pub(super) follow: bool,
    pub(super) previous: bool,
    pub(super) options: LogOptions,
}

/// Why a query is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    /// A value does not have its type.
    #[error(r#"{{"message": "Unable to decode query."}}"#)]
    Undecodable,
    /// A value is out of range, or two exclude each other.
    #[error(r#"{{"message": "Invalid request."}}"#)]
    Invalid,
}

impl LogQuery {
    /// Parses the query of a URL, received at `now`.
    pub(super) fn parse(query: &str, now: Timestamp) -> Result<Self, QueryError> {
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_str(query).map_err(|_| QueryError::Undecodable)?;
        // As in Go, of a repeated name the first value counts.
        let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let flag = |name: &str| {
            value(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
        };
        let number = |value: Option<&str>| {
            value.map(|value| value.parse::<i64>().map_err(|_| QueryError::Undecodable)).transpose()
        };
        // The older name of `tailLines`.
        let tail = match value("tail").filter(|tail| !tail.is_empty()) {
            Some("all") => None,
            Some(tail) => Some(tail),
            None => value("tailLines"),
        };
        let (tail, limit) = (number(tail)?, number(value("limitBytes"))?);
        let (since_seconds, since_time) = (number(value("sinceSeconds"))?, value("sinceTime"));
        let since = since_time.map(time).transpose()?.flatten();
        if since_seconds.is_some() && since_time.is_some() || since_seconds.is_some_and(|seconds| seconds < 1)
        {
            return Err(QueryError::Invalid);
        }
        let stream = value("stream").map(stream).transpose()?.flatten();
        if stream.is_some() && tail.is_some() {
            return Err(QueryError::Invalid);
        }
        let positive = |number: Option<i64>, least: i64| match number {
            Some(number) if number < least => Err(QueryError::Invalid),
            number => Ok(number.map(i64::unsigned_abs)),
        };
        let since = match since_seconds {
            Some(seconds) => {
                Some(now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN))
            }
            None => since,
        };
        let options = LogOptions {
            tail: positive(tail, 0)?,
            since,
            timestamps: flag("timestamps"),
            stream,
            limit: positive(limit, 1)?,
        };
        Ok(Self { follow: flag("follow"), previous: flag("previous"), options })
    }
}

/// The wanted stream; `None` for both.
fn stream(value: &str) -> Result<Option<LogStream>, QueryError> {
    match value {
        "All" => Ok(None),
        "Stdout" => Ok(Some(LogStream::Stdout)),
        "Stderr" => Ok(Some(LogStream::Stderr)),
        _ => Err(QueryError::Invalid),
    }
}

/// An RFC 3339 time; `None` for an empty one.
fn time(value: &str) -> Result<Option<Timestamp>, QueryError> {
    if matches!(value, "" | "null") {
        return Ok(None);
    }
    // Other forms that the parser knows are not RFC 3339.
    let bytes = value.as_bytes();
    let is_rfc3339 = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
        .iter()
        .all(|(at, separator)| bytes.get(*at) == Some(separator))
        && !value.contains('[');
    let time = value.parse().ok().filter(|_| is_rfc3339);
    time.map(Some).ok_or(QueryError::Undecodable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn options(query: &str) -> Result<LogOptions, QueryError> {
        LogQuery::parse(query, now()).map(|query| query.options)
    }

    #[test]
    fn every_field_is_read() {
        let query = "follow=true&previous=1&timestamps=&tailLines=5&sinceSeconds=60&limitBytes=7&stream=All";
        let options = LogOptions {
            tail: Some(5),
            since: Some("2026-01-01T11:59:00Z".parse().unwrap()),
            timestamps: true,
            stream: None,
            limit: Some(7),
        };
        assert_eq!(LogQuery::parse(query, now()), Ok(LogQuery { follow: true, previous: true, options }));
        assert_eq!(LogQuery::parse("follow=False&previous=0&container=x", now()), Ok(LogQuery::default()));
    }

    #[test]
    fn times_are_rfc3339() {
        let since = |text: &str| options(&format!("sinceTime={text}")).map(|options| options.since);
        let time = "2026-01-01T10:00:00.5Z".parse().unwrap();
        assert_eq!(since("2026-01-01T12:00:00.5%2B02:00"), Ok(Some(time)));
        assert_eq!((since(""), since("null")), (Ok(None), Ok(None)));
        for wrong in
            ["now", "2026-01-01", "2026-01-01T10:00Z", "2026-01-01+10:00:00Z", "2026-01-01T10:00:00Z[UTC]"]
        {
            assert_eq!(since(wrong), Err(QueryError::Undecodable), "{wrong}");
        }
    }

    #[test]
    fn the_older_name_of_tail_lines_takes_precedence() {
        let tail = |query: &str| options(query).map(|options| options.tail);
        assert_eq!(tail("tail=3&tailLines=5"), Ok(Some(3)));
        assert_eq!(tail("tail=all&tailLines=5"), Ok(None));
        assert_eq!(tail("tail=&tailLines=5&tailLines=6"), Ok(Some(5)));
    }

    #[test]
    fn invalid_queries_are_distinguished_as_upstream() {
        for query in ["tailLines=x", "tail=x", "limitBytes=", "sinceSeconds=1.5", "sinceTime=x"] {
            assert_eq!(options(query), Err(QueryError::Undecodable), "{query}");
        }
        for query in [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=2026-01-01T10:00:00Z",
            "stream=stdout",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(options(query), Err(QueryError::Invalid), "{query}");
        }
        assert_eq!(QueryError::Invalid.to_string(), r#"{"message": "Invalid request."}"#);
    }

    #[test]
    fn a_huge_age_is_no_error() {
        assert_eq!(
            options("sinceSeconds=9223372036854775807").map(|options| options.since),
            Ok(Some(Timestamp::MIN))
        );
    }
}
