//! Removes a directory tree. Never follows a symbolic link and never crosses a mount, whose content belongs to someone else.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, renameat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::SysError;

/// Flags to open a directory without following links.
const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Whether the error says that nothing is at a path, which includes paths at which nothing can be: one with a name that is too long
/// for the filesystem, or below a file.
pub fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | InvalidFilename | NotADirectory)
}

/// Removes `path`: a directory tree, a file, or a link but not its target. Idempotent. Fails at the first mount. Blocking. Uses three
/// open files and constant stack for any depth: nested directories are first moved up to the top level.
pub fn remove_tree(path: &Path) -> Result<(), SysError> {
    let failed = |errno: Errno| match errno {
        Errno::EXDEV | Errno::EBUSY => SysError::Mounted { path: path.to_owned() },
        errno => SysError::Remove { path: path.to_owned(), source: io::Error::from(errno) },
    };
    match remove(path) {
        Ok(()) => Ok(()),
        Err(errno) if is_missing(&io::Error::from(errno)) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

fn remove(path: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::EINVAL) };
    let parent = open(parent, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let Some(top) = unlink(&parent, name)? else { return Ok(()) };
    // Directories that are not empty yet; all are entries of `top`.
    let mut waiting: Vec<CString> = Vec::new();
    let mut moved: u64 = 0;
    for entry in names(&top)? {
        if unlink_file(&top, &entry)? == Entry::Directory {
            waiting.push(entry);
        }
    }
    while let Some(name) = waiting.pop() {
        let dir = open_entry(&top, &name)?;
        for entry in names(&dir)? {
            if unlink_file(&dir, &entry)? == Entry::Directory {
                waiting.push(move_up(&dir, &entry, &top, &mut moved)?);
            }
        }
        unlinkat(&top, name.as_c_str(), UnlinkatFlags::RemoveDir)?;
    }
    unlinkat(&parent, name, UnlinkatFlags::RemoveDir)
}

/// Removes a non-directory; opens a directory instead.
fn unlink(parent: &OwnedFd, name: &OsStr) -> Result<Option<OwnedFd>, Errno> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)?;
    match unlink_file(parent, &name)? {
        Entry::Removed => Ok(None),
        Entry::Directory => open_entry(parent, &name).map(Some),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Removed,
    Directory,
}

fn unlink_file(dir: &OwnedFd, name: &CString) -> Result<Entry, Errno> {
    match unlinkat(dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(Entry::Removed),
        Err(Errno::EISDIR) => Ok(Entry::Directory),
        Err(errno) => Err(errno),
    }
}

/// Moves a directory into `top`, on the same filesystem. The kernel rejects that for a mount.
fn move_up(dir: &OwnedFd, name: &CString, top: &OwnedFd, moved: &mut u64) -> Result<CString, Errno> {
    loop {
        *moved += 1;
        let fresh = CString::new(format!(".removing-{moved}")).map_err(|_| Errno::EINVAL)?;
        // The rename replaces an empty directory, which must be removed as well; any other target makes it fail.
        match renameat(dir, name.as_c_str(), top, fresh.as_c_str()) {
            Ok(()) => return Ok(fresh),
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Opens a directory of `dir` for reading; `EXDEV` if something is mounted on it.
pub(super) fn open_entry(dir: &OwnedFd, name: &CString) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH;
    match openat2(dir, name.as_c_str(), OpenHow::new().flags(DIRECTORY).resolve(resolve)) {
        // Before Linux 5.6 only a mount of another device can be detected.
        Err(Errno::ENOSYS) => {
            let opened = openat(dir, name.as_c_str(), DIRECTORY, Mode::empty())?;
            let same = fstat(dir.as_fd())?.st_dev == fstat(opened.as_fd())?.st_dev;
            if same { Ok(opened) } else { Err(Errno::EXDEV) }
        }
        other => other,
    }
}

/// All entries, read before any is removed.
fn names(dir: &OwnedFd) -> Result<Vec<CString>, Errno> {
    // Reopened, because duplicated descriptors share the read position.
    let mut dir = Dir::openat(dir, ".", DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Removes the directory or file on which something was mounted, if it is empty. What was written there while nothing was mounted is
/// somebody's data. Idempotent. Blocking.
pub fn remove_mount_point(path: &Path) -> Result<(), SysError> {
    let failed = |source| SysError::Remove { path: path.to_owned(), source };
    let used = || SysError::MountPointInUse { path: path.to_owned() };
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir(path),
        Ok(found) if found.len() > 0 => return Err(used()),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Ok(()) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(used()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Err(SysError::Mounted { path: path.to_owned() })
        }
        Err(error) => Err(failed(error)),
    }
}

/// The canonical path, because mounts are listed without symbolic links. A missing path is unchanged.
pub fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_the_tree_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("outside/dir")).unwrap();
        fs::write(at("outside/file"), "precious").unwrap();
        fs::create_dir_all(at("tree/a/b/c")).unwrap();
        fs::create_dir_all(at("tree/.removing-1/x")).unwrap();
        fs::write(at("tree/a/b/file"), "").unwrap();
        symlink(at("outside"), at("tree/link")).unwrap();
        symlink("../../outside", at("tree/a/link")).unwrap();
        symlink("nowhere", at("tree/a/b/dangling")).unwrap();
        for _ in 0..2 {
            remove_tree(&at("tree")).unwrap();
            assert!(!at("tree").exists());
        }
        assert_eq!(fs::read_to_string(at("outside/file")).unwrap(), "precious");
        assert!(at("outside/dir").is_dir());
    }

    #[test]
    fn a_file_and_a_link_are_removed_themselves() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("dir/file"), "").unwrap();
        symlink("dir", at("link")).unwrap();
        remove_tree(&at("link")).unwrap();
        assert!(at("dir/file").exists() && !at("link").exists());
        remove_tree(&at("dir/file")).unwrap();
        assert!(!at("dir/file").exists());
        remove_tree(&at("nowhere/at/all")).unwrap();
        // Nothing can be there.
        fs::write(at("file"), "").unwrap();
        for impossible in [at(&"x".repeat(256)), at(&"x".repeat(256)).join("y"), at("file/below")] {
            remove_tree(&impossible).unwrap();
            remove_mount_point(&impossible).unwrap();
        }
    }

    #[test]
    fn a_mount_point_with_content_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("dir/sub")).unwrap();
        fs::write(at("file"), "precious").unwrap();
        for path in ["dir", "file"] {
            assert!(matches!(remove_mount_point(&at(path)), Err(SysError::MountPointInUse { .. })), "{path}");
        }
        assert!(at("dir/sub").exists() && at("file").exists());
        fs::write(at("file"), "").unwrap();
        for path in ["dir/sub", "dir", "file", "file"] {
            remove_mount_point(&at(path)).unwrap();
            assert!(!at(path).exists(), "{path}");
        }
    }

    #[test]
    fn any_depth_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        fs::create_dir(&tree).unwrap();
        // Deeper than the maximum path length, created from the inside like a container can.
        let mut inside = open(&tree, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..2_000 {
            nix::sys::stat::mkdirat(&inside, "deeper", Mode::S_IRWXU).unwrap();
            inside = openat(&inside, "deeper", DIRECTORY, Mode::empty()).unwrap();
        }
        drop(inside);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }
}
