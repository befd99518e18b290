//! Reads one log from a given line. Blocking; each call reads a bounded amount.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::decode::Decoder;
use super::last::{Start, last_lines};
use super::rotation::successor;
use crate::log::LogError;
use crate::log::error::at;

/// Size of a read in bytes.
const CHUNK: usize = 64 * 1024;

/// Options of reading a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Only this many last lines of the current file; like the stock kubelet, rotated files are ignored.
    pub tail: Option<u64>,
    /// Only lines from this time on; applied to the last lines if both are given.
    pub since: Option<Timestamp>,
    /// Prefix each line with the runtime's timestamp and a space.
    pub timestamps: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Decoded text; empty if all of it is hidden.
    Text(Vec<u8>),
    /// End of the file for now.
    End,
}

/// A reader of a container's log.
pub(super) struct LogReader {
    /// The path the runtime writes to; the open file is renamed when rotated.
    path: PathBuf,
    file: File,
    position: u64,
    decoder: Decoder,
    chunk: Vec<u8>,
}

impl LogReader {
    /// Opens the log and finds the first line to output.
    pub(super) fn open(path: &Path, options: &LogOptions) -> Result<Self, LogError> {
        let mut file = open(path)?;
        let read = |path, source| LogError::Read { path, source };
        let start = match options.tail {
            None => Start { offset: 0, skip: 0 },
            Some(lines) => {
                let size = file.metadata().map_err(at(read, path))?.len();
                last_lines(&mut file, lines, size).map_err(at(read, path))?
            }
        };
        file.seek(SeekFrom::Start(start.offset)).map_err(at(read, path))?;
        let decoder = Decoder::new(start.skip, options.since, options.timestamps);
        Ok(Self { path: path.to_owned(), file, position: start.offset, decoder, chunk: vec![0; CHUNK] })
    }

    /// The path the runtime writes to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Current offset in the file.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Unread bytes of the file.
    pub(super) fn left(&self) -> Result<u64, LogError> {
        Ok(self.size()?.saturating_sub(self.position))
    }

    /// Reads at most `most` bytes. A truncated file is read from its start.
    pub(super) fn read(&mut self, most: u64) -> Result<Piece, LogError> {
        let chunk = self.chunk.len().min(usize::try_from(most).unwrap_or(CHUNK));
        let count = self.file.read(&mut self.chunk[..chunk]).map_err(|source| self.failed(source))?;
        let mut text = Vec::new();
        if count == 0 {
            if chunk == 0 || self.size()? >= self.position {
                return Ok(Piece::End);
            }
            self.file.rewind().map_err(|source| self.failed(source))?;
            self.position = 0;
            self.decoder.next_file(&mut text);
            return Ok(Piece::Text(text));
        }
        self.position += count as u64;
        self.decoder.feed(&self.chunk[..count], &mut text);
        Ok(Piece::Text(text))
    }

    /// Whether the file was rotated and its successor exists.
    pub(super) fn is_rotated(&self) -> Result<bool, LogError> {
        Ok(self.successor()?.is_some())
    }

    /// Continues with the successor of a rotated file.
    pub(super) fn advance(&mut self) -> Result<Piece, LogError> {
        let Some(next) = self.successor()? else { return Ok(Piece::End) };
        self.file = open(&next)?;
        self.position = 0;
        let mut text = Vec::new();
        self.decoder.next_file(&mut text);
        Ok(Piece::Text(text))
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

    fn successor(&self) -> Result<Option<PathBuf>, LogError> {
        let own = self.file.metadata().map_err(|source| self.failed(source))?;
        successor(&self.path, &own)
    }

    fn size(&self) -> Result<u64, LogError> {
        Ok(self.file.metadata().map_err(|source| self.failed(source))?.len())
    }

    fn failed(&self, source: std::io::Error) -> LogError {
        LogError::Read { path: self.path.clone(), source }
    }
}

fn open(path: &Path) -> Result<File, LogError> {
    File::open(path).map_err(at(|path, source| LogError::Open { path, source }, path))
}
