//! Finds containerd's shim processes, and terminates one with its resources. Does not know which of them are needed.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use procfs::process::{Process, all_processes_with_root};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::Command;

use crate::{Mounts, SysError, file_work, remove_tree};

/// The program's name, and its truncated process name.
const PROGRAM: &str = "containerd-shim-runc-v2";
const COMM: &str = "containerd-shim";
/// The directory of bundles in containerd's state directory.
const BUNDLES: &str = "io.containerd.runtime.v2.task";
/// Maximum time for a killed process to exit.
const EXIT_TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Time limit of a shim's own clean-up.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    /// PID of its process in the host's namespace.
    pub pid: i32,
    /// Its start time in ticks since boot, which with the PID identifies the process.
    pub started: u64,
    /// Its containerd namespace.
    pub namespace: String,
    /// Its sandbox or container.
    pub id: String,
    /// The socket of its containerd.
    pub address: PathBuf,
    program: PathBuf,
    /// Its working directory, the bundle of its container; it may have been removed.
    bundle: PathBuf,
}

/// The shims below `proc`, which is `/proc` outside tests. Skips helpers that start or clean up after a shim. Blocking.
pub fn shims(proc: &Path) -> Result<Vec<Shim>, SysError> {
    let unread = |source| SysError::ReadProc { path: proc.to_owned(), source: Box::new(source) };
    let processes = all_processes_with_root(proc).map_err(unread)?;
    // It may exit in the meantime.
    Ok(processes.filter_map(|process| shim(proc, &process.ok()?)).collect())
}

fn shim(proc: &Path, process: &Process) -> Option<Shim> {
    let dir = proc.join(process.pid().to_string());
    if fs::read_to_string(dir.join("comm")).ok()?.trim_end() != COMM {
        return None;
    }
    let arguments = process.cmdline().ok()?;
    let Flags { namespace, id, address } = flags(&arguments)?;
    let started = process.stat().ok()?.starttime;
    let bundle = fs::read_link(dir.join("cwd")).ok()?;
    let program = PathBuf::from(arguments.first()?);
    Some(Shim { pid: process.pid(), started, namespace, id, address: address.into(), program, bundle })
}

#[cfg(any(test, feature = "fakes"))]
impl Shim {
    /// A shim of a process that nobody looks for.
    pub fn made_up(pid: i32, started: u64) -> Self {
        let (namespace, id) = ("k8s.io".to_owned(), format!("sandbox-{pid}"));
        let path = PathBuf::new;
        Self { pid, started, namespace, id, address: path(), program: path(), bundle: path() }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Flags {
    namespace: String,
    id: String,
    address: String,
}

/// Parses a shim's command line; `None` for a helper with an action such as `start` or `delete`.
fn flags(arguments: &[String]) -> Option<Flags> {
    let (program, arguments) = arguments.split_first()?;
    if Path::new(program).file_name()? != PROGRAM || arguments.iter().any(|a| a == "start" || a == "delete") {
        return None;
    }
    let value = |flag: &str| {
        let at = arguments.iter().position(|a| a.strip_prefix('-').is_some_and(|a| a == flag))?;
        Some(arguments.get(at + 1)?.clone())
    };
    Some(Flags { namespace: value("namespace")?, id: value("id")?, address: value("address")? })
}

/// Terminates a shim with its processes, and removes runc's state of its container, its mounts and its bundle. Idempotent. Another
/// process that reuses its PID is left alone.
pub async fn end_shim(shim: &Shim, mounts: &Arc<dyn Mounts>) -> Result<(), SysError> {
    let killed = shim.clone();
    done(file_work(move || kill(&killed)).await)?;
    if is_bundle(shim) && shim.bundle.exists() {
        // Like containerd for a dead shim: kills and deletes the container, and unmounts its root filesystem.
        let arguments = ["-namespace", &shim.namespace, "-id", &shim.id, "-address"];
        let cleanup = Command::new(&shim.program)
            .args(arguments)
            .arg(&shim.address)
            .arg("-bundle")
            .arg(&shim.bundle)
            .arg("delete")
            .current_dir(&shim.bundle)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        match tokio::time::timeout(CLEANUP_TIMEOUT, cleanup).await {
            Ok(Ok(output)) if output.status.success() => {}
            // The steps below do the rest.
            Ok(Ok(output)) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                tracing::debug!(id = shim.id, stderr = stderr.trim_end(), "a shim's own clean-up failed");
            }
            Ok(Err(error)) => tracing::debug!(id = shim.id, %error, "a shim's own clean-up cannot be run"),
            Err(_) => tracing::debug!(id = shim.id, "a shim's own clean-up timed out"),
        }
    }
    let (shim, mounts) = (shim.clone(), mounts.clone());
    done(file_work(move || remove_bundle(&shim, &*mounts)).await)
}

fn done(work: Result<Result<(), SysError>, tokio::task::JoinError>) -> Result<(), SysError> {
    work.unwrap_or_else(|source| Err(SysError::Step { source }))
}

/// Kills a shim and its children: containers' init processes and runc.
fn kill(shim: &Shim) -> Result<(), SysError> {
    let Some(handle) = handle(shim.pid, shim.started) else { return Ok(()) };
    let children: Vec<(i32, u64)> = all_processes_with_root(Path::new("/proc"))
        .map(|all| all.filter_map(|process| process.ok()?.stat().ok()).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .filter(|stat| stat.ppid == shim.pid)
        .map(|stat| (stat.pid, stat.starttime))
        .collect();
    kill_one(shim.pid, &handle)?;
    for (pid, started) in children {
        if let Some(handle) = self::handle(pid, started) {
            kill_one(pid, &handle)?;
        }
    }
    Ok(())
}

/// A pidfd of the process with this PID and start time; `None` if it has exited.
fn handle(pid: i32, started: u64) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // Checked after opening, so that the facts belong to the pidfd's process, unless that has exited.
    let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
    (stat.starttime == started).then_some(handle)
}

fn kill_one(pid: i32, handle: &OwnedFd) -> Result<(), SysError> {
    let failed = |source: rustix::io::Errno| SysError::Kill { pid, source: source.into() };
    match pidfd_send_signal(handle, Signal::KILL) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    }
    // Readable once the process has exited.
    match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&EXIT_TIMEOUT)) {
        Ok(0) => Err(failed(rustix::io::Errno::TIMEDOUT)),
        Ok(_) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

/// Whether a shim's working directory is its bundle in containerd's layout.
fn is_bundle(shim: &Shim) -> bool {
    let names = [shim.id.as_str(), shim.namespace.as_str(), BUNDLES];
    let mut dirs = shim.bundle.ancestors().filter_map(Path::file_name);
    shim.bundle.is_absolute()
        && !shim.id.is_empty()
        && names.iter().all(|name| dirs.next().is_some_and(|d| d == *name))
}

/// Unmounts the shim's mounts in containerd's state directory, and removes the bundle.
fn remove_bundle(shim: &Shim, mounts: &dyn Mounts) -> Result<(), SysError> {
    // Below the directories of bundles and namespace.
    let Some(state) = shim.bundle.ancestors().nth(3).filter(|_| is_bundle(shim)) else { return Ok(()) };
    let is_its = |point: &Path| point.components().any(|part| part.as_os_str() == shim.id.as_str());
    let points = || -> Result<Vec<PathBuf>, SysError> {
        let table = mounts.table()?;
        Ok(table.within(state).map(|mount| mount.point.clone()).filter(|point| is_its(point)).collect())
    };
    // In reverse mount order, because mounts can be nested. containerd may unmount them concurrently; only remaining ones fail.
    for point in points()?.iter().rev() {
        if let Err(error) = mounts.unmount(point)
            && points()?.contains(point)
        {
            return Err(error);
        }
    }
    let work = fs::read_link(shim.bundle.join("work")).ok();
    let work = work
        .filter(|work| work.is_absolute() && work.file_name().is_some_and(|name| name == shim.id.as_str()));
    let dirs: BTreeSet<PathBuf> = work.into_iter().chain([shim.bundle.clone()]).collect();
    dirs.iter().try_for_each(|dir| remove_tree(dir))
}

#[cfg(test)]
#[path = "shims_tests.rs"]
mod tests;
