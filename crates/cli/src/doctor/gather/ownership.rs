//! Facts of other kubelets and their pods.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use hostlet_base::{PodRef, PodUid, error_chain};
use hostlet_config::Config;
use hostlet_engine::ownership::{
    History, KnownClaim, OtherKubelet, Remains, history, kubelet_listener, other_kubelets, recorded_pods,
    remains_of_others,
};
use hostlet_host::cgroup::{CgroupSettings, Cgroups};
use hostlet_host::{DaemonUnit, HostDirs};
use hostlet_observe::log::LogLayout;
use hostlet_store::Store;

use super::super::facts::{OwnershipFacts, RuntimeFacts, Seen, Unseen};
use super::runtime::driver;

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
    daemon: Option<i32>,
    runtime: &RuntimeFacts,
    pods: Option<BTreeSet<PodRef>>,
    is_root: bool,
) -> OwnershipFacts {
    let dirs = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: PathBuf::new(),
    };
    // Before the store: a running daemon records a pod before it makes anything of it.
    let remains =
        if is_root { remains(root, config, runtime) } else { Err(only_root("what pods have here")) };
    let read = Store::read(&dirs.store())
        .map_err(|error| error_chain(&error))
        .and_then(|store| recorded_pods(&dirs.own_pods(), &store).map_err(|error| error_chain(&error)));
    let (recorded, remains) = match read {
        Ok(recorded) => (recorded.into_keys().collect(), remains),
        // What hostlet's own pods have must not be taken for that of others.
        Err(error) => (HashSet::new(), remains.and(Err(Unseen(error)))),
    };
    let socket = &config.runtime.runtime_socket;
    let history = history(&KnownClaim::read(&dirs.claim()), socket, &recorded);
    let kubelets = if is_root {
        other_kubelets(&root.join("proc"), socket).map_err(|error| Unseen(error.to_string())).map(
            |mut found| {
                found.retain(|other| daemon.is_none_or(|daemon| *other != OtherKubelet::Process(daemon)));
                // Afterwards these sockets are hostlet's own.
                if history == History::FirstStart {
                    found.extend(kubelet_listener(&config.root_dir));
                }
                found
            },
        )
    } else {
        Err(only_root("other kubelets"))
    };
    // What kubeadm configures is for hostlet then, and the service is hostlet's.
    let is_kubelet = DaemonUnit::of(root) == DaemonUnit::Kubelet;
    let left = LEFT.iter().map(|name| config.root_dir.join(name)).filter(|path| path.exists());
    OwnershipFacts {
        leftovers: if history == History::FirstStart && !is_kubelet { left.collect() } else { Vec::new() },
        history,
        recorded,
        kubelets,
        remains,
        unrunnable: Ok(Vec::new()),
        pods,
        is_kubelet_enabled: !is_kubelet && root.join(ENABLED).symlink_metadata().is_ok(),
    }
}

fn only_root(what: &str) -> Unseen {
    Unseen(format!("only root can see {what}"))
}

/// What pods, whosever they are, have on this host.
fn remains(root: &Path, config: &Config, runtime: &RuntimeFacts) -> Seen<BTreeMap<PodUid, Remains>> {
    let settings = CgroupSettings::of_existing(driver(runtime, config), &config.cgroups.root, root);
    // Where cgroups cannot be used, which other checks report, no pod has one.
    let cgroups = Cgroups::open(settings).ok().filter(|_| config.cgroups.per_qos);
    let logs = LogLayout { pod_logs_dir: config.pods.logs_dir.clone(), containers_dir: PathBuf::new() };
    remains_of_others(&config.root_dir, &logs, cgroups.as_ref(), |_| false)
        .map_err(|error| Unseen(error_chain(&error)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::doctor::facts::RuntimeAnswer;
    use hostlet_config::{KubeletFlags, load};

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
        let runtime =
            RuntimeFacts { answer: RuntimeAnswer::NoSocket, containerd_file: None, has_containerd: false };
        let seen = || {
            let found = ownership(root.path(), &config, None, &runtime, None, false);
            (found.is_kubelet_enabled, found.leftovers)
        };
        assert_eq!(seen(), (true, vec![at("kubelet/pki")]));
        symlink("hostlet", at("usr/bin/kubelet")).unwrap();
        assert_eq!(seen(), (false, Vec::new()));
    }

    #[test]
    fn whose_files_these_are_is_unknown_without_the_record() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("kubelet/pods/u/volumes")).unwrap();
        fs::create_dir_all(at("kubelet/hostlet")).unwrap();
        let logs = format!("podLogsDir: {}\n", at("logs").display());
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        fs::write(at("config.yaml"), format!("{head}{logs}")).unwrap();
        let mut flags = KubeletFlags::default();
        flags.process.root_dir = at("kubelet");
        flags.process.config = Some(at("config.yaml"));
        let config = load(&flags, "node1").unwrap().config;
        let runtime =
            RuntimeFacts { answer: RuntimeAnswer::NoSocket, containerd_file: None, has_containerd: false };
        let remains = || ownership(root.path(), &config, None, &runtime, None, true).remains;
        assert_eq!(remains().unwrap().len(), 1);
        fs::write(at("kubelet/hostlet/store.redb"), "damaged").unwrap();
        assert!(remains().unwrap_err().to_string().contains("cannot be read"));
    }
}
