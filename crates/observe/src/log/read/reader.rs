//! Reads a log from a given line through all its files. Blocking; each call reads a bounded amount.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::decode::Decoder;
use super::files::{LogFile, open_all, open_newer, skip_before};
use super::last::LastLines;
use super::options::LogOptions;
use crate::log::LogError;
use crate::log::error::at;

/// Size of a read in bytes.
const CHUNK: usize = 64 * 1024;

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Decoded text; empty if all of it is hidden.
    Text(Vec<u8>),
    /// The file was rotated, and the runtime may still write to it for this long.
    HandOver(Duration),
    /// The end of the last file for now.
    End,
}

/// A reader of a container's log.
pub(super) struct LogReader {
    /// The path the runtime writes to.
    path: PathBuf,
    /// The open files from the one being read on: a file that is removed meanwhile is still read.
    files: VecDeque<LogFile>,
    /// Whether to continue with what is written after it was opened.
    follows: bool,
    decoder: Decoder,
}

impl LogReader {
    /// Opens the log and finds the first line to output.
    pub(super) fn open(path: &Path, options: &LogOptions, follows: bool) -> Result<Self, LogError> {
        let mut files = open_all(path)?;
        let skip = prepare(&mut files, options, follows)
            .map_err(at(|path, source| LogError::Read { path, source }, path))?;
        let decoder = Decoder::new(skip, options);
        Ok(Self { path: path.to_owned(), files: files.into(), follows, decoder })
    }

    /// The path the runtime writes to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the next chunk. A truncated file is read from its start.
    pub(super) fn read(&mut self) -> Result<Piece, LogError> {
        let mut chunk = vec![0; CHUNK];
        let mut text = Vec::new();
        while let Some(file) = self.files.front_mut() {
            let failed = |source| LogError::Read { path: self.path.clone(), source };
            let count = file.read(&mut chunk).map_err(failed)?;
            if count > 0 {
                self.decoder.feed(&chunk[..count], &mut text);
                return Ok(Piece::Text(text));
            }
            if self.follows && file.is_truncated().map_err(failed)? {
                file.rewind().map_err(failed)?;
                self.decoder.next_file(&mut text);
                return Ok(Piece::Text(text));
            }
            if self.files.len() == 1 && !self.find_newer()? {
                return Ok(Piece::End);
            }
            let failed = |source| LogError::Read { path: self.path.clone(), source };
            let hand_over = self.files.front().map(LogFile::hand_over).transpose().map_err(failed)?;
            if let Some(left) = hand_over.flatten() {
                return Ok(Piece::HandOver(left));
            }
            self.files.pop_front();
            self.decoder.next_file(&mut text);
            if !text.is_empty() {
                return Ok(Piece::Text(text));
            }
        }
        Ok(Piece::End)
    }

    /// Opens the files after the last one, if it is followed and was rotated. Whether there are any.
    fn find_newer(&mut self) -> Result<bool, LogError> {
        let newer = match self.files.back().filter(|_| self.follows) {
            Some(last) => open_newer(&self.path, last)?,
            None => Vec::new(),
        };
        let is_found = !newer.is_empty();
        self.files.extend(newer);
        Ok(is_found)
    }

    /// The held text, because no more arrives for now.
    pub(super) fn settle(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.decoder.settle(&mut text);
        text
    }

    /// The remaining text after the last read.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.decoder.finish(&mut text);
        text
    }
}

/// Drops the files before the first line to output, and moves to it. Returns how many lines to skip from there.
fn prepare(files: &mut Vec<LogFile>, options: &LogOptions, follows: bool) -> io::Result<u64> {
    if let Some(last) = files.last_mut().filter(|_| !follows) {
        last.end_here()?;
    }
    match (options.tail, options.since) {
        (Some(0), _) => {
            files.drain(..files.len().saturating_sub(1));
            files.iter_mut().try_for_each(LogFile::seek_end)?;
            Ok(0)
        }
        (Some(lines), _) => move_to_last(files, lines),
        (None, Some(since)) => skip_before(files, since).map(|()| 0),
        (None, None) => Ok(0),
    }
}

/// The same for the last lines.
fn move_to_last(files: &mut Vec<LogFile>, lines: u64) -> io::Result<u64> {
    let mut search = LastLines::new(lines);
    let mut first = files.len();
    let mut start = None;
    while start.is_none() && first > 0 {
        first -= 1;
        let file = &mut files[first];
        let size = file.size()?;
        start = match file.plain() {
            Some(plain) => search.search(plain, size)?,
            None => search.search_forward(&mut *file)?,
        };
        file.rewind()?;
    }
    files.drain(..first);
    let Some(start) = start else { return Ok(0) };
    if let Some(file) = files.first_mut() {
        file.seek(start.offset)?;
    }
    Ok(start.skip)
}
