//! Opens a path below a directory that others change at the same time, such as a volume of a pod. Follows links only as long as
//! they stay inside, and creates missing directories where asked to. Never opens or creates anything outside.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, mkdirat};

/// Flags to hold what is at a name: a link is not followed, and a device or pipe is not opened.
const HOLD: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const HOLD_DIR: OFlag = HOLD.union(OFlag::O_DIRECTORY);
/// Flags to open a new directory, whose mode is changed.
const OPEN_DIR: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A path inside a directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum InsideError {
    /// It is absolute or has `..`.
    #[error("{} is not a path below a directory", path.display())]
    NotBelow { path: PathBuf },
    /// A link leads outside.
    #[error("{} is not within {}", path.display(), root.display())]
    Outside {
        /// Where it leads.
        path: PathBuf,
        root: PathBuf,
    },
    /// Somebody replaced a part of it by a link meanwhile.
    #[error("{} became a link while it was opened", path.display())]
    Replaced { path: PathBuf },
    /// A part of it could not be opened.
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// A directory could not be created.
    #[error("cannot create directory {}", path.display())]
    Make { path: PathBuf, source: io::Error },
}

/// Flags to read a file by its descriptor: a pipe or device that has no data does not block.
const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// An opened path: remains the same file whatever happens to its name.
#[derive(Debug)]
pub struct Inside {
    fd: OwnedFd,
    kind: SFlag,
}

impl Inside {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == SFlag::S_IFDIR
    }

    /// The regular file, to be read. Blocking.
    pub fn file(&self) -> io::Result<File> {
        if self.kind != SFlag::S_IFREG {
            return Err(io::Error::other("not a regular file"));
        }
        self.open(READ)
    }

    /// The names in the directory, in order; names of directories end in a slash. Blocking.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
            names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
        }
        names.sort();
        Ok(names)
    }

    /// Opens it by its descriptor: its name may lead elsewhere by now.
    fn open(&self, flags: OFlag) -> io::Result<File> {
        Ok(File::from(open(&*self.path(), flags, Mode::empty())?))
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// The content of a regular file of at most `most` bytes. Blocking.
    pub fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        if self.kind != SFlag::S_IFREG {
            return Err(io::Error::other("not a regular file"));
        }
        let mut content = Vec::new();
        self.open(READ)?.take(most.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::Error::other(format!("larger than {most} bytes")));
        }
        Ok(content)
    }
}

impl AsFd for Inside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens `relative` inside `root`. Missing directories are created with the mode of `root`. Blocking.
pub fn open_inside(root: &Path, relative: &Path) -> Result<Inside, InsideError> {
    let (mut walk, missing, mode) = enter_existing(root, relative)?;
    for name in missing.components().filter(|part| matches!(part, Component::Normal(_))) {
        walk.make(name, mode)?;
    }
    walk.end()
}

/// Opens what exists at `relative` inside `root`. Blocking.
pub fn open_existing_inside(root: &Path, relative: &Path) -> Result<Inside, InsideError> {
    let (walk, missing, _) = enter_existing(root, relative)?;
    if missing.components().next().is_some() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(InsideError::Open { path: root.join(relative), source });
    }
    walk.end()
}

/// Goes to the part of `relative` that exists inside `root`. Returns the missing rest and the mode of `root`, too.
fn enter_existing(root: &Path, relative: &Path) -> Result<(Walk, PathBuf, Mode), InsideError> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !relative.components().all(is_name) {
        return Err(InsideError::NotBelow { path: relative.to_owned() });
    }
    let opened = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| InsideError::Open { path, source }
    };
    let root = fs::canonicalize(root).map_err(opened(root))?;
    let top = open(&root, HOLD_DIR, Mode::empty()).map_err(io::Error::from).map_err(opened(&root))?;
    let mode = mode_of(&status(&top, &root)?);
    let (real, missing) = existing_part(&root, relative).map_err(opened(&root.join(relative)))?;
    let Ok(inside) = real.strip_prefix(&root) else { return Err(InsideError::Outside { path: real, root }) };
    let mut walk = Walk { at: root.clone(), fd: top };
    for name in inside.components() {
        walk.enter(name)?;
    }
    Ok((walk, missing, mode))
}

/// The longest part of `relative` that exists, without links, and the rest.
fn existing_part(root: &Path, relative: &Path) -> io::Result<(PathBuf, PathBuf)> {
    for part in relative.ancestors() {
        match fs::canonicalize(root.join(part)) {
            Ok(real) => {
                let rest = relative.strip_prefix(part).unwrap_or(Path::new("")).to_owned();
                return Ok((real, rest));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((root.to_owned(), relative.to_owned()))
}

/// A directory or file that is held open, and its name for messages.
struct Walk {
    at: PathBuf,
    fd: OwnedFd,
}

impl Walk {
    /// Goes to an existing entry, which is no link.
    fn enter(&mut self, name: Component<'_>) -> Result<(), InsideError> {
        let at = self.at.join(name);
        let entered = openat(&self.fd, name.as_os_str(), HOLD, Mode::empty());
        let fd = entered.map_err(|errno| InsideError::Open { path: at.clone(), source: errno.into() })?;
        if kind_of(&status(&fd, &at)?) == SFlag::S_IFLNK {
            return Err(InsideError::Replaced { path: at });
        }
        *self = Self { at, fd };
        Ok(())
    }

    fn end(self) -> Result<Inside, InsideError> {
        let kind = kind_of(&status(&self.fd, &self.at)?);
        Ok(Inside { fd: self.fd, kind })
    }

    /// Creates a directory and goes there.
    fn make(&mut self, name: Component<'_>, mode: Mode) -> Result<(), InsideError> {
        let at = self.at.join(name);
        let failed = |errno: Errno| InsideError::Make { path: at.clone(), source: errno.into() };
        let is_new = match mkdirat(&self.fd, name.as_os_str(), mode) {
            Ok(()) => true,
            // Another container of the pod creates the same.
            Err(Errno::EEXIST) => false,
            Err(errno) => return Err(failed(errno)),
        };
        let fd =
            openat(&self.fd, name.as_os_str(), OPEN_DIR, Mode::empty()).map_err(|errno| match errno {
                Errno::ELOOP | Errno::ENOTDIR => InsideError::Replaced { path: at.clone() },
                errno => failed(errno),
            })?;
        if is_new {
            // The umask restricts the mode of a new directory.
            fchmod(&fd, mode).map_err(failed)?;
        }
        *self = Self { at, fd };
        Ok(())
    }
}

fn status(fd: &OwnedFd, path: &Path) -> Result<FileStat, InsideError> {
    fstat(fd).map_err(|errno| InsideError::Open { path: path.to_owned(), source: errno.into() })
}

fn kind_of(status: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT
}

fn mode_of(status: &FileStat) -> Mode {
    Mode::from_bits_truncate(status.st_mode)
}

#[cfg(test)]
#[path = "inside_tests.rs"]
mod tests;
