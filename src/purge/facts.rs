//! Facts for a purge. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::cri::RuntimeService;
use crate::cri_config::pod_dirs;
use crate::housekeeping::{Family, IPTABLES, has_iptables_chains};
use crate::log::LogLayout;
use crate::ownership::{recorded_pods, runtime_pods};
use crate::store::Store;
use crate::sys::{HostDirs, checkpoints_dir, common_dirs};
use crate::types::{PodRef, PodUid, error_chain};

/// What a purge depends on.
#[derive(Clone, Debug)]
pub struct PurgeFacts {
    /// Whether a daemon answers on the control socket.
    pub daemon_runs: bool,
    /// The pods that hostlet recorded; or why they are unknown.
    pub recorded: Result<BTreeMap<PodUid, PodRef>, Unknown>,
    /// The pods of the runtime; or why they are unknown.
    pub in_runtime: Result<BTreeSet<PodRef>, Unknown>,
    /// The pods with a directory or logs on this host.
    pub with_files: BTreeSet<PodUid>,
    /// hostlet's own files that exist.
    pub own_files: Vec<PathBuf>,
    /// The checkpoints of containers, if nothing in the root directory shows another kubelet that may have made them.
    pub checkpoints: Option<PathBuf>,
    /// Whether the host has the iptables chains that hostlet makes.
    pub has_chains: bool,
}

/// Why something is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub String);

/// Gathers the facts.
pub async fn purge_facts(config: &Config, dirs: &HostDirs, runtime: &dyn RuntimeService) -> PurgeFacts {
    let unknown = |error: &dyn std::error::Error| Unknown(error_chain(error));
    let store = dirs.store();
    let recorded = Store::read(&store).map(|store| recorded_pods(&store)).map_err(|error| unknown(&error));
    let in_runtime = runtime_pods(runtime).await.map_err(|error| unknown(&error));
    let own = [store.parent().map(Into::into), Some(dirs.claim()), Some(config.socket.clone())];
    let mut has_chains = false;
    for (program, _) in iptables(config) {
        has_chains |= has_iptables_chains(&program).await;
    }
    let own_files: Vec<PathBuf> =
        own.into_iter().flatten().filter(|path| path.symlink_metadata().is_ok()).collect();
    PurgeFacts {
        checkpoints: own_checkpoints(&dirs.root, &own_files),
        has_chains,
        daemon_runs: UnixStream::connect(&config.socket).is_ok(),
        recorded,
        in_runtime,
        with_files: pods_with_files(dirs),
        own_files,
    }
}

fn pods_with_files(dirs: &HostDirs) -> BTreeSet<PodUid> {
    let logs = LogLayout { pod_logs_dir: dirs.pod_logs.clone(), containers_dir: dirs.container_logs.clone() };
    let logs = logs.pods().unwrap_or_default().into_iter().map(|(uid, _)| uid);
    pod_dirs(&dirs.root).unwrap_or_default().into_iter().chain(logs).collect()
}

/// The checkpoints in a root directory that has only these files beside them and what every kubelet creates.
fn own_checkpoints(root: &Path, own_files: &[PathBuf]) -> Option<PathBuf> {
    let (all, checkpoints) = (remains(root), checkpoints_dir(root));
    let is_ours = |path: &PathBuf| {
        *path == checkpoints
            || *path == root.join("pods")
            || own_files.contains(path)
            || is_unused(root, path)
    };
    (all.contains(&checkpoints) && all.iter().all(is_ours)).then_some(checkpoints)
}

/// Whether a path is an empty directory that every kubelet creates in its root directory.
pub(super) fn is_unused(root: &Path, path: &Path) -> bool {
    common_dirs(root).any(|dir| dir == path) && remains(path).is_empty()
}

/// What remains in a directory. In the root directory it is a stock kubelet's, or what could not be removed.
pub(super) fn remains(dir: &Path) -> Vec<PathBuf> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(_) => return vec![dir.to_owned()],
    };
    let mut left: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    left.sort();
    left
}

/// The iptables programs with which the daemon made chains; none if it made none.
pub fn iptables(config: &Config) -> Vec<(PathBuf, Family)> {
    let programs = IPTABLES.into_iter().filter(|_| config.host.iptables_chains);
    programs.map(|(program, family)| (program.into(), family)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_beside_files_of_another_kubelet_may_be_its_own() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let found = || own_checkpoints(root.path(), &[at("hostlet")]);
        for path in ["hostlet", "plugins", "device-plugins", "pods/uid"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        assert_eq!(found(), None);
        fs::create_dir(at("checkpoints")).unwrap();
        assert_eq!(found(), Some(at("checkpoints")));
        for path in ["plugins/driver", "pki", "config.yaml"] {
            fs::create_dir(at(path)).unwrap();
            assert_eq!(found(), None, "{path}");
            fs::remove_dir(at(path)).unwrap();
        }
    }
}
