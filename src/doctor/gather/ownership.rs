//! Facts of other kubelets and their pods.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::super::facts::{OwnershipFacts, Unseen};
use crate::config::Config;
use crate::ownership::{History, KnownClaim, history, kubelet_listener, other_kubelets};
use crate::store::{Store, Table};
use crate::sys::{DaemonUnit, HostDirs};
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
    // What kubeadm configures is for hostlet then, and the service is hostlet's.
    let is_kubelet = DaemonUnit::of(root) == DaemonUnit::Kubelet;
    let left = LEFT.iter().map(|name| config.root_dir.join(name)).filter(|path| path.exists());
    OwnershipFacts {
        leftovers: if history == History::FirstStart && !is_kubelet { left.collect() } else { Vec::new() },
        history,
        recorded,
        kubelets,
        pods,
        daemon_runs: UnixStream::connect(&config.socket).is_ok(),
        is_kubelet_enabled: !is_kubelet && root.join(ENABLED).symlink_metadata().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::{KubeletFlags, load};

    #[test]
    fn hostlet_as_the_kubelet_is_no_other_one() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for dir in ["usr/bin", "etc/systemd/system/multi-user.target.wants", "kubelet/pki"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        symlink("/usr/lib/systemd/system/kubelet.service", at(ENABLED)).unwrap();
        let mut flags = KubeletFlags::default();
        flags.process.root_dir = at("kubelet");
        let config = load(&flags, "node1").unwrap().config;
        let seen = || {
            let found = ownership(root.path(), &config, None, false);
            (found.is_kubelet_enabled, found.leftovers)
        };
        assert_eq!(seen(), (true, vec![at("kubelet/pki")]));
        symlink("hostlet", at("usr/bin/kubelet")).unwrap();
        assert_eq!(seen(), (false, Vec::new()));
    }
}
