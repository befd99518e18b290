//! Finds the start of the last lines of a log from its end. A line that the runtime split counts as one.

use std::io::{self, Read, Seek, SeekFrom};

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

/// Finds the last `count` lines of the first `size` bytes. An unterminated last line counts.
pub(super) fn last_lines<F: Read + Seek>(file: &mut F, count: u64, size: u64) -> io::Result<Start> {
    if count == 0 {
        return Ok(Start { offset: size, skip: 0 });
    }
    let mut counter = LineCounter { wanted: count, lines: 0, is_seen: PerStream::default(), candidate: None };
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
                && let Some(found) = counter.line(offset, &buffer[from..length])
            {
                return Ok(found);
            }
        }
        if start == 0
            && let Some(found) = counter.line(0, &buffer[..length])
        {
            return Ok(found);
        }
        end = start;
    }
    // The text starts here, so no line is split before it.
    Ok(counter.candidate.map_or(Start { offset: 0, skip: 0 }, |candidate| candidate.start))
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
        last_lines(&mut Cursor::new(text.as_bytes()), count, text.len() as u64).unwrap()
    }

    fn line(tag: &str, stream: &str, text: &str) -> String {
        format!("2026-01-01T00:00:00Z {stream} {tag} {text}\n")
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
        assert_eq!(start(&text, 0), Start { offset: text.len() as u64, skip: 0 });
        assert_eq!(start("", 5), Start { offset: 0, skip: 0 });
    }
}
