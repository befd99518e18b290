//! The facts of a host on which all is well.

use std::collections::{BTreeMap, HashSet};

use hostlet_base::CgroupDriver;
use hostlet_config::{KubeletFlags, load};
use hostlet_engine::ownership::History;
use hostlet_runtime::cri::{RuntimeCondition, RuntimeStatus, Version};

use crate::doctor::facts::{
    CgroupFacts, CgroupHierarchy, Configuration, DiskFacts, Facts, MachineFacts, NetworkFacts,
    OwnershipFacts, RuntimeAnswer, RuntimeFacts, RuntimeSettings,
};

fn words<T: FromIterator<String>>(words: &[&str]) -> T {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A runtime that answers.
pub(in crate::doctor) fn settings(edit: impl FnOnce(&mut RuntimeSettings)) -> RuntimeAnswer {
    let ready = RuntimeCondition { status: true, ..RuntimeCondition::default() };
    let mut settings = RuntimeSettings {
        version: Version {
            runtime_name: "containerd".to_owned(),
            runtime_version: "1.7.1".to_owned(),
            api_version: "v1".to_owned(),
        },
        status: RuntimeStatus { runtime: ready.clone(), network: ready, ..RuntimeStatus::default() },
        driver: Some(CgroupDriver::Cgroupfs),
        snapshotter: Some("overlayfs".to_owned()),
        pause_image: Some(("registry.k8s.io/pause:3.8".to_owned(), true)),
    };
    edit(&mut settings);
    RuntimeAnswer::Cri(Box::new(settings))
}

pub(in crate::doctor) fn facts() -> Facts {
    let mut config = load(&KubeletFlags::default(), "node1").unwrap().config;
    config.sources.static_pod_path = Some("/etc/hostlet/manifests".into());
    let disk = DiskFacts { size: 100, free: 50, inodes: 100, inodes_free: 50, is_read_only: false };
    Facts {
        is_root: true,
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        configuration: Configuration {
            file: Some("/etc/hostlet/config.yaml".into()),
            errors: Vec::new(),
            warnings: Vec::new(),
            missing_manifests: None,
        },
        config,
        machine: MachineFacts {
            kernel: Ok("6.1.0-18-amd64".to_owned()),
            filesystems: Ok(words(&["ext4", "overlay"])),
            swap: Ok(Vec::new()),
            not_before: Some("2025-12-01T00:00:00Z".parse().unwrap()),
            is_synchronized: Some(true),
            disks: vec![("/var/lib/kubelet".into(), Ok(disk))],
            unshared_mount: Ok(None),
            inotify_instances: Ok(128),
            inotify_watches: Ok(65_536),
        },
        cgroups: CgroupFacts {
            hierarchy: Ok((CgroupHierarchy::V2, words(&["cpu", "cpuset", "io", "memory", "pids"]))),
            has_systemd: true,
            reserved: Vec::new(),
        },
        runtime: RuntimeFacts { answer: settings(|_| {}), containerd_file: None, has_containerd: true },
        network: NetworkFacts {
            conf_dir: "/etc/cni/net.d".into(),
            bin_dirs: vec!["/opt/cni/bin".into()],
            configurations: Ok(vec![(
                "/etc/cni/net.d/10-a.conflist".into(),
                Ok(words(&["bridge", "host-local"])),
            )]),
            plugins: Ok(words(&["bridge", "host-local", "loopback"])),
            elsewhere: None,
            routes: Vec::new(),
        },
        ports: Ok(BTreeMap::new()),
        credentials: None,
        objects_key: None,
        ownership: OwnershipFacts {
            history: History::FirstStart,
            recorded: HashSet::new(),
            kubelets: Ok(Vec::new()),
            remains: Ok(BTreeMap::new()),
            unrunnable: Ok(Vec::new()),
            pods: Some(Default::default()),
            leftovers: Vec::new(),
            is_kubelet_enabled: false,
        },
    }
}
