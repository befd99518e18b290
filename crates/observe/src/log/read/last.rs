//! Finds the start of the last lines of a log from its end, in the newest file and the ones before it. A line that the runtime split counts as one.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::decode::HEADER_MAX;
use crate::log::LogStream;
use crate::log::line::{Extent, LogHeader};

/// Size of a search block in bytes.
const BLOCK: usize = 64 * 1024;
/// A stream without text for this many bytes is assumed to be between lines. If it is not, the rest of its line counts as a
/// line.
const SILENCE: u64 = 64 * 1024;

/// The start of the last lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Offset to decode from.
    pub(super) offset: u64,
    /// Number of lines to skip from there.
    pub(super) skip: u64,
}

/// Finds the last lines of the files of a log, which are searched from the newest to the oldest.
pub(super) struct LastLines {
    counter: LineCounter,
}

impl LastLines {
    /// A search for the last `count` lines, at least one.
    pub(super) fn new(count: u64) -> Self {
        let counter = LineCounter { wanted: count, lines: 0, is_seen: PerStream::default(), candidate: None };
        Self { counter }
    }

    /// Searches the first `size` bytes of the next file. An unterminated last line counts. `None` if it does not have enough lines.
    pub(super) fn search<F: Read + Seek>(&mut self, file: &mut F, size: u64) -> io::Result<Option<Start>> {
        // The header of a line that starts at a block's end is in the next block.
        let mut buffer = vec![0; BLOCK + 1 + HEADER_MAX];
        let mut end = size;
        while end > 0 {
            let start = end.saturating_sub(BLOCK as u64);
            let length = (size - start).min(buffer.len() as u64) as usize;
            let searched = (end - start) as usize;
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(&mut buffer[..length])?;
            let line_ends = buffer[..searched].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
            for (at, _) in line_ends {
                let from = at + 1;
                let offset = start + from as u64;
                if offset < size
                    && let Some(found) = self.counter.line(offset, &buffer[from..length])
                {
                    return Ok(Some(found));
                }
            }
            if start == 0
                && let Some(found) = self.counter.line(0, &buffer[..length])
            {
                return Ok(Some(found));
            }
            end = start;
        }
        // Whether a line is split between two files is not known; it then counts as two.
        Ok(self.counter.candidate.take().map(|candidate| candidate.start))
    }

    /// The same for a file that can only be read from its start to its end.
    pub(super) fn search_forward(&mut self, text: impl Read) -> io::Result<Option<Start>> {
        let mut text = BufReader::with_capacity(BLOCK, text);
        let mut file = ForwardCount::default();
        let mut head = Vec::with_capacity(HEADER_MAX);
        loop {
            let block = text.fill_buf()?;
            if block.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', block);
            let line = &block[..end.unwrap_or(block.len())];
            head.extend_from_slice(&line[..line.len().min(HEADER_MAX - head.len())]);
            let read = end.map_or(block.len(), |end| end + 1);
            text.consume(read);
            if end.is_some() {
                file.line(&head);
                head.clear();
            }
        }
        if !head.is_empty() {
            file.line(&head);
        }
        let counter = &mut self.counter;
        counter.lines += file.lines;
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            // The end of a line that is incomplete here is in a newer file, and was counted there.
            let is_seen = counter.is_seen.of(stream);
            counter.lines += u64::from(*file.is_incomplete.of(stream) && !*is_seen);
            *is_seen |= *file.is_seen.of(stream);
        }
        let skip = counter.lines.checked_sub(counter.wanted);
        Ok(skip.map(|skip| Start { offset: 0, skip }))
    }
}

/// Counts the lines of a file from the first to the last.
#[derive(Default)]
struct ForwardCount {
    /// Number of line ends.
    lines: u64,
    /// Streams with lines.
    is_seen: PerStream<bool>,
    /// Streams whose last line is incomplete.
    is_incomplete: PerStream<bool>,
}

impl ForwardCount {
    fn line(&mut self, text: &[u8]) {
        match LogHeader::parse(text) {
            Ok((header, _)) => {
                let is_partial = header.extent == Extent::Partial;
                *self.is_seen.of(header.stream) = true;
                *self.is_incomplete.of(header.stream) = is_partial;
                self.lines += u64::from(!is_partial);
            }
            Err(_) => self.lines += 1,
        }
    }
}

/// A value per stream.
#[derive(Clone, Copy, Default)]
struct PerStream<T> {
    stdout: T,
    stderr: T,
}

impl<T> PerStream<T> {
    fn of(&mut self, stream: LogStream) -> &mut T {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }
}

/// A possible start, if the text before it shows that no line is split there.
struct Candidate {
    start: Start,
    /// Streams known to be between lines there.
    is_between: PerStream<bool>,
}

/// Counts lines from the last to the first.
struct LineCounter {
    wanted: u64,
    /// Number of counted lines.
    lines: u64,
    /// Streams with counted lines.
    is_seen: PerStream<bool>,
    candidate: Option<Candidate>,
}

impl LineCounter {
    /// Processes the raw line at `offset`, where `text` starts. Returns the start once it is known.
    fn line(&mut self, offset: u64, text: &[u8]) -> Option<Start> {
        let text = &text[..text.len().min(HEADER_MAX)];
        let text = text.iter().position(|byte| *byte == b'\n').map_or(text, |end| &text[..end]);
        let header = LogHeader::parse(text).ok().map(|(header, _)| (header.stream, header.extent));
        if let Some(mut candidate) = self.candidate.take() {
            let is_cut = match header {
                Some((stream, Extent::Partial)) => !*candidate.is_between.of(stream),
                Some((stream, Extent::Full)) => {
                    *candidate.is_between.of(stream) = true;
                    false
                }
                None => false,
            };
            let is_far = candidate.start.offset - offset > SILENCE;
            if !is_cut && (is_far || candidate.is_between.stdout && candidate.is_between.stderr) {
                return Some(candidate.start);
            }
            self.candidate = (!is_cut).then_some(candidate);
        }
        let ends_line = match header {
            None => true,
            Some((stream, extent)) => {
                let is_last = !std::mem::replace(self.is_seen.of(stream), true);
                match extent {
                    Extent::Full => true,
                    // An incomplete line counts too.
                    Extent::Partial => is_last,
                }
            }
        };
        self.lines += u64::from(ends_line);
        if self.candidate.is_none() && self.lines >= self.wanted {
            let start = Start { offset, skip: self.lines - self.wanted };
            self.candidate = Some(Candidate { start, is_between: PerStream::default() });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn start(text: &str, count: u64) -> Start {
        let found = LastLines::new(count).search(&mut Cursor::new(text.as_bytes()), text.len() as u64);
        found.unwrap().unwrap_or(Start { offset: 0, skip: 0 })
    }

    fn line(tag: &str, stream: &str, text: &str) -> String {
        format!("2026-01-01T00:00:00Z {stream} {tag} {text}\n")
    }

    #[test]
    fn lines_are_counted_through_older_files() {
        let newest = line("F", "stdout", "end") + &line("F", "stderr", "e");
        let mut older = line("F", "stdout", "a") + "no line of a runtime\n" + &line("F", "stderr", "b");
        older += &line("P", "stdout", "begin ");
        let search = |count| {
            let mut search = LastLines::new(count);
            let found = search.search(&mut Cursor::new(newest.as_bytes()), newest.len() as u64).unwrap();
            assert_eq!(found, None);
            search
        };
        // The line begun in the older file ends in the newer one.
        for (count, skip) in [(3, 2), (4, 1), (5, 0)] {
            let plain = search(count).search(&mut Cursor::new(older.as_bytes()), older.len() as u64).unwrap();
            let forward = search(count).search_forward(older.as_bytes()).unwrap();
            assert_eq!(forward, Some(Start { offset: 0, skip }), "{count}");
            assert!(plain.is_some(), "{count}");
        }
        assert_eq!(search(6).search_forward(older.as_bytes()).unwrap(), None);
        assert_eq!(search(6).search(&mut Cursor::new(older.as_bytes()), older.len() as u64).unwrap(), None);
    }

    #[test]
    fn only_the_necessary_blocks_are_read() {
        let one = line("F", "stdout", "x").repeat(100_000);
        let both = [line("F", "stderr", "e"), line("F", "stdout", "o")].concat().repeat(100_000);
        for text in [one, both] {
            let found = start(&text, 2);
            assert!(text.len() as u64 - found.offset < 2 * SILENCE, "{found:?}");
        }
    }

    #[test]
    fn parts_of_a_line_count_once() {
        let piece = "y".repeat(16 * 1024);
        let long = line("P", "stdout", &piece).repeat(100) + &line("F", "stdout", "end");
        let text = line("F", "stderr", "e") + &line("F", "stdout", "o") + &long;
        assert_eq!(start(&text, 1), Start { offset: (text.len() - long.len()) as u64, skip: 0 });
        assert_eq!(start(&text, 9), Start { offset: 0, skip: 0 });
        assert_eq!(start("", 5), Start { offset: 0, skip: 0 });
    }
}
