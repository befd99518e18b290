//! Counts the open files of processes and the sockets among them. The kernel has no count of sockets, so each link has to be read: the
//! number of links is bounded.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, fstat, openat, readlinkat_raw};

/// Links read for one cgroup. A thousand take about a millisecond.
const LINKS_MAX: u64 = 16_384;

/// The links of sockets begin with this: `socket:[12345]`.
const SOCKET: &[u8] = b"socket";

/// The open files of some processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenFiles {
    /// Their number; `None` if it takes too long to count.
    pub(super) descriptors: Option<u64>,
    /// The number of sockets; `None` if it takes too long to count.
    pub(super) sockets: Option<u64>,
}

/// Counts the open files of processes. A process that has exited has none.
pub(super) fn open_files(proc: &Path, pids: &[u32]) -> OpenFiles {
    let mut open = OpenFiles { descriptors: Some(0), sockets: Some(0) };
    let mut links = LINKS_MAX;
    for pid in pids {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = openat(CWD, proc.join(format!("{pid}/fd")), flags, Mode::empty()) else {
            continue;
        };
        // Since Linux 6.2, the size of the directory is the number of open files; before, it is 0.
        let size =
            fstat(&directory).ok().and_then(|stat| u64::try_from(stat.st_size).ok()).filter(|size| *size > 0);
        let counted = match size {
            Some(size) if size > links => None,
            Some(_) | None => count(directory, &mut links),
        };
        open.descriptors =
            sum(open.descriptors, counted.as_ref().map(|counted| counted.descriptors).or(size));
        open.sockets = sum(open.sockets, counted.map(|counted| counted.sockets));
        if open.sockets.is_none() {
            links = 0;
        }
    }
    open
}

struct Counted {
    descriptors: u64,
    sockets: u64,
}

/// Reads the links in this directory, each of which takes one of `links`; `None` if there are more.
fn count(directory: OwnedFd, links: &mut u64) -> Option<Counted> {
    let mut counted = Counted { descriptors: 0, sockets: 0 };
    let mut entries = Dir::new(directory).ok()?;
    while let Some(Ok(entry)) = entries.read() {
        if entry.file_name().to_bytes().starts_with(b".") {
            continue;
        }
        *links = links.checked_sub(1)?;
        counted.descriptors += 1;
        let mut start = [0_u8; SOCKET.len()];
        let read = entries.fd().ok().and_then(|fd| readlinkat_raw(fd, entry.file_name(), &mut start).ok());
        if read == Some(SOCKET.len()) && start == SOCKET {
            counted.sockets += 1;
        }
    }
    Some(counted)
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn sockets_are_among_the_open_files() {
        let proc = tempfile::tempdir().unwrap();
        let links = |pid: u32, targets: &[&str]| {
            let fd = proc.path().join(format!("{pid}/fd"));
            fs::create_dir_all(&fd).unwrap();
            for (number, target) in targets.iter().enumerate() {
                symlink(target, fd.join(number.to_string())).unwrap();
            }
        };
        links(1, &["/dev/null", "socket:[17]", "pipe:[3]", "anon_inode:[eventpoll]", "sock"]);
        links(2, &["socket:[18]", "socket:[17]"]);
        links(3, &vec!["/dev/null"; LINKS_MAX as usize]);
        let of = |pids: &[u32]| open_files(proc.path(), pids);
        let found = of(&[1, 2, 99, 0]);
        assert_eq!(found, OpenFiles { descriptors: Some(7), sockets: Some(3) });
        assert_eq!(of(&[]), OpenFiles { descriptors: Some(0), sockets: Some(0) });
        assert_eq!(of(&[1, 3, 2]).sockets, None, "too many");
    }

    #[test]
    fn the_open_files_of_this_process() {
        let before = open_files(Path::new("/proc"), &[std::process::id()]);
        let listeners: Vec<TcpListener> =
            (0..50).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let after = open_files(Path::new("/proc"), &[std::process::id()]);
        // Other tests of this process open and close files meanwhile.
        assert!(before.sockets.is_some() && before.descriptors.is_some());
        assert!(after.sockets >= Some(50) && after.descriptors >= after.sockets, "{before:?} {after:?}");
        drop(listeners);
    }
}
