//! Measures the disk space of a directory tree by walking it, like `du`: allocated blocks, each hard-linked file once. Never follows
//! a symbolic link and never crosses a mount. Others may change the tree meanwhile, or have built it to exhaust a reader.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use rustix::fs::{AtFlags, FileType, RawDir, Stat, statat};

use super::SysError;
use super::remove::open_entry;

/// Unit of `st_blocks`, bytes.
const BLOCK: u128 = 512;
/// Precision of the share of a block or inode: a file with several links counts in part for each of them.
const SHARE_BITS: u32 = 20;
/// Maximum depth that is measured, which bounds open files and memory.
const MAX_DEPTH: usize = 512;
/// Size of the buffer for directory entries: what is kept of a directory at a time.
const BUFFER: usize = 8 * 1024;

/// The space that files take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Allocated space, bytes.
    pub bytes: u64,
    /// Number of inodes.
    pub inodes: u64,
}

/// The space that a tree takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeUsage {
    /// Its files and directories.
    pub space: SpaceUsage,
    /// Whether everything was counted: the walk stopped neither at the given amount nor at the maximum depth.
    pub is_complete: bool,
}

/// Measures the tree at `path`, or a single file. A missing one has nothing. Stops once there is more than `enough` bytes.
/// Blocking, possibly for minutes.
///
/// All links to a file are inside the tree, since a container cannot link across a mount. So each link counts as its share of the
/// file, and no list of seen files is needed.
pub fn tree_usage(path: &Path, enough: u64) -> Result<TreeUsage, SysError> {
    walk(path, enough).map_err(|errno| failed(path, errno.into()))
}

/// Measures the files that are directly in the directory `path`. A missing one has nothing. Blocking.
pub fn files_usage(path: &Path) -> Result<SpaceUsage, SysError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SpaceUsage::default()),
        Err(error) => return Err(failed(path, error)),
    };
    let (mut blocks, mut inodes) = (0, 0);
    for entry in entries {
        let entry = entry.map_err(|error| failed(path, error))?;
        match entry.metadata() {
            Ok(file) if file.is_dir() => {}
            Ok(file) => {
                blocks += u128::from(file.blocks());
                inodes += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&entry.path(), error)),
        }
    }
    Ok(SpaceUsage { bytes: bytes_of(blocks), inodes })
}

fn failed(path: &Path, source: io::Error) -> SysError {
    SysError::Measure { path: path.to_owned(), source }
}

fn bytes_of(blocks: u128) -> u64 {
    u64::try_from(blocks * BLOCK).unwrap_or(u64::MAX)
}

fn rounded(shares: u128) -> u128 {
    (shares + (1 << (SHARE_BITS - 1))) >> SHARE_BITS
}

/// A directory that is being read.
struct Level {
    dir: OwnedFd,
    /// Subdirectories among the entries read so far.
    waiting: Vec<CString>,
    is_read: bool,
}

impl Level {
    fn new(dir: OwnedFd) -> Self {
        Self { dir, waiting: Vec::new(), is_read: false }
    }
}

/// The sum over the tree.
struct Sum {
    device: u64,
    /// Blocks, in units of `2^-SHARE_BITS`.
    shares: u128,
    /// Inodes, in the same units.
    inodes: u128,
}

impl Sum {
    /// The type of the number of links depends on the architecture.
    fn add(&mut self, blocks: i64, links: impl Into<u64>) {
        let (blocks, links) =
            (u128::from(blocks.unsigned_abs()) << SHARE_BITS, u128::from(links.into().max(1)));
        self.shares += blocks / links;
        self.inodes += (1 << SHARE_BITS) / links;
    }

    fn add_file(&mut self, file: &Stat) {
        // Another device is a mount on the file.
        if file.st_dev == self.device {
            self.add(file.st_blocks, file.st_nlink);
        }
    }

    /// A directory has no hard links; its link count is the number of its subdirectories.
    fn add_dir(&mut self, dir: &OwnedFd) -> Result<(), Errno> {
        self.add(fstat(dir.as_fd())?.st_blocks, 1_u64);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        bytes_of(rounded(self.shares))
    }

    fn space(&self) -> SpaceUsage {
        SpaceUsage { bytes: self.bytes(), inodes: u64::try_from(rounded(self.inodes)).unwrap_or(u64::MAX) }
    }
}

fn walk(path: &Path, enough: u64) -> Result<TreeUsage, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let top = match open(path, flags, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::ENOENT) => return Ok(TreeUsage { space: SpaceUsage::default(), is_complete: true }),
        Err(Errno::ENOTDIR | Errno::ELOOP) => return file(path),
        Err(errno) => return Err(errno),
    };
    let mut sum = Sum { device: fstat(top.as_fd())?.st_dev, shares: 0, inodes: 0 };
    sum.add_dir(&top)?;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut is_complete = true;
    let mut levels = vec![Level::new(top)];
    while let Some(level) = levels.last_mut() {
        if sum.bytes() > enough {
            is_complete = false;
            break;
        }
        if let Some(name) = level.waiting.pop() {
            let dir = match open_entry(&level.dir, &name) {
                Ok(dir) => dir,
                // A mount, or the directory was removed or replaced.
                Err(Errno::EXDEV | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(errno) => return Err(errno),
            };
            sum.add_dir(&dir)?;
            if levels.len() < MAX_DEPTH {
                levels.push(Level::new(dir));
            } else {
                is_complete = false;
            }
        } else if level.is_read {
            levels.pop();
        } else {
            read_some(level, &mut buffer, &mut sum)?;
        }
    }
    Ok(TreeUsage { space: sum.space(), is_complete })
}

fn file(path: &Path) -> Result<TreeUsage, Errno> {
    let usage = |space| TreeUsage { space, is_complete: true };
    match fs::symlink_metadata(path) {
        Ok(file) => Ok(usage(SpaceUsage { bytes: bytes_of(file.blocks().into()), inodes: 1 })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(usage(SpaceUsage::default())),
        Err(error) => Err(Errno::from_raw(error.raw_os_error().unwrap_or_default())),
    }
}

/// Reads one buffer of entries: counts files, and keeps the names of directories.
fn read_some(level: &mut Level, buffer: &mut [MaybeUninit<u8>], sum: &mut Sum) -> Result<(), Errno> {
    let errno = |errno: rustix::io::Errno| Errno::from_raw(errno.raw_os_error());
    let mut entries = RawDir::new(&level.dir, buffer);
    level.is_read = true;
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            // The directory was removed.
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(errno(error)),
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_dir = entry.file_type() == FileType::Directory || {
            match statat(&level.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                // Some filesystems do not report the type of an entry.
                Ok(file) if FileType::from_raw_mode(file.st_mode) == FileType::Directory => true,
                Ok(file) => {
                    sum.add_file(&file);
                    false
                }
                Err(rustix::io::Errno::NOENT) => false,
                Err(error) => return Err(errno(error)),
            }
        };
        if is_dir {
            level.waiting.push(name.to_owned());
        }
        if entries.is_buffer_empty() {
            level.is_read = false;
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tree_usage_tests.rs"]
mod tests;
