//! The alarm of a real kernel about the use of memory of a cgroup v1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hostlet_host::MemoryAlarm;
use tokio::time::timeout;

use crate::support::SOON;

/// The hierarchy of cgroup v1.
const MEMORY: &str = "/sys/fs/cgroup/memory";
/// The bytes at which the alarm is raised, and half and twice of it in KiB.
const AMOUNT: u64 = 64 << 20;
const HALF: u64 = AMOUNT / 2 / 1024;
const TWICE: u64 = AMOUNT * 2 / 1024;

/// A cgroup of the test. Dropping it removes it.
struct Cgroup(PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

impl Cgroup {
    /// Runs a process in it that uses so much memory for a moment.
    fn use_memory(&self, kib: u64) {
        // A line without an end is kept in memory as a whole.
        let script =
            format!("echo $$ >{}/cgroup.procs && head -c {kib}K /dev/zero | tail | cksum", self.0.display());
        let status = Command::new("sh").args(["-c", &script]).status().unwrap();
        assert!(status.success(), "{status}");
    }
}

#[tokio::test]
async fn the_kernel_raises_the_alarm_of_a_cgroup_when_its_processes_use_more() {
    if !Path::new(MEMORY).join("cgroup.event_control").exists() {
        println!("skipped: the memory of this host is not in cgroup v1");
        return;
    }
    let cgroup = Cgroup(Path::new(MEMORY).join(format!("hl-{}-alarm", std::process::id())));
    fs::create_dir(&cgroup.0).unwrap();
    let alarm = MemoryAlarm::of_usage(&cgroup.0, AMOUNT).unwrap();
    cgroup.use_memory(HALF);
    // A count of what happened before this would be there at once.
    let early = timeout(Duration::ZERO, alarm.raised()).await;
    assert!(early.is_err(), "raised at half of the amount: {early:?}");
    cgroup.use_memory(TWICE);
    timeout(SOON, alarm.raised()).await.expect("no alarm").unwrap();
}
