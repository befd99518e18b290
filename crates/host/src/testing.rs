//! Test fixtures: files of a fake machine, processes, and mounts without a kernel.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use parking_lot::Mutex;

pub use ctor;

pub use crate::blocking::work_in_place;
use crate::{Inside, KernelMounts, Mount, MountCall, MountTable, Mounts, Origin, Shim, SysError};

/// `/proc/meminfo` of a fake machine with 2 MiB of swap.
pub const MEMINFO: &str = "MemTotal:        3975224 kB\nMemFree: 1 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapCached: 0 kB\n\
    Active: 1 kB\nInactive: 1 kB\nSwapTotal: 2048 kB\nSwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 1 kB\n\
    Slab: 1 kB\nCommitted_AS: 1 kB\nVmallocTotal: 1 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n";

/// Notes that this host has no means for a test. Where every test must run (`HOSTLET_TEST_ALL`), as in continuous integration, that is
/// a failure.
#[track_caller]
pub fn skipped(why: &str) {
    assert!(std::env::var_os("HOSTLET_TEST_ALL").is_none(), "HOSTLET_TEST_ALL is set, and this test {why}");
    eprintln!("skipped: {why}");
}

/// A shim of this process.
pub fn shim(pid: i32, started: u64) -> Shim {
    Shim::made_up(pid, started)
}

/// Runs a test with a directory in a mount namespace of its own, in which nothing is shared. Needs root.
pub fn in_mount_namespace(test: impl FnOnce(&Path, &KernelMounts) + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    let run = move || {
        let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
        let is_alone = unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(None::<&str>, "/", None::<&str>, private, None::<&str>));
        match is_alone {
            Ok(()) => test(&path, &KernelMounts { mountinfo: "/proc/thread-self/mountinfo".into() }),
            Err(errno) => skipped(&format!("needs root ({errno})")),
        }
    };
    std::thread::spawn(run).join().unwrap();
}

/// Mounts without a kernel: a list, which clones share. What is below a mount point stays where it is.
#[derive(Clone, Debug, Default)]
pub struct FakeMounts(Arc<Mutex<Vec<Mount>>>);

impl FakeMounts {
    /// Mounts `origin`, of this type, on what exists at `point`.
    pub fn add(&self, point: &Path, filesystem: &str, origin: Origin) {
        let point = point.canonicalize().unwrap();
        self.0.lock().push(Mount { point, filesystem: filesystem.to_owned(), origin, is_shared: true });
    }

    /// Unmounts the topmost mount at `point`. Returns whether there was one.
    pub fn remove(&self, point: &Path) -> bool {
        let point = point.canonicalize().unwrap_or_else(|_| point.to_owned());
        let mut mounts = self.0.lock();
        let last = mounts.iter().rposition(|mount| mount.point == point);
        last.map(|at| mounts.remove(at)).is_some()
    }

    /// Unmounts all, as a reboot does.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// The mounts now.
    pub fn now(&self) -> MountTable {
        self.0.lock().iter().cloned().collect()
    }

    /// What is at `path`.
    fn origin(&self, path: &Path) -> Origin {
        let table = self.now();
        let outer = table.of(path);
        let origin = outer.map(|outer| outer.origin.clone()).unwrap_or_default();
        let inside = outer.and_then(|outer| path.strip_prefix(&outer.point).ok()).unwrap_or(path);
        Origin { dir: origin.dir.join(inside), ..origin }
    }
}

impl Mounts for FakeMounts {
    fn table(&self) -> Result<MountTable, SysError> {
        Ok(self.now())
    }

    fn mount_tmpfs(&self, dir: &Path, _size: u64) -> Result<(), SysError> {
        self.add(dir, "tmpfs", Origin { device: "0:1".to_owned(), dir: "/".into() });
        Ok(())
    }

    fn bind(&self, opened: &Inside, target: &Path) -> Result<(), SysError> {
        let source = fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd())).unwrap();
        self.add(target, "ext4", self.origin(&source));
        Ok(())
    }

    fn mount(&self, call: &MountCall) -> Result<(), SysError> {
        if !call.options.iter().any(|option| option == "remount") {
            let origin = self.origin(Path::new(&call.source));
            self.add(&call.target, call.filesystem.unwrap_or("ext4"), origin);
        }
        Ok(())
    }

    fn unmount(&self, path: &Path) -> Result<(), SysError> {
        let failed = |code| {
            let source = io::Error::from_raw_os_error(code);
            Err(SysError::Unmount { path: path.to_owned(), source })
        };
        let point = path.canonicalize().unwrap();
        if self.now().inside(&point).next().is_some() {
            return failed(libc::EBUSY);
        }
        if self.remove(&point) { Ok(()) } else { failed(libc::EINVAL) }
    }

    fn force_unmount(&self, path: &Path) -> Result<(), SysError> {
        self.unmount(path)
    }

    fn wait_for_server(&self, _path: &Path) {}
}
