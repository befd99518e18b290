//! Lists the registration sockets in a directory and those below it, and opens one of them for a call. Follows no symbolic link:
//! nothing outside the directory is ever listed or opened. Blocking.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};

/// Maximum depth of directories below the registry. Plugins use one at most.
const MAX_DEPTH: usize = 4;

/// Maximum number of directory entries in one scan, against a directory that something fills by mistake.
const MAX_ENTRIES: usize = 4096;

/// Maximum number of sockets, each of which is called. A node has a handful of plugins.
const MAX_SOCKETS: usize = 256;

/// Identifies a socket: one that is replaced in place has another identity, even if the inode number is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SocketIdentity {
    /// When it was created: seconds and nanoseconds. First, so that identities are ordered by age.
    pub(super) created: (i64, i64),
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl SocketIdentity {
    fn new(metadata: &Metadata) -> Self {
        let created = (metadata.mtime(), metadata.mtime_nsec());
        Self { created, device: metadata.dev(), inode: metadata.ino() }
    }
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) sockets: BTreeMap<PathBuf, SocketIdentity>,
    /// The directories that were not completely read, and why. Sockets below them may exist unseen.
    pub(super) incomplete: BTreeMap<PathBuf, String>,
}

impl Scan {
    /// Whether a socket that was not found may still exist.
    pub(super) fn may_have(&self, socket: &Path) -> bool {
        self.incomplete.keys().any(|directory| socket.starts_with(directory))
    }
}

/// The sockets in and below `registry`. Names that start with a dot are ignored, like upstream. A missing directory is empty.
pub(super) fn scan(registry: &Path) -> Scan {
    let mut found = Scan::default();
    walk(registry, |entry, metadata| {
        if metadata.file_type().is_socket() {
            found.sockets.insert(entry.path(), SocketIdentity::new(metadata));
        }
        found.sockets.len() < MAX_SOCKETS
    })
    .into_iter()
    .for_each(|(directory, why)| drop(found.incomplete.insert(directory, why)));
    found
}

/// The directories below `registry` that a scan reads.
pub(super) fn subdirectories(registry: &Path) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    walk(registry, |entry, metadata| {
        if metadata.is_dir() {
            directories.push(entry.path());
        }
        true
    });
    directories
}

/// Visits the entries in and below `registry` until `visit` returns false. Returns the directories that were not completely read.
fn walk(registry: &Path, mut visit: impl FnMut(&DirEntry, &Metadata) -> bool) -> Vec<(PathBuf, String)> {
    let mut incomplete = Vec::new();
    let mut left = MAX_ENTRIES;
    let mut waiting = vec![(registry.to_owned(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                incomplete.push((directory, error.to_string()));
                continue;
            }
        };
        for entry in entries {
            // Metadata of the entry itself: a symbolic link is neither a socket nor a directory.
            let read = entry.and_then(|entry| entry.metadata().map(|metadata| (entry, metadata)));
            let (entry, metadata) = match read {
                Ok(read) => read,
                // Removed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    incomplete.push((directory.clone(), error.to_string()));
                    continue;
                }
            };
            if entry.file_name().as_bytes().starts_with(b".") {
                continue;
            }
            left = left.saturating_sub(1);
            if left == 0 || !visit(&entry, &metadata) {
                let why = format!("it has more than {MAX_SOCKETS} sockets or {MAX_ENTRIES} entries");
                incomplete.push((registry.to_owned(), why));
                return incomplete;
            }
            if metadata.is_dir() && depth < MAX_DEPTH {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    incomplete
}

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// The registry could not be opened.
    #[error("opening the directory {}", path.display())]
    Registry { path: PathBuf, source: io::Error },
    /// The socket could not be opened. A path with a symbolic link cannot.
    #[error("opening the socket")]
    Socket(#[source] io::Error),
    /// It was replaced since it was listed.
    #[error("the socket was replaced meanwhile")]
    Replaced,
}

/// Opens the listed socket `socket` of `registry` without connecting, so that what is connected to later is this very socket.
pub(super) fn open_socket(
    registry: &Path,
    socket: &Path,
    identity: SocketIdentity,
) -> Result<OwnedFd, OpenError> {
    let registry_error =
        |errno: Errno| OpenError::Registry { path: registry.to_owned(), source: errno.into() };
    let socket_error = |errno: Errno| OpenError::Socket(errno.into());
    let directory = open(registry, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(registry_error)?;
    let name = socket.strip_prefix(registry).map_err(|_| socket_error(Errno::EXDEV))?;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let opened = match openat2(&directory, name, OpenHow::new().flags(flags).resolve(resolve)) {
        // Before Linux 5.6 a directory on the way could be a link; the identity below still is the listed socket's.
        Err(Errno::ENOSYS) => openat(&directory, name, flags, Mode::empty()),
        other => other,
    };
    let opened = opened.map_err(socket_error)?;
    let stat = fstat(&opened).map_err(socket_error)?;
    let found = SocketIdentity {
        created: (stat.st_mtime, stat.st_mtime_nsec),
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    let is_socket = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFSOCK;
    if is_socket && found == identity { Ok(opened) } else { Err(OpenError::Replaced) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn names(found: &Scan, registry: &Path) -> Vec<String> {
        let name = |path: &PathBuf| path.strip_prefix(registry).unwrap().display().to_string();
        found.sockets.keys().map(name).collect()
    }

    #[test]
    fn sockets_are_found_in_subdirectories_and_nothing_outside() {
        let root = tempfile::tempdir().unwrap();
        let registry = root.path().join("registry");
        let at = |path: &str| registry.join(path);
        fs::create_dir_all(at("sub/deeper")).unwrap();
        fs::create_dir_all(at(".hidden")).unwrap();
        fs::create_dir_all(root.path().join("outside")).unwrap();
        let outside = root.path().join("outside/a.sock");
        let sockets =
            [at("a.sock"), at("sub/b.sock"), at("sub/deeper/c.sock"), at(".x.sock"), at(".hidden/d")];
        let _listeners: Vec<_> =
            sockets.iter().chain([&outside]).map(|path| UnixListener::bind(path).unwrap()).collect();
        fs::write(at("file.sock"), "").unwrap();
        symlink(&outside, at("link.sock")).unwrap();
        symlink("a.sock", at("inner-link.sock")).unwrap();
        symlink(root.path().join("outside"), at("linked")).unwrap();
        symlink("sub", at("linked-sub")).unwrap();
        symlink(".", at("loop")).unwrap();
        let found = scan(&registry);
        assert_eq!(names(&found, &registry), ["a.sock", "sub/b.sock", "sub/deeper/c.sock"]);
        assert!(found.incomplete.is_empty(), "{found:?}");
        let mut directories = subdirectories(&registry);
        directories.sort();
        assert_eq!(directories, [at("sub"), at("sub/deeper")]);

        let identity = found.sockets[&at("sub/b.sock")];
        open_socket(&registry, &at("sub/b.sock"), identity).unwrap();
        // The listed socket becomes a link, or is on the other side of one.
        for path in [at("link.sock"), at("linked/a.sock"), at("linked-sub/b.sock"), at("nothing")] {
            let error = open_socket(&registry, &path, identity).unwrap_err();
            assert!(matches!(error, OpenError::Socket(_) | OpenError::Replaced), "{path:?}: {error:?}");
        }
        assert!(matches!(
            open_socket(&registry, &outside, identity),
            Err(OpenError::Socket(error)) if error.raw_os_error() == Some(Errno::EXDEV as i32)
        ));
        assert!(matches!(open_socket(&registry, &at("a.sock"), identity), Err(OpenError::Replaced)));
    }

    #[test]
    fn a_socket_replaced_in_place_has_another_identity() {
        let registry = tempfile::tempdir().unwrap();
        let path = registry.path().join("a.sock");
        let identity = || {
            let _listener = UnixListener::bind(&path).unwrap();
            let found = scan(registry.path());
            fs::remove_file(&path).unwrap();
            found.sockets[&path]
        };
        let first = identity();
        // The kernel's clock for files may tick every few milliseconds only.
        let second = loop {
            let second = identity();
            if second.created != first.created {
                break second;
            }
        };
        assert!(first < second, "{first:?} {second:?}");
    }

    #[test]
    fn a_full_directory_is_read_up_to_a_limit_and_said_to_be_incomplete() {
        let registry = tempfile::tempdir().unwrap();
        for number in 0..MAX_ENTRIES {
            fs::write(registry.path().join(number.to_string()), "").unwrap();
        }
        assert!(scan(registry.path()).may_have(&registry.path().join("a/b.sock")));
        assert_eq!(scan(&registry.path().join("missing")), Scan::default());
    }
}
