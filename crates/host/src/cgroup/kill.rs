//! Kills the processes left in a pod's cgroups. Signals only processes that the kernel lists there, read again before each
//! attempt.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{CgroupError, files};

/// SIGKILL acts at once unless a process is in uninterruptible sleep, against which more attempts would not help.
const TRIES: u32 = 5;
/// The wait after the first attempt, doubled after each: 310 ms in total, on a thread that may block.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Kills every process in `cgroups`, which are the same pod's in each hierarchy, and below them; returns when they have exited.
pub(super) fn kill_all(cgroups: &[PathBuf]) -> Result<(), CgroupError> {
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES {
        let mut populated = false;
        for cgroup in cgroups {
            populated |= kill_once(cgroup)?;
        }
        if !populated {
            return Ok(());
        }
        thread::sleep(wait);
        wait *= 2;
    }
    for cgroup in cgroups {
        let pids = pids_below(cgroup)?;
        if !pids.is_empty() {
            return Err(CgroupError::StillPopulated { path: cgroup.clone(), pids });
        }
    }
    Ok(())
}

/// Returns whether there was a process to kill.
fn kill_once(cgroup: &Path) -> Result<bool, CgroupError> {
    let pids = pids_below(cgroup)?;
    if pids.is_empty() {
        return Ok(false);
    }
    // On v2 since Linux 5.14, the kernel kills the whole subtree, including concurrent forks.
    let whole = cgroup.join("cgroup.kill");
    if whole.exists() {
        files::write(&whole, "1")?;
        return Ok(true);
    }
    for pid in pids {
        match kill(Pid::from_raw(pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => {
                return Err(CgroupError::Kill { pid, path: cgroup.to_owned(), source: errno.into() });
            }
        }
    }
    Ok(true)
}

/// The processes in a cgroup and below it, without threads.
pub(super) fn pids_below(cgroup: &Path) -> Result<Vec<i32>, CgroupError> {
    let mut pids = Vec::new();
    for directory in files::leaf_first(cgroup)? {
        let text = files::read_if_present(&directory.join("cgroup.procs"))?.unwrap_or_default();
        pids.extend(parse_procs(&text));
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// The listed processes. A process in an unrelated PID namespace is listed as 0, and kill(2) takes 0 and negative numbers as
/// groups: they must never be returned. PID 1 is never a pod's.
fn parse_procs(text: &str) -> impl Iterator<Item = i32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn processes_are_listed_by_number() {
        assert_eq!(parse_procs("12\n0\n-1\n1\n\nx\n34\n").collect::<Vec<_>>(), [12, 34]);
    }

    proptest! {
        #[test]
        fn never_a_number_that_means_a_group(text in "[0-9\n -]{0,60}") {
            prop_assert!(parse_procs(&text).all(|pid| pid > 1));
        }
    }

    #[test]
    fn a_removed_cgroup_has_no_processes() {
        let dir = tempfile::tempdir().unwrap();
        kill_all(&[dir.path().join("gone")]).unwrap();
    }
}
