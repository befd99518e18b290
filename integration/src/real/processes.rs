//! The init processes of all containers of a host, found by the host's cgroup, independent of containerd's state.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use procfs::ProcError;
use procfs::process::Process;

const CGROUPS: &str = "/sys/fs/cgroup";

/// A container from the kernel's view: the first process of a PID namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerProcess {
    /// Its pid on the host.
    pub pid: i32,
    /// Its start time in clock ticks since boot, which with the PID identifies it.
    pub started: u64,
    /// Its command line.
    pub command: Vec<String>,
    /// The container's id: the name of its cgroup.
    pub container: String,
}

impl ContainerProcess {
    /// Whether it is still running.
    pub fn is_alive(&self) -> bool {
        look(self.pid, &self.container).ok().flatten().is_some_and(|now| now == *self)
    }
}

/// The init processes of the containers in the top-level cgroup `name`.
pub(super) fn container_processes(name: &str) -> Result<Vec<ContainerProcess>> {
    let mut pids = Vec::new();
    if let Some(top) = top_cgroup(name) {
        collect(&top, &mut pids)?;
    }
    let mut found = Vec::new();
    for (pid, container) in pids {
        found.extend(look(pid, &container)?);
    }
    Ok(found)
}

/// The directory of a cgroup: the unified one, else of any hierarchy, because a container joins all of them.
fn top_cgroup(name: &str) -> Option<PathBuf> {
    let unified = Path::new(CGROUPS).join(name);
    let others = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path().join(name));
    std::iter::once(unified).chain(others).find(|dir| dir.join("cgroup.procs").exists())
}

/// Collects the processes of a cgroup and its descendants with the cgroup's name. A removed cgroup has none.
fn collect(cgroup: &Path, pids: &mut Vec<(i32, String)>) -> Result<()> {
    let Ok(procs) = fs::read_to_string(cgroup.join("cgroup.procs")) else { return Ok(()) };
    let name = cgroup.file_name().unwrap_or_default().to_string_lossy();
    for pid in procs.lines() {
        let pid = pid.parse().with_context(|| format!("a pid in {}: {pid}", cgroup.display()))?;
        pids.push((pid, name.to_string()));
    }
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), pids)?;
        }
    }
    Ok(())
}

/// A process, if it is a running init process of a container.
fn look(pid: i32, container: &str) -> Result<Option<ContainerProcess>> {
    let seen = || {
        let process = Process::new(pid)?;
        let (stat, status) = (process.stat()?, process.status()?);
        let is_first = status.nspid.as_ref().is_some_and(|ids| ids.len() > 1 && ids.last() == Some(&1));
        // A zombie has no command line.
        let command = process.cmdline()?;
        let container = container.to_owned();
        let process = ContainerProcess { pid, started: stat.starttime, command, container };
        Ok((is_first && !process.command.is_empty()).then_some(process))
    };
    match seen() {
        Ok(found) => Ok(found),
        Err(ProcError::NotFound(_)) => Ok(None),
        // The process exited while it was read.
        Err(ProcError::Io(error, _)) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("process {pid}")),
    }
}
