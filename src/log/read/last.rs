//! Where the last lines of a log start, found from its end. Counts what the container wrote as one line as one, in however
//! many pieces the runtime cut it.

use std::io::{self, Read, Seek, SeekFrom};

use super::decode::HEADER_MAX;
use crate::log::LogStream;
use crate::log::line::{Extent, LogHeader};

/// Bytes searched at once.
const BLOCK: usize = 64 * 1024;
/// A stream that is silent for so many bytes of log is taken to be between two lines. Where it is not, the rest of its
/// line counts as one.
const SILENCE: u64 = 64 * 1024;

/// Where to read from for the last lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Offset to decode from.
    pub(super) offset: u64,
    /// Lines to leave out from there.
    pub(super) skip: u64,
}

/// Finds the last `wanted` lines of the first `size` bytes. A last line without its end counts.
pub(super) fn last_lines<F: Read + Seek>(file: &mut F, wanted: u64, size: u64) -> io::Result<Start> {
    if wanted == 0 {
        return Ok(Start { offset: size, skip: 0 });
    }
    let mut count = Count { wanted, lines: 0, is_seen: Each::default(), candidate: None };
    // The header of a line that starts at a block's end lies behind it.
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
                && let Some(found) = count.line(offset, &buffer[from..length])
            {
                return Ok(found);
            }
        }
        if start == 0
            && let Some(found) = count.line(0, &buffer[..length])
        {
            return Ok(found);
        }
        end = start;
    }
    // Nothing before it can be cut.
    Ok(count.candidate.map_or(Start { offset: 0, skip: 0 }, |candidate| candidate.start))
}

/// Something of each stream.
#[derive(Clone, Copy, Default)]
struct Each<T> {
    stdout: T,
    stderr: T,
}

impl<T> Each<T> {
    fn of(&mut self, stream: LogStream) -> &mut T {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        }
    }
}

/// A place to start from, if what comes before it shows that no line is cut there.
struct Candidate {
    start: Start,
    /// Streams known to be between two lines there.
    is_between: Each<bool>,
}

/// Counts lines from the last to the first.
struct Count {
    wanted: u64,
    lines: u64,
    /// Streams of which something was counted.
    is_seen: Each<bool>,
    candidate: Option<Candidate>,
}

impl Count {
    /// Takes the raw line at `offset`; `text` starts there. Says where to start once that is known.
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
                    // A line that was never finished is one, too.
                    Extent::Partial => is_last,
                }
            }
        };
        self.lines += u64::from(ends_line);
        if self.candidate.is_none() && self.lines >= self.wanted {
            let start = Start { offset, skip: self.lines - self.wanted };
            self.candidate = Some(Candidate { start, is_between: Each::default() });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn start(text: &str, wanted: u64) -> Start {
        last_lines(&mut Cursor::new(text.as_bytes()), wanted, text.len() as u64).unwrap()
    }

    fn line(tag: &str, stream: &str, text: &str) -> String {
        format!("2026-01-01T00:00:00Z {stream} {tag} {text}\n")
    }

    #[test]
    fn no_more_is_read_than_it_takes() {
        let one = line("F", "stdout", "x").repeat(100_000);
        let both = [line("F", "stderr", "e"), line("F", "stdout", "o")].concat().repeat(100_000);
        for text in [one, both] {
            let found = start(&text, 2);
            assert!(text.len() as u64 - found.offset < 2 * SILENCE, "{found:?}");
        }
    }

    #[test]
    fn pieces_of_one_line_are_one() {
        let piece = "y".repeat(16 * 1024);
        let long = line("P", "stdout", &piece).repeat(100) + &line("F", "stdout", "end");
        let text = line("F", "stderr", "e") + &line("F", "stdout", "o") + &long;
        assert_eq!(start(&text, 1), Start { offset: (text.len() - long.len()) as u64, skip: 0 });
        assert_eq!(start(&text, 9), Start { offset: 0, skip: 0 });
        assert_eq!(start(&text, 0), Start { offset: text.len() as u64, skip: 0 });
        assert_eq!(start("", 5), Start { offset: 0, skip: 0 });
    }
}
