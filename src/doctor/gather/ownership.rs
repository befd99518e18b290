//! Facts of other kubelets and their pods.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::super::facts::{OwnershipFacts, Unseen};
use crate::config::Config;
use crate::ownership::{History, KnownClaim, history, kubelet_listener, other_kubelets};
use crate::store::{Store, Table};
use crate::sys::HostDirs;
use crate::types::PodRef;

/// What a stock kubelet and kubeadm leave in the root directory.
const LEFT: [&str; 6] = [
    "config.yaml",
    "kubeadm-flags.env",
    "pki",
    "cpu_manager_state",
    "memory_manager_state",
    "instance-config.yaml",
];

/// The link of an enabled service.
const ENABLED: &str = "etc/systemd/system/multi-user.target.wants/kubelet.service";

pub(super) fn ownership(
    root: &Path,
    config: &Config,
    pods: Option<BTreeSet<PodRef>>,
    is_root: bool,
) -> OwnershipFacts {
    let dirs = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: std::path::PathBuf::new(),
    };
    let store = Store::read(&dirs.store()).unwrap_or_default();
    let recorded = store.keys(Table::AdmittedPods).into_iter().map(Into::into).collect();
    let socket = &config.runtime.runtime_socket;
    let history = history(&KnownClaim::read(&dirs.claim()), socket, &recorded);
    let kubelets = if is_root {
        other_kubelets(&root.join("proc"), socket).map_err(|error| Unseen(error.to_string())).map(
            |mut found| {
                // Afterwards these sockets are hostlet's own.
                if history == History::FirstStart {
                    found.extend(kubelet_listener(&config.root_dir));
                }
                found
            },
        )
    } else {
        Err(Unseen("only root can see other kubelets".to_owned()))
    };
    let left = LEFT.iter().map(|name| config.root_dir.join(name)).filter(|path| path.exists());
    OwnershipFacts {
        leftovers: if history == History::FirstStart { left.collect() } else { Vec::new() },
        history,
        recorded,
        kubelets,
        pods,
        daemon_runs: UnixStream::connect(&config.socket).is_ok(),
        is_kubelet_enabled: root.join(ENABLED).symlink_metadata().is_ok(),
    }
}
