//! Removes the logs and links of removed pods. Touches only entries whose names have the kubelet's format.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use hostlet_base::{ContainerId, PodUid};

use super::error::LogError;
use super::layout::{LogLayout, file_names, remove_file, remove_tree};
use super::names::{container_id_of_link, parse_pod_dir_name};

/// The result of a clean-up. An entry that cannot be removed does not affect the others.
#[derive(Debug, Default)]
pub struct LogCleanUp {
    /// Number of removed directories or links.
    pub removed: usize,
    /// Errors; retried the next time.
    pub failed: Vec<LogError>,
}

impl LogCleanUp {
    fn count(&mut self, outcome: Result<(), LogError>) {
        match outcome {
            Ok(()) => self.removed += 1,
            Err(e) => self.failed.push(e),
        }
    }
}

impl LogLayout {
    /// The pods that have a log directory, with its path. Skips names that do not have the kubelet's format.
    pub fn pods(&self) -> Result<Vec<(PodUid, PathBuf)>, LogError> {
        let failed = |source| LogError::ReadDir { path: self.pod_logs_dir.clone(), source };
        let entries = match fs::read_dir(&self.pod_logs_dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(e)),
        };
        let mut pods = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_dir = entry.file_type().map_err(failed)?.is_dir();
            if let Some(pod) = entry.file_name().to_str().and_then(parse_pod_dir_name).filter(|_| is_dir) {
                pods.push((pod.uid, entry.path()));
            }
        }
        Ok(pods)
    }

    /// The pod whose log this is; `None` if it is elsewhere.
    fn pod_of_log(&self, log: &Path) -> Option<PodUid> {
        let Component::Normal(pod) = log.strip_prefix(&self.pod_logs_dir).ok()?.components().next()? else {
            return None;
        };
        Some(parse_pod_dir_name(pod.to_str()?)?.uid)
    }

    /// Removes the log directories of the pods in `removed`. Call it only once all sources of pods are ready.
    pub fn remove_pods(&self, removed: &HashSet<PodUid>) -> LogCleanUp {
        let mut done = LogCleanUp::default();
        match self.pods() {
            Ok(pods) => {
                for (_, path) in pods.into_iter().filter(|(uid, _)| removed.contains(uid)) {
                    done.count(remove_tree(&path));
                }
            }
            Err(e) => done.failed.push(e),
        }
        done
    }

    /// Removes dangling links to logs of own pods. Links of `running` containers stay, because during a rotation the log is
    /// missing for a moment (kubernetes/kubernetes#52172).
    pub fn remove_dangling_links(
        &self,
        running: &HashSet<ContainerId>,
        is_own: impl Fn(&PodUid) -> bool,
    ) -> LogCleanUp {
        let mut done = LogCleanUp::default();
        let names = match file_names(&self.containers_dir) {
            Ok(names) => names,
            Err(e) => {
                done.failed.push(e);
                return done;
            }
        };
        for name in names {
            let Some(id) = container_id_of_link(&name) else { continue };
            let link = self.containers_dir.join(&name);
            // A link with a target elsewhere is not ours, nor is one to a log of another kubelet's pod.
            let ours = fs::read_link(&link)
                .is_ok_and(|target| self.pod_of_log(&target).is_some_and(|uid| is_own(&uid)));
            let dangles = fs::metadata(&link).is_err_and(|e| e.kind() == ErrorKind::NotFound);
            // The ID in a name may be truncated.
            if ours && dangles && !running.iter().any(|running| running.as_str().starts_with(id)) {
                done.count(remove_file(&link));
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;
    use hostlet_base::PodRef;

    fn layout(root: &TempDir) -> LogLayout {
        let layout = LogLayout {
            pod_logs_dir: root.path().join("pods"),
            containers_dir: root.path().join("containers"),
        };
        layout.create_roots().unwrap();
        layout
    }

    #[test]
    fn only_directories_of_removed_pods_are_removed() {
        let root = TempDir::new().unwrap();
        let layout = layout(&root);
        let (kept, gone) = (PodRef::new("ns", "kept", "uid-1"), PodRef::new("ns", "gone", "uid-2"));
        for pod in [&kept, &gone] {
            layout.create_pod_dir(pod).unwrap();
            layout.create_container_dir(pod, "c").unwrap();
            fs::write(layout.log_file(pod, "c", 0), "x").unwrap();
        }
        let foreign = layout.pod_logs_dir.join("lost+found");
        fs::create_dir(&foreign).unwrap();
        let file = layout.pod_logs_dir.join("ns_gone_uid-3");
        fs::write(&file, "x").unwrap();

        let mut found: Vec<_> = layout.pods().unwrap().into_iter().map(|(uid, _)| uid.to_string()).collect();
        found.sort();
        assert_eq!(found, ["uid-1", "uid-2"]);
        let removed = HashSet::from([gone.uid.clone(), "uid-3".into()]);
        let done = layout.remove_pods(&removed);
        assert_eq!((done.removed, done.failed.len()), (1, 0));
        assert!(layout.log_file(&kept, "c", 0).exists());
        assert!(!layout.pod_dir(&gone).exists());
        assert!(foreign.exists() && file.exists());
        assert_eq!(layout.remove_pods(&removed).removed, 0);
    }

    #[test]
    fn only_dangling_links_of_own_stopped_containers_are_removed() {
        let root = TempDir::new().unwrap();
        let layout = layout(&root);
        let pod = PodRef::new("ns", "web", "uid-1");
        layout.create_container_dir(&pod, "c").unwrap();
        let whole: ContainerId = "aaaaaaaaaaaa".into();
        let rotating: ContainerId = "bbbbbbbbbbbb".into();
        let dead: ContainerId = "cccccccccccc".into();
        for (attempt, id) in [(0, &whole), (1, &rotating), (2, &dead)] {
            fs::write(layout.log_file(&pod, "c", attempt), "x").unwrap();
            layout.link_log(&pod, "c", attempt, id).unwrap();
        }
        fs::remove_file(layout.log_file(&pod, "c", 1)).unwrap();
        fs::remove_file(layout.log_file(&pod, "c", 2)).unwrap();
        symlink("/nowhere/0.log", layout.containers_dir.join("x_y_z-dddddddddddd.log")).unwrap();
        let theirs = layout.pod_logs_dir.join("ns_web_uid-2/c/0.log");
        symlink(theirs, layout.containers_dir.join("web_ns_c-eeeeeeeeeeee.log")).unwrap();
        symlink(layout.pod_logs_dir.join("gone"), layout.containers_dir.join("notes")).unwrap();

        let done = layout.remove_dangling_links(&HashSet::from([whole, rotating]), |uid| *uid == pod.uid);
        assert_eq!((done.removed, done.failed.len()), (1, 0));
        let mut left = file_names(&layout.containers_dir).unwrap();
        left.sort();
        assert_eq!(
            left,
            [
                "notes",
                "web_ns_c-aaaaaaaaaaaa.log",
                "web_ns_c-bbbbbbbbbbbb.log",
                "web_ns_c-eeeeeeeeeeee.log",
                "x_y_z-dddddddddddd.log"
            ]
        );
    }

    #[test]
    fn missing_directories_are_clean() {
        let root = TempDir::new().unwrap();
        let nowhere =
            LogLayout { pod_logs_dir: root.path().join("a"), containers_dir: root.path().join("b") };
        assert!(nowhere.remove_pods(&HashSet::new()).failed.is_empty());
        assert!(nowhere.remove_dangling_links(&HashSet::new(), |_| true).failed.is_empty());
    }
}
