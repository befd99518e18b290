//! Decoding and finding the last lines, compared with a model that has the whole log in memory.

use std::io::Cursor;

use jiff::Timestamp;
use proptest::prelude::*;

use super::decode::{Decoder, HEADER_MAX, HELD_MAX};
use super::last::{LastLines, Start};
use super::options::LogOptions;
use crate::log::LogStream;
use crate::log::line::{Extent, LogHeader};

const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

fn raw(second: i64, stream: &str, tag: &str, text: &[u8]) -> Vec<u8> {
    let time = Timestamp::from_second(second).unwrap();
    [format!("{time} {stream} {tag} ").as_bytes(), text, b"\n"].concat()
}

fn decoded(mut decoder: Decoder, text: &[u8], chunk: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in text.chunks(chunk) {
        decoder.feed(piece, &mut out);
    }
    decoder.finish(&mut out);
    out
}

fn plain() -> Decoder {
    Decoder::new(0, &LogOptions::default())
}

/// The start of the last lines; everything if there are not as many.
fn start(log: &[u8], tail: u64) -> Start {
    let found = LastLines::new(tail).search(&mut Cursor::new(log), log.len() as u64).unwrap();
    found.unwrap_or(Start { offset: 0, skip: 0 })
}

fn shown(text: &[u8]) -> String {
    String::from_utf8(decoded(plain(), text, usize::MAX)).unwrap()
}

/// Lines in order of their start, with their time; lines without the format have none.
struct Line {
    writer: Option<LogStream>,
    timestamp: Option<Timestamp>,
    text: Vec<u8>,
    has_ended: bool,
}

/// A time as it is output, and a space.
fn full_time(time: Timestamp) -> Vec<u8> {
    format!("{time:.9} ").into_bytes()
}

fn model(text: &[u8], tail: Option<u64>, since: Option<Timestamp>, timestamps: bool) -> Vec<u8> {
    let mut lines: Vec<Line> = Vec::new();
    for raw in text.split_inclusive(|byte| *byte == b'\n') {
        let (header, content) = match LogHeader::parse(raw) {
            Ok((header, content)) => (Some(header), content),
            Err(_) => (None, raw),
        };
        let writer = header.map(|header| header.stream);
        let at = lines.iter().position(|line| line.writer == writer && !line.has_ended);
        let at = at.unwrap_or_else(|| {
            let time = header.filter(|_| timestamps).map(|header| full_time(header.timestamp));
            lines.push(Line {
                writer,
                timestamp: header.map(|header| header.timestamp),
                text: time.unwrap_or_default(),
                has_ended: false,
            });
            lines.len() - 1
        });
        let content_only = content.strip_suffix(b"\n").unwrap_or(content);
        lines[at].text.extend_from_slice(content_only);
        let is_full = header.is_none_or(|header| header.extent == Extent::Full);
        lines[at].has_ended = is_full && content_only.len() < content.len();
    }
    let first = tail.map_or(0, |tail| lines.len().saturating_sub(tail as usize));
    let count = lines.len();
    let mut out = Vec::new();
    for (at, line) in lines.into_iter().enumerate().skip(first) {
        if line.timestamp.is_none_or(|timestamp| since.is_none_or(|since| timestamp >= since)) {
            out.extend(line.text);
            if line.has_ended || at + 1 < count {
                out.push(b'\n');
            }
        }
    }
    out
}

#[test]
fn parts_are_joined_and_streams_are_not_interleaved() {
    let log = [
        raw(1, STDOUT, "P", b"one "),
        raw(2, STDERR, "P", b"error "),
        raw(3, STDERR, "F", b"whole"),
        raw(4, STDOUT, "F", b"line"),
        raw(5, STDOUT, "F", b""),
    ]
    .concat();
    assert_eq!(shown(&log), "one line\nerror whole\n\n");
}

#[test]
fn text_without_the_format_is_output_as_is() {
    let docker = b"{\"log\":\"hello\\n\",\"stream\":\"stdout\"}\n";
    let log =
        [&raw(1, STDOUT, "F", b"a")[..], docker, b"\n2026-01-01T00:00:00Z stdout\n", b"x y z w"].concat();
    assert_eq!(
        shown(&log),
        "a\n{\"log\":\"hello\\n\",\"stream\":\"stdout\"}\n\n2026-01-01T00:00:00Z stdout\nx y z w"
    );
    let long = [b"z".repeat(3 * HEADER_MAX), b"\n".to_vec()].concat();
    assert_eq!(shown(&long).as_bytes(), long);
}

#[test]
fn bytes_that_are_not_utf8_pass_through() {
    let log = raw(1, STDOUT, "F", b"\xff\x00\xfe \r");
    assert_eq!(decoded(plain(), &log, 1), b"\xff\x00\xfe \r\n");
}

#[test]
fn timestamps_have_nanoseconds_and_are_once_per_line() {
    let log = b"2026-01-01T00:00:00.12+02:00 stdout P a\n2026-01-01T00:00:09Z stdout F b\nhuh\n";
    let out = decoded(Decoder::new(0, &LogOptions { timestamps: true, ..LogOptions::default() }), log, 7);
    assert_eq!(out, b"2026-01-01T00:00:00.120000000+02:00 ab\nhuh\n");
}

#[test]
fn one_stream_is_not_delayed_by_the_other() {
    let options = LogOptions { stream: Some(LogStream::Stderr), ..LogOptions::default() };
    let mut decoder = Decoder::new(0, &options);
    let mut out = Vec::new();
    decoder.feed(&raw(1, STDOUT, "P", b"prompt"), &mut out);
    decoder.feed(&raw(2, STDERR, "P", b"an "), &mut out);
    decoder.feed(b"no line of a runtime\n", &mut out);
    decoder.feed(&raw(3, STDERR, "F", b"error"), &mut out);
    assert_eq!(out, b"an error\n");
}

#[test]
fn a_huge_line_passes_through() {
    let mut decoder = plain();
    let mut out = Vec::new();
    decoder.feed(b"2026-01-01T00:00:00Z stdout F ", &mut out);
    let chunk = [b'x'; 4096];
    for _ in 0..2000 {
        out.clear();
        decoder.feed(&chunk, &mut out);
        assert_eq!(out, chunk, "nothing is held back");
    }
}

#[test]
fn little_is_held_for_a_line_without_end() {
    let mut decoder = plain();
    let mut out = Vec::new();
    decoder.feed(&raw(1, STDOUT, "P", b"prompt"), &mut out);
    let line = raw(2, STDERR, "F", &[b'e'; 1000]);
    for count in 1..2000 {
        decoder.feed(&line, &mut out);
        assert!(out.len() + HELD_MAX + 2000 > count * 1001, "{} of {count} lines", out.len());
    }
    assert!(out.starts_with(b"prompt\neee"));
    decoder.feed(&raw(3, STDOUT, "F", b"rest"), &mut out);
    decoder.finish(&mut out);
    assert!(out.ends_with(b"eee\nrest\n"));
}

#[test]
fn held_hidden_lines_are_bounded() {
    let since = Some(Timestamp::from_second(10).unwrap());
    let mut decoder = Decoder::new(0, &LogOptions { since, ..LogOptions::default() });
    let mut out = Vec::new();
    decoder.feed(&raw(20, STDOUT, "P", b"prompt"), &mut out);
    for _ in 0..HELD_MAX / 16 {
        decoder.feed(&raw(2, STDERR, "F", b"x"), &mut out);
    }
    decoder.feed(&raw(20, STDERR, "F", b"late"), &mut out);
    assert_eq!(out, b"prompt\nlate\n", "the line under way was broken");
}

#[test]
fn held_lines_are_output_when_no_more_text_arrives() {
    let mut decoder = plain();
    let mut out = Vec::new();
    decoder.feed(&raw(1, STDOUT, "P", b"prompt"), &mut out);
    decoder.settle(&mut out);
    assert_eq!(out, b"prompt", "nothing waits: it is not broken");
    decoder.feed(&raw(1, STDERR, "F", b"error"), &mut out);
    decoder.feed(b"2026", &mut out);
    decoder.settle(&mut out);
    assert_eq!(out, b"prompt", "the runtime is in the middle of writing");
    decoder.feed(b"-01-01T00:00:00Z stderr F more\n", &mut out);
    decoder.settle(&mut out);
    assert_eq!(out, b"prompt\nerror\nmore\n");
}

#[test]
fn an_unterminated_file_does_not_swallow_the_next_one() {
    let mut decoder = plain();
    let mut out = Vec::new();
    for left in ["2026-01-01T00:00:00Z std", "2026-01-01T00:00:00Z stdout F half"] {
        decoder.feed(left.as_bytes(), &mut out);
        decoder.next_file(&mut out);
    }
    decoder.feed(&raw(1, STDOUT, "P", b"begun "), &mut out);
    decoder.next_file(&mut out);
    decoder.feed(&raw(2, STDOUT, "F", b"ended"), &mut out);
    assert_eq!(out, b"2026-01-01T00:00:00Z std\nhalf\nbegun ended\n");
}

/// Raw logs: parts of both streams in any order, with text without the format, and possibly a truncated last line.
fn logs() -> impl Strategy<Value = Vec<u8>> {
    let content = proptest::collection::vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..40);
    let line = (0..8u8, any::<bool>(), 0..20i64, content).prop_map(|(writer, is_partial, second, text)| {
        let tag = if is_partial { "P" } else { "F" };
        match writer {
            0 => [&b"? "[..], &text, b"\n"].concat(),
            1..=4 => raw(second, STDOUT, tag, &text),
            _ => raw(second, STDERR, tag, &text),
        }
    });
    (proptest::collection::vec(line, 0..40), 0..60usize).prop_map(|(lines, cut)| {
        let mut text = lines.concat();
        text.truncate(text.len() - cut.min(text.len()).saturating_sub(30));
        text
    })
}

proptest! {
    #[test]
    fn decodes_like_the_model(
        log in logs(), chunk in 1usize..200, since in proptest::option::of(0..20i64), timestamps: bool,
    ) {
        let since = since.map(|second| Timestamp::from_second(second).unwrap());
        let out = decoded(Decoder::new(0, &LogOptions { since, timestamps, ..LogOptions::default() }), &log, chunk);
        prop_assert_eq!(out, model(&log, None, since, timestamps));
    }

    #[test]
    fn the_last_lines_match_the_model(
        log in logs(), tail in 1..50u64, since in proptest::option::of(0..20i64), filler in 0..3usize,
    ) {
        let since = since.map(|second| Timestamp::from_second(second).unwrap());
        // Lines that span search blocks.
        let long = raw(1, STDOUT, "F", &[b'l'; 20_000]).repeat(filler);
        let log = [raw(1, STDERR, "F", b"first"), long, log].concat();
        let start = start(&log, tail);
        let options = LogOptions { since, ..LogOptions::default() };
        let out = decoded(Decoder::new(start.skip, &options), &log[start.offset as usize..], 1000);
        prop_assert_eq!(out, model(&log, Some(tail), since, false));
    }

    #[test]
    fn nothing_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..600), tail in 1..9u64) {
        let start = start(&text, tail);
        let options = LogOptions { timestamps: true, ..LogOptions::default() };
        decoded(Decoder::new(start.skip, &options), &text[start.offset as usize..], 50);
    }
}
