//! One line of a container's log, as runtimes write it: `<RFC 3339 time> <stream> <tags> <content>` (Kubernetes design
//! proposal "CRI: Log management for container stdout/stderr streams"). Pure.

use jiff::Timestamp;

/// The stream of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// When it was written.
    pub timestamp: Timestamp,
    /// Whether the container wrote it to stdout or stderr.
    pub stream: LogStream,
    /// Its content: with the line end, or without one if the runtime split a longer line here.
    pub content: &'a [u8],
}

/// Why a line is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogLineError {
    /// It does not start with a timestamp.
    #[error("the log line does not start with an RFC 3339 time")]
    Timestamp,
    /// The second field is neither `stdout` nor `stderr`.
    #[error("the log line has no stream")]
    Stream,
    /// The third field is missing.
    #[error("the log line has no tag")]
    Tag,
}

/// Whether the content continues in the next line of the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// It is complete (`F`).
    Full,
    /// The runtime split a longer line here (`P`).
    Partial,
}

/// The header of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogHeader<'a> {
    /// The timestamp as written by the runtime.
    pub(super) time: &'a [u8],
    /// When it was written.
    pub(super) timestamp: Timestamp,
    pub(super) stream: LogStream,
    /// Whether it is partial.
    pub(super) extent: Extent,
}

impl<'a> LogHeader<'a> {
    /// Splits a line into header and content. Tags other than a leading `P` (partial) are ignored, because the format may gain
    /// some.
    pub(super) fn parse(line: &'a [u8]) -> Result<(Self, &'a [u8]), LogLineError> {
        let (time, rest) = field(line).ok_or(LogLineError::Timestamp)?;
        let timestamp = std::str::from_utf8(time)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(LogLineError::Timestamp)?;
        let (stream, rest) = field(rest).ok_or(LogLineError::Stream)?;
        let stream = match stream {
            b"stdout" => LogStream::Stdout,
            b"stderr" => LogStream::Stderr,
            _ => return Err(LogLineError::Stream),
        };
        let (tags, content) = field(rest).ok_or(LogLineError::Tag)?;
        let is_partial = tags.split(|b| *b == b':').next() == Some(b"P");
        let extent = if is_partial { Extent::Partial } else { Extent::Full };
        Ok((Self { time, timestamp, stream, extent }, content))
    }
}

impl<'a> LogLine<'a> {
    /// Parses a line, given with its line end if it has one.
    pub fn parse(line: &'a [u8]) -> Result<Self, LogLineError> {
        let (header, content) = LogHeader::parse(line)?;
        let content = match header.extent {
            Extent::Full => content,
            Extent::Partial => content.strip_suffix(b"\n").unwrap_or(content),
        };
        Ok(Self { timestamp: header.timestamp, stream: header.stream, content })
    }
}

/// Splits at the next space.
fn field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn full_and_partial_lines_are_distinguished() {
        let full = LogLine::parse(b"2016-10-06T00:17:09.669794203Z stderr F log content 2\n").unwrap();
        assert_eq!((full.stream, full.content), (LogStream::Stderr, &b"log content 2\n"[..]));
        assert_eq!(full.timestamp.subsec_nanosecond(), 669_794_203);
        let partial = LogLine::parse(b"2016-10-06T00:17:09.669794202+02:00 stdout P log \n").unwrap();
        assert_eq!((partial.stream, partial.content), (LogStream::Stdout, &b"log "[..]));
        assert_eq!(partial.timestamp.to_string(), "2016-10-05T22:17:09.669794202Z");
    }

    #[test]
    fn unknown_tags_and_empty_content_are_accepted() {
        assert_eq!(LogLine::parse(b"2016-10-06T00:17:09Z stdout F:x:y z\n").unwrap().content, b"z\n");
        assert_eq!(LogLine::parse(b"2016-10-06T00:17:09Z stdout P:x z\n").unwrap().content, b"z");
        assert_eq!(LogLine::parse(b"2016-10-06T00:17:09Z stdout F \n").unwrap().content, b"\n");
        assert_eq!(LogLine::parse(b"2016-10-06T00:17:09Z stdout F ").unwrap().content, b"");
    }

    #[test]
    fn a_missing_field_is_named() {
        for (line, error) in [
            (&b""[..], LogLineError::Timestamp),
            (b"yesterday stdout F x", LogLineError::Timestamp),
            (b"2016-10-06T00:17:09Z", LogLineError::Timestamp),
            (b"2016-10-06T00:17:09Z stdlog F x", LogLineError::Stream),
            (b"2016-10-06T00:17:09Z stdout\n", LogLineError::Stream),
            (b"2016-10-06T00:17:09Z stdout F\n", LogLineError::Tag),
            (b"{\"log\":\"docker's format\",\"stream\":\"stdout\"}", LogLineError::Timestamp),
        ] {
            assert_eq!(LogLine::parse(line), Err(error), "{}", String::from_utf8_lossy(line));
        }
    }

    proptest! {
        /// Any output of a container is read back.
        #[test]
        fn lines_are_read_back(
            second in -2_000_000_000i64..4_000_000_000, nanosecond in 0i32..1_000_000_000,
            stderr: bool, partial: bool, content in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let timestamp = Timestamp::new(second, nanosecond).unwrap();
            let (stream, name) = if stderr { (LogStream::Stderr, "stderr") } else { (LogStream::Stdout, "stdout") };
            let content: Vec<u8> = content.into_iter().filter(|b| *b != b'\n').collect();
            let mut line = format!("{timestamp} {name} {} ", if partial { 'P' } else { 'F' }).into_bytes();
            line.extend(&content);
            line.push(b'\n');
            let parsed = LogLine::parse(&line).unwrap();
            prop_assert_eq!((parsed.timestamp, parsed.stream), (timestamp, stream));
            let end = if partial { content.len() } else { content.len() + 1 };
            prop_assert_eq!(parsed.content.len(), end);
            prop_assert!(parsed.content.starts_with(&content));
        }

        #[test]
        fn no_line_makes_the_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = LogLine::parse(&line);
        }
    }
}
