//! From the raw text of a log to what the container wrote. Pure: bytes in, bytes out, in pieces of any size.
//!
//! Runtimes cut long lines into pieces, and pieces of stdout and stderr may alternate. The line that began first is
//! written out as it comes; what others write meanwhile is held until it ends, so that no line is torn. What is held is
//! bounded: when it is too much, or nothing more comes, the line under way is broken instead.

use std::collections::VecDeque;
use std::mem::size_of;

use jiff::Timestamp;

use crate::log::LogStream;
use crate::log::line::{Extent, LogHeader};

/// Longest header; what has none by then is no line of the format. Times are at most 35 bytes, streams 6.
pub(super) const HEADER_MAX: usize = 256;
/// Most bytes held while another line is under way: a few pieces of the size runtimes cut (16 KiB).
pub(super) const HELD_MAX: usize = 256 * 1024;

/// Who wrote a line: a stream of the container, or nobody known where the text is not of the format. Such text is shown as
/// it is rather than lost.
type Writer = Option<LogStream>;

/// Where in a raw line the decoder is.
#[derive(Clone, Copy)]
enum Place {
    Header { spaces: u8 },
    Content { writer: Writer, extent: Extent },
}

/// The line that is being written out.
struct Open {
    writer: Writer,
    is_shown: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Growing,
    Ended,
}

/// A line that waits for the open one to end.
struct Held {
    writer: Writer,
    is_shown: bool,
    progress: Progress,
    text: Vec<u8>,
}

impl Held {
    /// What it takes of [`HELD_MAX`]; lines that are not shown are not for free either.
    fn cost(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

/// Decodes one container's log.
pub(super) struct Decoder {
    since: Option<Timestamp>,
    /// Whether each line starts with its time.
    timestamps: bool,
    /// Lines to leave out before any is shown.
    skip: u64,
    place: Place,
    header: Vec<u8>,
    open: Option<Open>,
    held: VecDeque<Held>,
    held_cost: usize,
}

impl Decoder {
    /// A decoder that leaves out the first `skip` lines, and lines that began before `since`.
    pub(super) fn new(skip: u64, since: Option<Timestamp>, timestamps: bool) -> Self {
        Self {
            since,
            timestamps,
            skip,
            place: Place::Header { spaces: 0 },
            header: Vec::new(),
            open: None,
            held: VecDeque::new(),
            held_cost: 0,
        }
    }

    /// Takes raw text and appends what it says to `out`.
    pub(super) fn feed(&mut self, mut raw: &[u8], out: &mut Vec<u8>) {
        while !raw.is_empty() {
            raw = match self.place {
                Place::Header { spaces } => self.feed_header(spaces, raw, out),
                Place::Content { writer, extent } => self.feed_content(writer, extent, raw, out),
            };
        }
    }

    /// Shows what is held though the line under way has not ended: nothing more comes for now.
    pub(super) fn settle(&mut self, out: &mut Vec<u8>) {
        if self.is_between_lines() && !self.held.is_empty() {
            self.close(out);
        }
    }

    /// Ends a raw line that was left without its end: the next text is of another file.
    pub(super) fn next_file(&mut self, out: &mut Vec<u8>) {
        if !self.is_between_lines() {
            self.feed(b"\n", out);
        }
    }

    /// Shows all that is left. A last line without an end stays without one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.header.is_empty() {
            self.begin_foreign(out);
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

    /// Gathers the header up to its third space.
    fn feed_header<'r>(&mut self, mut spaces: u8, raw: &'r [u8], out: &mut Vec<u8>) -> &'r [u8] {
        for (at, byte) in raw.iter().enumerate() {
            let rest = &raw[at + 1..];
            if *byte == b'\n' {
                // The end of the line is content.
                self.begin_foreign(out);
                return &raw[at..];
            }
            self.header.push(*byte);
            spaces += u8::from(*byte == b' ');
            if spaces == 3 {
                self.begin_line(out);
                return rest;
            }
            if self.header.len() == HEADER_MAX {
                self.begin_foreign(out);
                return rest;
            }
        }
        self.place = Place::Header { spaces };
        &[]
    }

    fn feed_content<'r>(
        &mut self,
        writer: Writer,
        extent: Extent,
        raw: &'r [u8],
        out: &mut Vec<u8>,
    ) -> &'r [u8] {
        let Some(end) = raw.iter().position(|byte| *byte == b'\n') else {
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

    /// The header is whole.
    fn begin_line(&mut self, out: &mut Vec<u8>) {
        let gathered = std::mem::take(&mut self.header);
        match LogHeader::parse(&gathered) {
            Ok((header, _)) => {
                let is_shown = self.since.is_none_or(|since| header.timestamp >= since);
                self.begin(Some(header.stream), is_shown, header.time, out);
                self.place = Place::Content { writer: Some(header.stream), extent: header.extent };
                self.header = gathered;
                self.header.clear();
            }
            Err(_) => {
                self.header = gathered;
                self.begin_foreign(out);
            }
        }
    }

    /// What was gathered is no header.
    fn begin_foreign(&mut self, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.header);
        self.begin(None, true, b"", out);
        self.write(None, &text, out);
        self.place = Place::Content { writer: None, extent: Extent::Full };
    }

    /// A raw line begins: a line of its own, or a further piece of the one its writer has not ended.
    fn begin(&mut self, writer: Writer, is_shown: bool, time: &[u8], out: &mut Vec<u8>) {
        if self.is_open(writer) || self.growing(writer).is_some() {
            return;
        }
        let mut text = Vec::new();
        if self.timestamps && is_shown && !time.is_empty() {
            text.extend_from_slice(time);
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

    /// Ends the open line and shows what waited for that. Before its time, what its writer still has of it becomes a
    /// line of its own.
    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some_and(|open| open.is_shown) {
            out.push(b'\n');
        }
        self.advance(out);
    }

    /// While no line is open, shows the next one that is held; one that still grows becomes the open one.
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
