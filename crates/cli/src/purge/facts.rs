//! Facts for a purge. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hostlet_base::{PodRef, PodUid, error_chain};
use hostlet_config::Config;
use hostlet_dra::{CLAIMS_FILE, RecordedClaim, recorded_claims};
use hostlet_engine::housekeeping::{Family, IPTABLES, has_iptables_chains};
use hostlet_engine::ownership::{
    KnownClaim, OtherKubelet, RemainsError, kubelet_listener, other_kubelets, recorded_pods,
    remains_of_others, runtime_pods,
};
use hostlet_engine::shutdown::shutdown_files;
use hostlet_host::{DaemonUnit, HostDirs, checkpoints_dir, common_dirs, pods_dir};
use hostlet_observe::log::LogLayout;
use hostlet_runtime::cri::RuntimeService;
use hostlet_store::Store;

/// Where other kubelets are looked for.
const PROC: &str = "/proc";
/// Where the units are.
const ROOT: &str = "/";
/// The host's configuration.
const ETC: &str = "/etc";

/// What a purge depends on.
#[derive(Clone, Debug)]
pub(crate) struct PurgeFacts {
    /// Whether a daemon answers on the control socket.
    pub daemon_runs: bool,
    /// The unit of the packages that runs it.
    pub unit: DaemonUnit,
    /// The pods that hostlet recorded; or why they are unknown.
    pub recorded: Result<BTreeMap<PodUid, PodRef>, Unknown>,
    /// The runtime that the configuration names.
    pub socket: PathBuf,
    /// The runtimes on which hostlet ran pods, if that is recorded and this one is not among them.
    pub elsewhere: Vec<PathBuf>,
    /// Other kubelets that run on the runtime, or from the root directory; or why they are unknown.
    pub other_kubelets: Result<Vec<OtherKubelet>, Unknown>,
    /// The pods of the runtime; or why they are unknown.
    pub in_runtime: Result<BTreeSet<PodRef>, Unknown>,
    /// The pods with a directory or logs on this host; or why they are unknown.
    pub with_files: Result<BTreeSet<PodUid>, Unknown>,
    /// The claims that are recorded as prepared; or why they are unknown.
    pub claims: Result<Vec<RecordedClaim>, Unknown>,
    /// hostlet's own files that exist.
    pub own_files: Vec<PathBuf>,
    /// What every kubelet makes by these names (checkpoints of containers, records of shutdowns), if nothing in the root directory
    /// shows another kubelet that may have made them.
    pub common_files: Vec<PathBuf>,
    /// Whether the host has the iptables chains that hostlet makes.
    pub has_chains: bool,
}

/// What a kubelet records of devices, claims, CPUs and memory of containers, and the sockets at which it is told and asked about them: the
/// same names for every kubelet.
const GRANTED: [&str; 8] = [
    "cpu_manager_state",
    "memory_manager_state",
    CLAIMS_FILE,
    "dra_health_state",
    "device-plugins/kubelet_internal_checkpoint",
    "device-plugins/kubelet.sock",
    "pod-resources/kubelet.sock",
    "pods-api",
];

/// Why something is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unknown(pub String);

/// Gathers the facts.
pub(crate) async fn purge_facts(
    config: &Config,
    dirs: &HostDirs,
    runtime: &dyn RuntimeService,
) -> PurgeFacts {
    let unknown = |error: &dyn std::error::Error| Unknown(error_chain(error));
    let store = dirs.store();
    let recorded = match Store::read(&store) {
        Ok(store) => recorded_pods(&dirs.own_pods(), &store).map_err(|error| unknown(&error)),
        Err(error) => Err(unknown(&error)),
    };
    let socket = config.runtime.runtime_socket.clone();
    let claim = KnownClaim::read(&dirs.claim());
    let elsewhere = if claim.names(&socket) { Vec::new() } else { claim.sockets() };
    let others = other_kubelets(PROC.as_ref(), &socket).map_err(|error| unknown(&error));
    let in_runtime = runtime_pods(runtime).await.map_err(|error| unknown(&error));
    let own = [store.parent().map(Into::into), Some(dirs.claim()), Some(config.socket.clone())];
    let mut has_chains = false;
    for (program, _) in iptables(config) {
        has_chains |= has_iptables_chains(&program).await;
    }
    let own_files: Vec<PathBuf> =
        own.into_iter().flatten().filter(|path| path.symlink_metadata().is_ok()).collect();
    PurgeFacts {
        common_files: common_files(&dirs.root, ETC.as_ref(), &own_files),
        has_chains,
        daemon_runs: UnixStream::connect(&config.socket).is_ok(),
        unit: DaemonUnit::of(ROOT.as_ref()),
        recorded,
        elsewhere: elsewhere.into_iter().map(Path::to_owned).collect(),
        socket,
        other_kubelets: others.map(|found| found.into_iter().chain(kubelet_listener(&dirs.root)).collect()),
        in_runtime,
        claims: recorded_claims(&dirs.root).map_err(|error| unknown(&error)),
        with_files: pods_with_files(dirs).map_err(|error| unknown(&error)),
        own_files,
    }
}

fn pods_with_files(dirs: &HostDirs) -> Result<BTreeSet<PodUid>, RemainsError> {
    let logs = LogLayout { pod_logs_dir: dirs.pod_logs.clone(), containers_dir: dirs.container_logs.clone() };
    Ok(remains_of_others(&dirs.root, &logs, None, |_| false)?.into_keys().collect())
}

/// Checkpoints, the records of shutdowns and of what containers have, and sockets, if the root directory has only these and the given
/// files, beside what every kubelet creates.
fn common_files(root: &Path, etc: &Path, own_files: &[PathBuf]) -> Vec<PathBuf> {
    let all = remains(root);
    let checkpoints = Some(checkpoints_dir(root)).filter(|path| all.contains(path));
    let granted = GRANTED.into_iter().flat_map(|name| with_set_aside(&root.join(name)));
    let common: Vec<PathBuf> =
        checkpoints.into_iter().chain(shutdown_files(root, etc)).chain(granted).collect();
    let is_ours = |path: &PathBuf| {
        common.contains(path)
            || *path == pods_dir(root)
            || own_files.contains(path)
            || has_only(root, path, &common)
    };
    if all.iter().all(is_ours) { common } else { Vec::new() }
}

/// The file if there is one, and damaged ones that hostlet set aside beside it.
fn with_set_aside(file: &Path) -> Vec<PathBuf> {
    let beside = file.parent().map(remains).unwrap_or_default();
    let is_one = |path: &PathBuf| path == file || path.file_stem() == file.file_name();
    beside.into_iter().filter(is_one).collect()
}

/// Whether a path is an empty directory that every kubelet creates in its root directory.
pub(super) fn is_unused(root: &Path, path: &Path) -> bool {
    has_only(root, path, &[])
}

/// Whether a path is a directory that every kubelet creates in its root directory, with nothing else in it.
fn has_only(root: &Path, path: &Path, files: &[PathBuf]) -> bool {
    common_dirs(root).any(|dir| dir == path) && remains(path).iter().all(|path| files.contains(path))
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
pub(crate) fn iptables(config: &Config) -> Vec<(PathBuf, Family)> {
    let programs = IPTABLES.into_iter().filter(|_| config.host.iptables_chains);
    programs.map(|(program, family)| (program.into(), family)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_files_beside_files_of_another_kubelet_may_be_its_own() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let found = || common_files(root.path(), &at("plugins/none"), &[at("hostlet")]);
        for path in ["hostlet", "plugins", "device-plugins", "pods/uid"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        assert!(found().is_empty());
        fs::create_dir(at("checkpoints")).unwrap();
        fs::write(at("graceful_node_shutdown_state"), "{}").unwrap();
        assert_eq!(found(), [at("checkpoints"), at("graceful_node_shutdown_state")]);
        fs::create_dir_all(at("pods-api")).unwrap();
        let granted =
            ["cpu_manager_state", "dra_manager_state.damaged", "device-plugins/kubelet_internal_checkpoint"];
        let granted = granted.map(at);
        for path in &granted {
            fs::write(path, "{}").unwrap();
        }
        assert!(granted.iter().chain([&at("pods-api")]).all(|path| found().contains(path)), "{:?}", found());
        for path in ["plugins/driver", "device-plugins/other", "pki", "config.yaml"] {
            fs::create_dir(at(path)).unwrap();
            assert!(found().is_empty(), "{path}");
            fs::remove_dir(at(path)).unwrap();
        }
    }

    #[test]
    fn the_raised_delay_of_logind_is_a_common_file() {
        let dir = tempfile::tempdir().unwrap();
        let (root, etc) = (dir.path().join("kubelet"), dir.path().join("etc"));
        let file = etc.join("systemd/logind.conf.d/99-kubelet.conf");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(&file, "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=30\n").unwrap();
        assert_eq!(common_files(&root, &etc, &[]), std::slice::from_ref(&file));
        fs::write(root.join("config.yaml"), "").unwrap();
        assert!(common_files(&root, &etc, &[]).is_empty(), "a stock kubelet may have raised it");
    }
}
