//! Reads manifest files that changed from disk. Never blocks on a file that is not regular: the type is checked before and
//! after opening. Blocks its thread; knows nothing of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::context::FileAccess;
use super::reader::{FileRead, Pass};

/// Maximum size of a manifest, in bytes; pods of a cluster are far smaller.
pub(super) const MAX_SIZE: usize = 10 << 20;
/// A file that changed less than this many seconds ago may change again with the same timestamps, since their resolution is
/// limited. It is read once more.
const SETTLED_SECONDS: i64 = 2;

/// Remembers which version of each file was last read.
#[derive(Debug, Default)]
pub(super) struct Files {
    stamps: BTreeMap<PathBuf, Stamp>,
}

/// Identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn is_settled(&self, now: Timestamp) -> bool {
        let newest = self.modified.0.max(self.changed.0);
        newest.saturating_add(SETTLED_SECONDS) < now.as_second()
    }
}

impl Files {
    /// Reads changes at `path`: all files of a directory whose names do not begin with a dot, or the single file. Files are read
    /// lazily, so that only one is in memory at a time.
    pub(super) fn read(&mut self, path: &Path, now: Timestamp) -> Pass<'_> {
        let listed = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => list(path),
            Ok(_) => Ok(BTreeSet::from([path.to_owned()])),
            Err(error) => Err(error),
        };
        let files = match listed {
            Ok(files) => files,
            // A path that does not exist means no manifests.
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => {
                let message = format!("cannot list the manifests in {}: {error}", path.display());
                return Pass::Failed { path: path.to_owned(), message };
            }
        };
        self.stamps.retain(|file, _| files.contains(file));
        let read = move |file: PathBuf| self.read_file(&file, now).map(|read| (file, read));
        Pass::Listed(Box::new(files.into_iter().filter_map(read)))
    }

    /// Forgets files that were deleted. What is in their place now is read, even if a link leads to the same file as before.
    pub(super) fn forget(&mut self, deleted: &BTreeSet<PathBuf>) {
        self.stamps.retain(|file, _| !deleted.contains(file));
    }

    /// Returns `None` if the file was removed after listing.
    fn read_file(&mut self, path: &Path, now: Timestamp) -> Option<FileRead> {
        match self.try_read(path, now) {
            Ok(read) => Some(read),
            Err(error) => {
                self.stamps.remove(path);
                let is_missing = error.kind() == io::ErrorKind::NotFound;
                match (is_missing, fs::symlink_metadata(path)) {
                    (true, Err(_)) => None,
                    (true, Ok(_)) => {
                        Some(FileRead::Unusable("the target of the symbolic link does not exist".to_owned()))
                    }
                    (false, _) => Some(FileRead::Unusable(format!("cannot read the file: {error}"))),
                }
            }
        }
    }

    fn try_read(&mut self, path: &Path, now: Timestamp) -> io::Result<FileRead> {
        let metadata = fs::metadata(path)?;
        if let Some(why) = unusable(&metadata) {
            self.stamps.remove(path);
            return Ok(FileRead::Unusable(why));
        }
        if self.stamps.get(path).is_some_and(|known| *known == Stamp::of(&metadata)) {
            return Ok(FileRead::Unchanged);
        }
        // The file may have been replaced meanwhile, and opening must not block.
        let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
        let metadata = file.metadata()?;
        if let Some(why) = unusable(&metadata) {
            self.stamps.remove(path);
            return Ok(FileRead::Unusable(why));
        }
        let bytes = read_to_bound(file)?;
        let stamp = Stamp::of(&metadata);
        if stamp.is_settled(now) {
            self.stamps.insert(path.to_owned(), stamp);
        } else {
            self.stamps.remove(path);
        }
        Ok(match bytes {
            Some(bytes) => FileRead::Bytes(bytes, access_to(&metadata)),
            None => FileRead::Unusable(too_large()),
        })
    }
}

fn access_to(metadata: &Metadata) -> FileAccess {
    if metadata.uid() != geteuid().as_raw() {
        FileAccess::Foreign
    } else if metadata.mode() & 0o077 != 0 {
        FileAccess::Shared
    } else {
        FileAccess::Private
    }
}

fn list(directory: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            files.insert(directory.join(name));
        }
    }
    Ok(files)
}

/// Returns `None` if the file has grown beyond the limit.
fn read_to_bound(file: File) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= MAX_SIZE).then_some(bytes))
}

fn unusable(metadata: &Metadata) -> Option<String> {
    if !metadata.is_file() {
        let kind = kind_of(metadata.file_type());
        return Some(format!("{kind} is not a manifest; only regular files are read"));
    }
    (metadata.size() > MAX_SIZE as u64).then(too_large)
}

fn too_large() -> String {
    format!("the file is larger than {} MiB, the limit for manifests", MAX_SIZE >> 20)
}

fn kind_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
