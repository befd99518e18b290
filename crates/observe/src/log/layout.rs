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
mod tests {
    use tempfile::TempDir;

    use super::*;

    struct Bench {
        _root: TempDir,
        layout: LogLayout,
        pod: PodRef,
    }

    fn bench() -> Bench {
        let root = TempDir::new().unwrap();
        let layout = LogLayout {
            pod_logs_dir: root.path().join("log/pods"),
            containers_dir: root.path().join("log/containers"),
        };
        layout.create_roots().unwrap();
        Bench { _root: root, layout, pod: PodRef::new("default", "web", "uid-1") }
    }

    impl Bench {
        fn write(&self, name: &str) -> PathBuf {
            self.layout.create_pod_dir(&self.pod).unwrap();
            self.layout.create_container_dir(&self.pod, "c").unwrap();
            let path = self.layout.container_dir(&self.pod, "c").join(name);
            fs::write(&path, "x").unwrap();
            path
        }

        fn left(&self, dir: &Path) -> Vec<String> {
            let mut names = file_names(dir).unwrap();
            names.sort();
            names
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn directories_have_the_modes_of_a_stock_kubelet_and_are_created_once() {
        let bench = bench();
        for _ in 0..2 {
            bench.layout.create_roots().unwrap();
            bench.layout.create_pod_dir(&bench.pod).unwrap();
            bench.layout.create_container_dir(&bench.pod, "c").unwrap();
        }
        assert_eq!(mode(&bench.layout.pod_logs_dir), 0o750);
        assert_eq!(mode(&bench.layout.containers_dir), 0o755);
        assert_eq!(mode(&bench.layout.pod_dir(&bench.pod)), 0o755);
        assert_eq!(mode(&bench.layout.container_dir(&bench.pod, "c")), 0o755);
        assert!(bench.layout.container_dir(&bench.pod, "c").ends_with("log/pods/default_web_uid-1/c"));
    }

    #[test]
    fn a_file_in_the_way_of_a_directory_is_named() {
        let bench = bench();
        fs::write(bench.layout.pod_dir(&bench.pod), "x").unwrap();
        let error = bench.layout.create_pod_dir(&bench.pod).unwrap_err();
        assert!(error.to_string().ends_with("log/pods/default_web_uid-1"), "{error}");
    }

    #[test]
    fn the_next_attempt_follows_the_highest_log() {
        let bench = bench();
        assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 0);
        for name in ["0.log", "2.log", "4.log.20250102-030405.gz", "9.txt"] {
            bench.write(name);
        }
        fs::create_dir(bench.layout.container_dir(&bench.pod, "c").join("7.log")).unwrap();
        assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 5);
    }

    #[test]
    fn a_log_above_the_maximum_attempt_is_ignored() {
        let bench = bench();
        for name in
            ["4294967295.log", "4294967294.log.20250102-030405.gz", "2147483647.log", "1000000001.log"]
        {
            bench.write(name);
        }
        assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 0);
        bench.write("2.log");
        assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 3);
    }

    #[test]
    fn a_link_is_created_and_replaced() {
        let bench = bench();
        let id = ContainerId::from("0123456789ab");
        let log = bench.write("1.log");
        let link = bench.layout.containers_dir.join("web_default_c-0123456789ab.log");
        symlink("/elsewhere", &link).unwrap();
        for _ in 0..2 {
            bench.layout.link_log(&bench.pod, "c", 1, &id).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), log);
        }

        let error = bench.layout.link_log(&bench.pod, "c", 2, &id).unwrap_err();
        assert!(matches!(error, LogError::NoLog { .. }));
        assert_eq!(fs::read_link(&link).unwrap(), log, "no link is made to nothing");

        fs::remove_file(&link).unwrap();
        fs::write(&link, "somebody's").unwrap();
        let error = bench.layout.link_log(&bench.pod, "c", 1, &id).unwrap_err();
        assert!(matches!(error, LogError::NotALink { .. }));
        assert_eq!(fs::read_to_string(&link).unwrap(), "somebody's");
    }

    #[test]
    fn a_pod_named_like_a_path_removes_nothing() {
        let bench = bench();
        let precious = bench.layout.containers_dir.join("ns_web_1");
        fs::create_dir(&precious).unwrap();
        for pod in [
            PodRef::new("../containers/ns", "web", "1"),
            PodRef::new("ns", "x", "y/../../containers/ns_web_1"),
            PodRef::new(&bench.layout.containers_dir.join("ns").to_string_lossy(), "web", "1"),
        ] {
            bench.layout.remove_pod_dir(&pod).unwrap();
            bench.layout.remove_container_logs(&pod, "c", 0, &ContainerId::from("0123456789ab")).unwrap();
        }
        assert!(precious.exists());
    }

    #[test]
    fn logs_that_cannot_exist_are_removed() {
        let bench = bench();
        let pod = PodRef::new(&"n".repeat(63), &"w".repeat(253), "91bfbf8e-bc69-4d82-8bd0-a527f7510d09");
        let id = ContainerId::from("0123456789ab");
        assert!(bench.layout.create_pod_dir(&pod).is_err(), "the name is too long");
        bench.layout.remove_container_logs(&pod, "c", 0, &id).unwrap();
        bench.layout.remove_pod_dir(&pod).unwrap();
    }

    #[test]
    fn removing_a_container_removes_only_its_logs_and_link() {
        let bench = bench();
        let (id, other) = (ContainerId::from("0123456789ab"), ContainerId::from("ba9876543210"));
        for name in
            ["1.log", "1.log.20250102-030405", "1.log.20250102-030404.gz", "11.log", "2.log", "1.logs"]
        {
            bench.write(name);
        }
        bench.layout.link_log(&bench.pod, "c", 1, &id).unwrap();
        bench.layout.link_log(&bench.pod, "c", 2, &other).unwrap();
        for _ in 0..2 {
            bench.layout.remove_container_logs(&bench.pod, "c", 1, &id).unwrap();
        }
        let dir = bench.layout.container_dir(&bench.pod, "c");
        assert_eq!(bench.left(&dir), ["1.logs", "11.log", "2.log"]);
        assert_eq!(bench.left(&bench.layout.containers_dir), ["web_default_c-ba9876543210.log"]);

        for _ in 0..2 {
            bench.layout.remove_pod_dir(&bench.pod).unwrap();
        }
        assert!(!bench.layout.pod_dir(&bench.pod).exists());
    }
}
