//! Finds and opens the files of one log: a kubelet renames `0.log` to `0.log.<YYYYMMDD-HHMMSS>`, makes the runtime open a new
//! `0.log`, and compresses older files. Blocking.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use hostlet_host::{Links, open_regular};
use jiff::Timestamp;

use crate::log::LogError;
use crate::log::error::at;
use crate::log::layout::file_names;
use crate::log::rotated::{RotatedForm, RotatedLog, RotationStamp};

/// How long a runtime may still write to a rotated file: it finishes what it has read from the container after opening the new one.
pub(super) const HAND_OVER: Duration = Duration::from_secs(1);
/// The difference between the time of a line and the time of its file, whose clock is coarser.
const COARSE: Duration = Duration::from_secs(1);
/// What the kernel appends to the path of an open file that was removed.
const REMOVED: &[u8] = b" (deleted)";

/// The text of an open file.
enum Text {
    Plain(File),
    Compressed {
        file: File,
        /// Made by the first read, because of its size.
        decoder: Option<Box<MultiGzDecoder<BufReader<File>>>>,
    },
}

/// An open file of a log.
pub(super) struct LogFile {
    path: PathBuf,
    text: Text,
    /// When it was rotated, if it was before it was opened.
    stamp: Option<RotationStamp>,
    /// Read so far, uncompressed.
    position: u64,
    /// Where reading ends; the maximum if it continues as the file grows.
    end: u64,
}

impl LogFile {
    fn new(path: &Path, text: Text, stamp: Option<RotationStamp>) -> Self {
        Self { path: path.to_owned(), text, stamp, position: 0, end: u64::MAX }
    }

    /// The file, if it is not compressed.
    pub(super) fn plain(&mut self) -> Option<&mut File> {
        match &mut self.text {
            Text::Plain(file) => Some(file),
            Text::Compressed { .. } => None,
        }
    }

    /// Ends reading at the current end.
    pub(super) fn end_here(&mut self) -> io::Result<()> {
        match self.text {
            Text::Plain(_) => self.end = self.metadata()?.len(),
            // It does not grow.
            Text::Compressed { .. } => {}
        }
        Ok(())
    }

    /// The size of a plain file, up to where reading ends.
    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len().min(self.end))
    }

    /// Whether a plain file has become shorter than what was read.
    pub(super) fn is_truncated(&self) -> io::Result<bool> {
        match self.text {
            Text::Plain(_) => Ok(self.metadata()?.len() < self.position),
            Text::Compressed { .. } => Ok(false),
        }
    }

    /// Continues at this offset of a plain file.
    pub(super) fn seek(&mut self, offset: u64) -> io::Result<()> {
        if let Text::Plain(file) = &mut self.text {
            file.seek(SeekFrom::Start(offset))?;
            self.position = offset;
        }
        Ok(())
    }

    /// Continues at the end of a plain file.
    pub(super) fn seek_end(&mut self) -> io::Result<()> {
        let size = self.size()?;
        self.seek(size)
    }

    /// Continues at the start.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        self.position = 0;
        match &mut self.text {
            Text::Plain(file) => file.rewind(),
            Text::Compressed { file, decoder } => {
                *decoder = None;
                file.rewind()
            }
        }
    }

    fn metadata(&self) -> io::Result<Metadata> {
        match &self.text {
            Text::Plain(file) | Text::Compressed { file, .. } => file.metadata(),
        }
    }

    /// How much longer the runtime may write to this rotated file; `None` once it does not.
    pub(super) fn hand_over(&self) -> io::Result<Option<Duration>> {
        match self.text {
            // Long rotated.
            Text::Compressed { .. } => Ok(None),
            // A clock that was set back does not matter enough to wait for it.
            Text::Plain(_) => {
                let quiet = self.metadata()?.modified()?.elapsed().unwrap_or(Duration::MAX);
                Ok(HAND_OVER.checked_sub(quiet).filter(|left| !left.is_zero()))
            }
        }
    }

    /// Whether all its lines are from before this time.
    fn is_before(&self, time: Timestamp) -> io::Result<bool> {
        let modified = Timestamp::try_from(self.metadata()?.modified()?).unwrap_or(Timestamp::MAX);
        Ok(modified.saturating_add(COARSE).unwrap_or(Timestamp::MAX) < time)
    }

    /// When it was rotated, also after it was opened: the kernel knows the current or last name of an open file.
    fn stamp(&self, log: &str) -> Option<RotationStamp> {
        let Text::Plain(file) = &self.text else { return self.stamp };
        let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let named = link.and_then(|path| {
            let name = path.file_name()?.as_encoded_bytes();
            let name = name.strip_suffix(REMOVED).unwrap_or(name);
            RotatedLog::parse(std::str::from_utf8(name).ok()?, log)
        });
        named.map(|named| named.stamp).or(self.stamp)
    }
}

impl Read for LogFile {
    /// Reads at most up to the end. A damaged compressed file ends where it is damaged, so that the files after it can be read.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let count = match &mut self.text {
            Text::Plain(file) => file.read(&mut buffer[..room])?,
            Text::Compressed { file, decoder } => {
                let decoder = match decoder {
                    Some(decoder) => decoder,
                    none => none.insert(Box::new(MultiGzDecoder::new(BufReader::new(file.try_clone()?)))),
                };
                match decoder.read(&mut buffer[..room]) {
                    Err(error) if is_damage(&error) => {
                        let path = self.path.display();
                        tracing::warn!(%path, %error, "a compressed log is damaged, and was not read to its end");
                        0
                    }
                    read => read?,
                }
            }
        };
        self.position += count as u64;
        Ok(count)
    }
}

/// Whether it is about the content of a compressed file.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// Opens the log at `path` and its rotated files, oldest first. Without a current file, as between a rename and the runtime's
/// new file, there are only rotated ones; there is at least one.
///
/// # Errors
/// No file exists, or one could not be opened.
pub(super) fn open_all(path: &Path) -> Result<Vec<LogFile>, LogError> {
    let (files, current) = open_after(path, None)?;
    match current {
        Err(source) if files.is_empty() => Err(LogError::Open { path: path.to_owned(), source }),
        Err(_) => Ok(files),
        Ok(current) => Ok(files.into_iter().chain([current]).collect()),
    }
}

/// Opens the files after `last`, which was opened earlier and is the current one unless it was rotated since. None if it still is
/// the current one, or if there is no other yet.
pub(super) fn open_newer(path: &Path, last: &LogFile) -> Result<Vec<LogFile>, LogError> {
    match fs::metadata(path) {
        Ok(current) if is_same(&current, last).map_err(failed(path))? => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(source) => return Err(LogError::Inspect { path: path.to_owned(), source }),
    }
    let Some(stamp) = log_name(path).and_then(|log| last.stamp(log)) else {
        // Not rotated but removed or replaced.
        return Ok(open(path).into_iter().collect());
    };
    let (files, current) = open_after(path, Some(stamp))?;
    Ok(files.into_iter().chain(current).collect())
}

/// Removes the leading files whose lines are all from before this time, except the last file.
pub(super) fn skip_before(files: &mut Vec<LogFile>, time: Timestamp) -> io::Result<()> {
    let mut old = 0;
    while old + 1 < files.len() && files[old].is_before(time)? {
        old += 1;
    }
    files.drain(..old);
    Ok(())
}

/// The rotated files after this time, and the current file or why it could not be opened.
fn open_after(
    path: &Path,
    after: Option<RotationStamp>,
) -> Result<(Vec<LogFile>, io::Result<LogFile>), LogError> {
    // First, so that files rotated meanwhile are in the list.
    let current = open(path);
    let (Some(dir), Some(log)) = (path.parent(), log_name(path)) else { return Ok((Vec::new(), current)) };
    let rotated = file_names(dir)?.into_iter().filter_map(|name| RotatedLog::parse(&name, log));
    let in_use = rotated.filter(|rotated| rotated.form != RotatedForm::Unfinished);
    let mut stamps: Vec<RotationStamp> = in_use.map(|rotated| rotated.stamp).collect();
    stamps.retain(|stamp| after.is_none_or(|after| *stamp > after));
    stamps.sort();
    stamps.dedup();
    if let Ok(current) = &current
        && let Some(own) = current.stamp(log)
    {
        // It was rotated just now; what comes after it follows it later.
        stamps.retain(|stamp| *stamp < own);
    }
    let mut files = Vec::new();
    for stamp in stamps {
        files.extend(open_rotated(dir, log, stamp)?);
    }
    Ok((files, current))
}

/// Opens a rotated file as it is stored; `None` if it was removed meanwhile.
fn open_rotated(dir: &Path, log: &str, stamp: RotationStamp) -> Result<Option<LogFile>, LogError> {
    // In this order: it is compressed before the plain file is removed.
    for form in [RotatedForm::Plain, RotatedForm::Compressed] {
        let path = dir.join(RotatedLog { stamp, form }.name(log));
        match open_regular(&path, Links::Rejected) {
            Ok(file) => {
                let text = match form {
                    RotatedForm::Plain | RotatedForm::Unfinished => Text::Plain(file),
                    RotatedForm::Compressed => Text::Compressed { file, decoder: None },
                };
                return Ok(Some(LogFile::new(&path, text, Some(stamp))));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(LogError::Open { path, source }),
        }
    }
    Ok(None)
}

/// Opens the current file. Runtimes exist whose logs are links to files of their own.
fn open(path: &Path) -> io::Result<LogFile> {
    Ok(LogFile::new(path, Text::Plain(open_regular(path, Links::Followed)?), None))
}

fn log_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn is_same(found: &Metadata, file: &LogFile) -> io::Result<bool> {
    let own = file.metadata()?;
    Ok((found.dev(), found.ino()) == (own.dev(), own.ino()))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LogError {
    at(|path: PathBuf, source| LogError::Read { path, source }, path)
}
