//! The layout of logs: directories, files and links of one pod. Does not know which pods exist.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hostlet_base::{ContainerId, PodRef};
use hostlet_host::{self as sys, is_missing};

use super::error::{LogError, at};
use super::names::{attempt_of, link_name, log_name, parse_pod_dir_name, pod_dir_name};

/// Mode of the directories that a log collector must traverse; the directory of all pods is restricted to root.
const POD_DIR_MODE: u32 = 0o755;
const ROOT_MODE: u32 = 0o750;
/// Maximum attempt: a restart each second for thirty years stays below it.
const LAST_ATTEMPT: u32 = 1_000_000_000;

/// The two directories of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLayout {
    /// `podLogsDir`, `/var/log/pods` by default: a directory per pod, in it one per container.
    pub pod_logs_dir: PathBuf,
    /// `/var/log/containers`: a link per container, which log collectors follow.
    pub containers_dir: PathBuf,
}

impl LogLayout {
    /// Creates the two directories, as a kubelet does at start-up. Existing ones are unchanged.
    pub fn create_roots(&self) -> Result<(), LogError> {
        create_dir(&self.pod_logs_dir, ROOT_MODE)?;
        create_dir(&self.containers_dir, POD_DIR_MODE)
    }

    /// A pod's log directory: CRI's `log_directory`.
    pub fn pod_dir(&self, pod: &PodRef) -> PathBuf {
        self.pod_logs_dir.join(pod_dir_name(pod))
    }

    /// A container's log directory.
    pub(crate) fn container_dir(&self, pod: &PodRef, container: &str) -> PathBuf {
        self.pod_dir(pod).join(container)
    }

    /// A container's current log.
    pub fn log_file(&self, pod: &PodRef, container: &str, attempt: u32) -> PathBuf {
        self.container_dir(pod, container).join(log_name(attempt))
    }

    /// Creates a pod's log directory, before its sandbox.
    pub fn create_pod_dir(&self, pod: &PodRef) -> Result<(), LogError> {
        create_dir(&self.pod_dir(pod), POD_DIR_MODE)
    }

    /// Creates a container's log directory, before the container.
    pub fn create_container_dir(&self, pod: &PodRef, container: &str) -> Result<(), LogError> {
        create_dir(&self.container_dir(pod, container), POD_DIR_MODE)
    }

    /// The attempt after the highest one with a log; 0 without logs. Used for a container that the runtime no longer knows, so
    /// that its output is not appended to an earlier log. Attempts above the maximum are ignored.
    pub fn next_attempt(&self, pod: &PodRef, container: &str) -> Result<u32, LogError> {
        let names = file_names(&self.container_dir(pod, container))?;
        let attempts = names.iter().filter_map(|name| attempt_of(name));
        Ok(attempts.filter(|attempt| *attempt <= LAST_ATTEMPT).max().map_or(0, |last| last + 1))
    }

    /// Links a started container's log under the name that log collectors use, replacing any link of that name. Callers
    /// only log a failure: the runtime writes the log anyway.
    pub fn link_log(
        &self,
        pod: &PodRef,
        container: &str,
        attempt: u32,
        id: &ContainerId,
    ) -> Result<(), LogError> {
        let log = self.log_file(pod, container, attempt);
        let link = self.containers_dir.join(link_name(pod, container, id));
        match fs::metadata(&log) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(LogError::NoLog { path: log }),
            Err(source) => return Err(LogError::Inspect { path: log, source }),
        }
        match fs::symlink_metadata(&link) {
            Ok(found) if !found.is_symlink() => return Err(LogError::NotALink { path: link }),
            Ok(_) if fs::read_link(&link).is_ok_and(|target| target == log) => return Ok(()),
            Ok(_) => remove_file(&link)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(LogError::Inspect { path: link, source }),
        }
        symlink(&log, &link).map_err(at(|path, source| LogError::Link { path, source }, &link))
    }

    /// Removes the logs of one attempt of a container, including rotated ones, and its link. Idempotent.
    pub fn remove_container_logs(
        &self,
        pod: &PodRef,
        container: &str,
        attempt: u32,
        id: &ContainerId,
    ) -> Result<(), LogError> {
        if !is_a_pod(pod) {
            return Ok(());
        }
        let dir = self.container_dir(pod, container);
        for name in file_names(&dir)? {
            if attempt_of(&name) == Some(attempt) {
                remove_file(&dir.join(name))?;
            }
        }
        let link = self.containers_dir.join(link_name(pod, container, id));
        match fs::symlink_metadata(&link) {
            Ok(found) if found.is_symlink() => remove_file(&link),
            Ok(_) => Err(LogError::NotALink { path: link }),
            Err(e) if is_missing(&e) => Ok(()),
            Err(source) => Err(LogError::Inspect { path: link, source }),
        }
    }

    /// Removes all logs of a pod. Links to them remain until the next clean-up.
    pub fn remove_pod_dir(&self, pod: &PodRef) -> Result<(), LogError> {
        if is_a_pod(pod) { remove_tree(&self.pod_dir(pod)) } else { Ok(()) }
    }
}

/// Whether hostlet may have made logs of this pod. A pod that is known only from the runtime may have any name, even a path.
fn is_a_pod(pod: &PodRef) -> bool {
    parse_pod_dir_name(&pod_dir_name(pod)).is_some()
}

/// Creates a directory and its parents with `mode`, independent of the umask. An existing one keeps its mode.
fn create_dir(path: &Path, mode: u32) -> Result<(), LogError> {
    let failed = |path, source| LogError::CreateDir { path, source };
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(POD_DIR_MODE).create(parent).map_err(at(failed, parent))?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at(failed, path)),
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(source) => Err(failed(path.to_owned(), source)),
    }
}

/// The names of all non-directories in a directory; empty if it does not exist. Skips names that are not UTF-8.
pub(super) fn file_names(dir: &Path) -> Result<Vec<String>, LogError> {
    let failed = |source| LogError::ReadDir { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if is_missing(&e) => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_dir = entry.file_type().map_err(failed)?.is_dir();
        names.extend(entry.file_name().into_string().ok().filter(|_| !is_dir));
    }
    Ok(names)
}

pub(super) fn remove_file(path: &Path) -> Result<(), LogError> {
    removed(fs::remove_file(path), path)
}

/// Removes a pod's directory, but nothing mounted inside it.
pub(super) fn remove_tree(path: &Path) -> Result<(), LogError> {
    sys::remove_tree(path).map_err(|source| LogError::RemoveTree { path: path.to_owned(), source })
}

fn removed(outcome: std::io::Result<()>, path: &Path) -> Result<(), LogError> {
    match outcome {
        Err(e) if is_missing(&e) => Ok(()),
        outcome => outcome.map_err(at(|path, source| LogError::Remove { path, source }, path)),
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
