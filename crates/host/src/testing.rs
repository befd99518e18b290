//! Test fixtures: files of a fake machine, and processes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

pub use ctor;

pub use crate::blocking::work_in_place;
use crate::{KernelMounts, Shim};

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
