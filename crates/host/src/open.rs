//! Opens files that somebody else may have replaced, such as the log of a container on a host whose pods may write there. Never blocks on
//! a pipe, and never opens a device: that alone may have an effect.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

/// Whether a link in the place of the file is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It may lead to the file.
    Followed,
    /// It is not the file.
    Rejected,
}

/// Opens a regular file for reading.
///
/// # Errors
/// There is none, or something else is there.
pub fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let no_follow = match links {
        Links::Followed => OFlag::empty(),
        Links::Rejected => OFlag::O_NOFOLLOW,
    };
    let held = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC | no_follow, Mode::empty())?;
    let kind = SFlag::from_bits_truncate(fstat(&held)?.st_mode & SFlag::S_IFMT.bits());
    if kind != SFlag::S_IFREG {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // By its descriptor: its name may lead elsewhere by now.
    File::open(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        symlink("pipe", at("link-to-pipe")).unwrap();
        let read = |name: &str, links| {
            let mut text = String::new();
            open_regular(&at(name), links)?.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read("file", Links::Rejected).unwrap(), "text");
        assert_eq!(read("link", Links::Followed).unwrap(), "text");
        for (name, links) in [
            ("link", Links::Rejected),
            ("pipe", Links::Rejected),
            ("link-to-pipe", Links::Followed),
            (".", Links::Followed),
        ] {
            assert_eq!(read(name, links).unwrap_err().to_string(), "not a regular file", "{name}");
        }
        assert_eq!(read("none", Links::Followed).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
