//! The decompressed bytes of an archive: read sequentially, and skipped by seeking where the file allows it. Bounded in size
//! and cancelled on shutdown.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::read::MultiGzDecoder;
use tokio_util::sync::CancellationToken;

use super::ArchiveError;

/// Maximum decompressed size, in bytes: a small file can decompress to any size.
const UNPACKED_MOST: u64 = 64 << 30;

/// Magic numbers of compressed files.
const MAGICS: [(&[u8], &str); 4] =
    [(b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"\x04\x22\x4d\x18", "lz4")];
const GZIP: &[u8] = b"\x1f\x8b";

/// A file or a substitute for one.
pub(super) trait File: Read + Seek + Send {}

impl<T: Read + Seek + Send> File for T {}

/// The decompressed bytes of an archive.
pub(super) struct Input {
    stream: Stream,
    /// Remaining bytes before the limit.
    left: u64,
    cancel: CancellationToken,
}

enum Stream {
    Plain(BufReader<Box<dyn File>>),
    Gzip(Box<MultiGzDecoder<BufReader<Box<dyn File>>>>),
}

impl Input {
    /// Reads `file` from its start, until `cancel`.
    pub(super) fn new(mut file: Box<dyn File>, cancel: CancellationToken) -> Result<Self, ArchiveError> {
        let mut head = Vec::with_capacity(8);
        (&mut file).take(8).read_to_end(&mut head).map_err(ArchiveError::Read)?;
        if let Some((_, name)) = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Err(ArchiveError::Compression(name));
        }
        let length = file.seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
        file.rewind().map_err(ArchiveError::Read)?;
        let file = BufReader::with_capacity(64 << 10, file);
        Ok(if head.starts_with(GZIP) {
            let stream = Stream::Gzip(Box::new(MultiGzDecoder::new(file)));
            Self { stream, left: UNPACKED_MOST, cancel }
        } else {
            Self { stream: Stream::Plain(file), left: length, cancel }
        })
    }

    /// Reads some bytes; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        if self.cancel.is_cancelled() {
            return Err(ArchiveError::Cancelled);
        }
        let read = match &mut self.stream {
            Stream::Plain(file) => file.read(buffer),
            Stream::Gzip(file) => file.read(buffer),
        };
        let read = read.map_err(ArchiveError::Read)?;
        self.left = match self.left.checked_sub(read as u64) {
            Some(left) => left,
            None => return Err(self.exhausted()),
        };
        Ok(read)
    }

    /// Skips exactly `count` bytes.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), ArchiveError> {
        if count > self.left {
            return Err(self.exhausted());
        }
        match &mut self.stream {
            Stream::Plain(file) => {
                let distance = i64::try_from(count).map_err(|_| ArchiveError::Header("its size"))?;
                file.seek_relative(distance).map_err(ArchiveError::Read)?;
                self.left -= count;
                Ok(())
            }
            Stream::Gzip(_) => self.read_over(count),
        }
    }

    fn read_over(&mut self, mut count: u64) -> Result<(), ArchiveError> {
        let mut buffer = [0; 16 << 10];
        while count > 0 {
            let most = buffer.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            match self.read(&mut buffer[..most])? {
                0 => return Err(cut_short()),
                read => count -= read as u64,
            }
        }
        Ok(())
    }

    fn exhausted(&self) -> ArchiveError {
        match self.stream {
            Stream::Plain(_) => cut_short(),
            Stream::Gzip(_) => ArchiveError::TooMuch { what: "64 GiB, unpacked" },
        }
    }
}

/// The error for a truncated archive.
pub(super) fn cut_short() -> ArchiveError {
    ArchiveError::Read(io::ErrorKind::UnexpectedEof.into())
}
