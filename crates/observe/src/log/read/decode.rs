//! Decodes the raw text of a log to the container's output. Pure: bytes in, bytes out, in chunks of any size.
//!
//! Runtimes split long lines, and parts of stdout and stderr may alternate. The line that began first (the open line) is output
//! as it arrives; later lines are held back until the open line is complete, so that lines are not interleaved. The held text is
//! bounded: when it becomes too large, or no more text arrives, the open line is broken instead.

use std::collections::VecDeque;
use std::mem::size_of;

use jiff::Timestamp;

use super::options::LogOptions;
use crate::log::LogStream;
use crate::log::line::{Extent, LogHeader};

/// Maximum length of a header. Timestamps have at most 35 bytes, streams 6.
pub(super) const HEADER_MAX: usize = 256;
/// Maximum bytes held back: a few parts of the size that runtimes use (16 KiB).
pub(super) const HELD_MAX: usize = 256 * 1024;

const NANOSECOND_DIGITS: usize = 9;

/// The writer of a line: a stream, or unknown for text that is not in the format. Such text is output as is rather than lost.
type Writer = Option<LogStream>;

/// The decoder's position in a raw line.
#[derive(Clone, Copy)]
enum Place {
    Header { spaces: u8 },
    Content { writer: Writer, extent: Extent },
}

/// The line being output.
struct Open {
    writer: Writer,
    is_shown: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Growing,
    Ended,
}

/// A line held back until the open one is complete.
struct Held {
    writer: Writer,
    is_shown: bool,
    progress: Progress,
    text: Vec<u8>,
}

impl Held {
    /// Its share of [`HELD_MAX`]; hidden lines count too.
    fn cost(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

/// Decodes one container's log.
pub(super) struct Decoder {
    since: Option<Timestamp>,
    /// The only stream to output; both if none.
    stream: Option<LogStream>,
    /// Whether each line starts with its time.
    timestamps: bool,
    /// Number of lines to skip.
    skip: u64,
    place: Place,
    header: Vec<u8>,
    open: Option<Open>,
    held: VecDeque<Held>,
    held_cost: usize,
}

impl Decoder {
    /// A decoder that skips the first `skip` lines, and all lines that nobody asked for.
    pub(super) fn new(skip: u64, options: &LogOptions) -> Self {
        Self {
            since: options.since,
            stream: options.stream,
            timestamps: options.timestamps,
            skip,
            place: Place::Header { spaces: 0 },
            header: Vec::new(),
            open: None,
            held: VecDeque::new(),
            held_cost: 0,
        }
    }

    /// Decodes raw text and appends the output to `out`.
    pub(super) fn feed(&mut self, mut raw: &[u8], out: &mut Vec<u8>) {
        while !raw.is_empty() {
            raw = match self.place {
                Place::Header { spaces } => self.feed_header(spaces, raw, out),
                Place::Content { writer, extent } => self.feed_content(writer, extent, raw, out),
            };
        }
    }

    /// Outputs the held lines although the open line is incomplete, because no more text arrives for now.
    pub(super) fn settle(&mut self, out: &mut Vec<u8>) {
        if self.is_between_lines() && !self.held.is_empty() {
            self.close(out);
        }
    }

    /// Completes an unterminated raw line before the text of another file.
    pub(super) fn next_file(&mut self, out: &mut Vec<u8>) {
        if !self.is_between_lines() {
            self.feed(b"\n", out);
        }
    }

    /// Outputs everything left. A last line without a line end stays without one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.header.is_empty() {
            self.begin_malformed(out);
        }
        while !self.held.is_empty() {
            self.close(out);
        }
    }

    fn is_between_lines(&self) -> bool {
        match self.place {
            Place::Header { .. } => self.header.is_empty(),
            Place::Content { .. } => false,
        }
    }

    /// Collects the header up to its third space.
    fn feed_header<'r>(&mut self, mut spaces: u8, raw: &'r [u8], out: &mut Vec<u8>) -> &'r [u8] {
        let window = &raw[..raw.len().min(HEADER_MAX - self.header.len())];
        for at in memchr::memchr2_iter(b' ', b'\n', window) {
            if raw[at] == b'\n' {
                self.header.extend_from_slice(&raw[..at]);
                self.begin_malformed(out);
                // The line end belongs to the content.
                return &raw[at..];
            }
            spaces += 1;
            if spaces == 3 {
                self.header.extend_from_slice(&raw[..=at]);
                self.begin_line(out);
                return &raw[at + 1..];
            }
        }
        self.header.extend_from_slice(window);
        if self.header.len() == HEADER_MAX {
            self.begin_malformed(out);
        } else {
            self.place = Place::Header { spaces };
        }
        &raw[window.len()..]
    }

    fn feed_content<'r>(
        &mut self,
        writer: Writer,
        extent: Extent,
        raw: &'r [u8],
        out: &mut Vec<u8>,
    ) -> &'r [u8] {
        let Some(end) = memchr::memchr(b'\n', raw) else {
            self.write(writer, raw, out);
            return &[];
        };
        self.write(writer, &raw[..end], out);
        match extent {
            Extent::Full => self.end(writer, out),
            Extent::Partial => {}
        }
        self.place = Place::Header { spaces: 0 };
        &raw[end + 1..]
    }

    /// Handles a complete header.
    fn begin_line(&mut self, out: &mut Vec<u8>) {
        let header_bytes = std::mem::take(&mut self.header);
        match LogHeader::parse(&header_bytes) {
            Ok((header, _)) => {
                let is_shown = self.since.is_none_or(|since| header.timestamp >= since);
                self.begin(Some(header.stream), is_shown, header.time, out);
                self.place = Place::Content { writer: Some(header.stream), extent: header.extent };
                self.header = header_bytes;
                self.header.clear();
            }
            Err(_) => {
                self.header = header_bytes;
                self.begin_malformed(out);
            }
        }
    }

    /// Handles text that is not a header.
    fn begin_malformed(&mut self, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.header);
        self.begin(None, true, b"", out);
        self.write(None, &text, out);
        self.place = Place::Content { writer: None, extent: Extent::Full };
    }

    /// Starts a raw line: a new line or the next part of its writer's incomplete one.
    fn begin(&mut self, writer: Writer, is_shown: bool, time: &[u8], out: &mut Vec<u8>) {
        let is_other = self.stream.is_some_and(|wanted| writer != Some(wanted));
        if is_other || self.is_open(writer) || self.growing(writer).is_some() {
            return;
        }
        let mut text = Vec::new();
        if self.timestamps && is_shown && !time.is_empty() {
            push_time(time, &mut text);
            text.push(b' ');
        }
        let line = Held { writer, is_shown, progress: Progress::Growing, text };
        self.held_cost += line.cost();
        self.held.push_back(line);
        self.advance(out);
    }

    fn write(&mut self, writer: Writer, text: &[u8], out: &mut Vec<u8>) {
        if let Some(open) = self.open.as_ref().filter(|open| open.writer == writer) {
            if open.is_shown {
                out.extend_from_slice(text);
            }
            return;
        }
        if let Some(line) = self.growing(writer)
            && line.is_shown
        {
            line.text.extend_from_slice(text);
            self.held_cost += text.len();
        }
        if self.held_cost > HELD_MAX {
            self.close(out);
        }
    }

    fn end(&mut self, writer: Writer, out: &mut Vec<u8>) {
        if self.is_open(writer) {
            self.close(out);
        } else if let Some(line) = self.growing(writer) {
            line.progress = Progress::Ended;
        }
    }

    fn is_open(&self, writer: Writer) -> bool {
        self.open.as_ref().is_some_and(|open| open.writer == writer)
    }

    fn growing(&mut self, writer: Writer) -> Option<&mut Held> {
        self.held.iter_mut().find(|line| line.writer == writer && line.progress == Progress::Growing)
    }

    /// Closes the open line and outputs the held ones. If closed early, its remainder becomes a separate line.
    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some_and(|open| open.is_shown) {
            out.push(b'\n');
        }
        self.advance(out);
    }

    /// Outputs held lines until one is incomplete, which becomes the open one.
    fn advance(&mut self, out: &mut Vec<u8>) {
        while self.open.is_none()
            && let Some(line) = self.held.pop_front()
        {
            self.held_cost -= line.cost();
            let is_skipped = self.skip > 0;
            self.skip -= u64::from(is_skipped);
            let is_shown = line.is_shown && !is_skipped;
            if is_shown {
                out.extend_from_slice(&line.text);
            }
            match line.progress {
                Progress::Growing => self.open = Some(Open { writer: line.writer, is_shown }),
                Progress::Ended if is_shown => out.push(b'\n'),
                Progress::Ended => {}
            }
        }
    }
}

/// Appends a time with all nine digits of its nanoseconds, as the stock kubelet does; runtimes omit trailing zeros.
fn push_time(time: &[u8], text: &mut Vec<u8>) {
    let zone = time.iter().rposition(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-')).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    text.extend_from_slice(clock);
    let digits = match clock.iter().rposition(|byte| *byte == b'.') {
        Some(point) => clock.len() - point - 1,
        None => {
            text.push(b'.');
            0
        }
    };
    text.extend(std::iter::repeat_n(b'0', NANOSECOND_DIGITS.saturating_sub(digits)));
    text.extend_from_slice(zone);
}
