//! One log, read from a line on. Blocking; each call reads a bounded piece.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::decode::Decoder;
use super::last::{Start, last_lines};
use super::rotation::successor;
use crate::log::LogError;
use crate::log::error::at;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Which lines of a log to show, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Only that many last lines of the current file; rotated ones are not looked at, as by the kubelet.
    pub tail: Option<u64>,
    /// Only lines that were begun at this time or later; of the last lines if both are given.
    pub since: Option<Timestamp>,
    /// Each line starts with its time, as the runtime wrote it, and a space.
    pub timestamps: bool,
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Decoded text; empty if what was read says nothing that is shown.
    Text(Vec<u8>),
    /// There is no more for now.
    End,
}

/// A container's log being read.
pub(super) struct LogReader {
    /// Where the runtime writes; what is read is renamed away from there when it is rotated.
    path: PathBuf,
    file: File,
    position: u64,
    decoder: Decoder,
    chunk: Vec<u8>,
}

impl LogReader {
    /// Opens the log and finds the first line to show.
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

    /// Where the runtime writes.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Offset up to which the file was read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the file that are there and not read yet.
    pub(super) fn left(&self) -> Result<u64, LogError> {
        Ok(self.size()?.saturating_sub(self.position))
    }

    /// Reads on, at most `most` bytes. A file that was emptied under us is read from its start.
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

    /// Whether the file was rotated and the one that follows it is there.
    pub(super) fn is_rotated(&self) -> Result<bool, LogError> {
        Ok(self.successor()?.is_some())
    }

    /// Goes on with the file that follows a rotated one.
    pub(super) fn advance(&mut self) -> Result<Piece, LogError> {
        let Some(next) = self.successor()? else { return Ok(Piece::End) };
        self.file = open(&next)?;
        self.position = 0;
        let mut text = Vec::new();
        self.decoder.next_file(&mut text);
        Ok(Piece::Text(text))
    }

    /// What is held back though nothing more comes for now.
    pub(super) fn settle(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.decoder.settle(&mut text);
        text
    }

    /// What is left once nothing more is read.
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
