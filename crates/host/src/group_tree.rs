//! Gives a directory tree to a group, as `fsGroup` requires. Never follows a link and never leaves the filesystem.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Gid, fchownat};

use super::SysError;

/// Mode bits that every file gets: its group may read and write.
const FILE: u32 = 0o660;
/// Mode bits that every directory gets: its group may also enter, and new files belong to the group.
const DIRECTORY: u32 = 0o2770;

/// Flags to read a directory.
const READ_DIR: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Flags to hold what is at a name: a link is not followed, and a device or pipe is not opened.
const HOLD: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// When the files of a volume are given to its group (`fsGroupChangePolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// At each setup.
    Always,
    /// Only if the group or the mode of the root directory differs.
    OnRootMismatch,
}

/// Gives the tree at `root` to `group`, with upstream's modes. The root is last, so that an interrupted change is noticed. A file
/// that cannot be changed is logged and left as it is, as upstream does. Blocking; takes long for many files.
pub fn set_group_of_tree(root: &Path, group: u32, change: GroupChange) -> Result<(), SysError> {
    let failed = |source| SysError::SetGroup { path: root.to_owned(), source };
    let is_done = change == GroupChange::OnRootMismatch && is_given(root, group).map_err(failed)?;
    if is_done { Ok(()) } else { give(root, group).map_err(failed) }
}

fn is_given(root: &Path, group: u32) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(root)?;
    Ok(metadata.gid() == group && metadata.mode() & DIRECTORY == DIRECTORY)
}

fn give(root: &Path, group: u32) -> io::Result<()> {
    let top = open(root, READ_DIR, Mode::empty())?;
    let mut failures = Failures::default();
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        let opened = open_below(&top, &relative);
        let names = opened.and_then(|dir| Ok((names(&dir)?, dir)));
        let (names, dir) = match names {
            Ok(found) => found,
            // Removed meanwhile.
            Err(Errno::ENOENT) => continue,
            Err(errno) if relative.as_os_str().is_empty() => return Err(errno.into()),
            Err(errno) => {
                failures.add(&relative, errno);
                continue;
            }
        };
        for name in names {
            let path = relative.join(&name);
            match openat(&dir, name.as_path(), HOLD, Mode::empty()).and_then(|held| change(&held, group)) {
                Ok(true) => waiting.push(path),
                Ok(false) | Err(Errno::ENOENT) => {}
                Err(errno) => failures.add(&path, errno),
            }
        }
    }
    change(&top, group)?;
    failures.log(root);
    Ok(())
}

/// Changes the group and the mode of one file. Returns whether it is a directory.
fn change(held: &OwnedFd, group: u32) -> Result<bool, Errno> {
    let status = fstat(held.as_fd())?;
    let kind = SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits());
    let is_dir = kind == SFlag::S_IFDIR;
    // Owner first: changing it clears the setgid bit.
    fchownat(held, "", None, Some(Gid::from_raw(group)), AtFlags::AT_EMPTY_PATH)?;
    if kind != SFlag::S_IFLNK {
        let mode = (status.st_mode & 0o7777) | if is_dir { DIRECTORY } else { FILE };
        // The kernel accepts no descriptor of this kind, but a name that leads to what it holds.
        let by_descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
        let changed = fs::set_permissions(by_descriptor, Permissions::from_mode(mode));
        changed.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO as i32)))?;
    }
    Ok(is_dir)
}

fn open_below(top: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve =
        ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH;
    match openat2(top, path, OpenHow::new().flags(READ_DIR).resolve(resolve)) {
        // Before Linux 5.6.
        Err(Errno::ENOSYS) => openat(top, path, READ_DIR, Mode::empty()),
        other => other,
    }
}

fn names(dir: &OwnedFd) -> Result<Vec<PathBuf>, Errno> {
    use std::os::unix::ffi::OsStrExt;
    // Reopened, because duplicated descriptors share the read position.
    let mut dir = Dir::openat(dir, ".", READ_DIR, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(PathBuf::from(std::ffi::OsStr::from_bytes(name)));
        }
    }
    Ok(names)
}

/// Files that could not be changed.
#[derive(Default)]
struct Failures {
    count: usize,
    first: Option<(PathBuf, Errno)>,
}

impl Failures {
    fn add(&mut self, path: &Path, errno: Errno) {
        self.count += 1;
        self.first.get_or_insert_with(|| (path.to_owned(), errno));
    }

    fn log(self, root: &Path) {
        if let Some((path, error)) = self.first {
            let path = root.join(path);
            tracing::warn!(count = self.count, first = %path.display(), %error, "cannot give files to the group of a pod");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn own_group() -> u32 {
        nix::unistd::getegid().as_raw()
    }

    #[test]
    fn files_and_directories_get_the_groups_modes_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(at("a/b")).unwrap();
        for (path, mode) in [("f", 0o600), ("a/script", 0o755), ("a/b/suid", 0o4700)] {
            fs::write(at(path), "").unwrap();
            set(&at(path), mode);
        }
        let secret = outside.path().join("secret");
        fs::write(&secret, "").unwrap();
        set(&secret, 0o600);
        symlink(&secret, at("a/link")).unwrap();
        symlink(outside.path(), at("dirlink")).unwrap();
        set(&at("a"), 0o700);
        set(root.path(), 0o700);
        set_group_of_tree(root.path(), own_group(), GroupChange::Always).unwrap();
        assert_eq!([mode(&at("f")), mode(&at("a/script"))], [0o660, 0o775]);
        assert_eq!(mode(&at("a/b/suid")) & 0o777, 0o760);
        assert_eq!([mode(root.path()), mode(&at("a"))], [0o2770, 0o2770]);
        assert_eq!(mode(&secret), 0o600, "outside of the tree");
    }

    #[test]
    fn a_root_that_fits_is_trusted_only_if_the_policy_says_so() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("f");
        set_group_of_tree(root.path(), own_group(), GroupChange::OnRootMismatch).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        set_group_of_tree(root.path(), own_group(), GroupChange::OnRootMismatch).unwrap();
        assert_eq!(mode(&file), 0o600);
        set_group_of_tree(root.path(), own_group(), GroupChange::Always).unwrap();
        assert_eq!(mode(&file), 0o660);
        let missing = set_group_of_tree(&root.path().join("none"), 0, GroupChange::Always).unwrap_err();
        assert!(missing.to_string().starts_with("cannot set the group of "), "{missing}");
    }
}
