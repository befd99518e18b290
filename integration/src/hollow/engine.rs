//! The engine of a hollow node: what it is built of. Nothing on the host is measured or changed but the directory of the node.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::node::OwnNode;
use hostlet_base::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use hostlet_base::settings::{EvictionSettings, ImageGcPolicy, ImageVerification};
use hostlet_devices::{Devices, DevicesSettings};
use hostlet_engine::admission::NodeView;
use hostlet_engine::cri_config::{HostSettings, KernelFacts, SubordinateIds};
use hostlet_engine::engine::{EngineSettings, HostDeps, RunningHost, UserIds};
use hostlet_engine::eviction::Unobserved;
use hostlet_engine::shutdown::{Logind, LogindError, LogindSession, ShutdownSettings};
use hostlet_host::{FilesystemUsage, KernelMounts};
use hostlet_image::credentials::RegistryCredentials;
use hostlet_image::{Images, PullLimits};
use hostlet_observe::log::LogLayout;
use hostlet_observe::status::StatusGates;
use hostlet_store::Store;
use hostlet_volume::NodeAmounts;

use super::node::HollowNode;

/// The mount table that a node sees: an empty file.
const MOUNTS: &str = "mountinfo";

/// Where container logs would be.
pub(super) fn logs(root: &Path) -> LogLayout {
    LogLayout { pod_logs_dir: root.join("pod-logs"), containers_dir: root.join("container-logs") }
}

/// Makes the directory of a node.
pub(super) fn make_root(root: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(root)?;
    std::fs::write(root.join(MOUNTS), "")?;
    Ok(logs(root).create_roots()?)
}

fn amounts(own: &OwnNode) -> NodeAmounts {
    NodeAmounts {
        milli_cpu: own.allocatable.units(CPU),
        memory: own.allocatable.units(MEMORY),
        ephemeral_storage: own.allocatable.units(EPHEMERAL_STORAGE),
    }
}

/// The defaults of a KubeletConfiguration, except that images stay and nothing is evicted.
pub(super) fn settings(node: &HollowNode, own: &OwnNode) -> EngineSettings {
    let root = node.root.clone();
    EngineSettings {
        root_dir: root.clone(),
        logs: logs(&root),
        log_limits: None,
        image_gc: ImageGcPolicy {
            high_percent: 100,
            low_percent: 80,
            minimum_age: Duration::from_secs(120),
            maximum_age: None,
        },
        node: NodeView {
            name: node.settings.name.clone(),
            labels: own.labels.clone(),
            ..NodeView::default()
        },
        amounts: amounts(own),
        allowed_unsafe_sysctls: Vec::new(),
        has_swap: false,
        sync_frequency: Duration::from_secs(60),
        max_concurrent_starts: std::num::NonZeroUsize::MIN.saturating_add(2),
        crash_loop_cap: Duration::from_secs(300),
        status_gates: StatusGates { stop_signals: true, image_volumes: true },
        isolates_storage: false,
        eviction: EvictionSettings::default(),
        volume_stats_period: None,
        user_ids: UserIds {
            per_pod: 65_536,
            max_pods: node.settings.max_pods,
            subordinate: SubordinateIds { user: "no-such-user".to_owned(), program: PathBuf::from("/none") },
        },
        shutdown: ShutdownSettings {
            periods: None,
            is_recorded: false,
            etc: root.join("etc"),
            root_dir: root,
        },
    }
}

pub(super) fn images(node: &HollowNode, store: &Store) -> Images {
    Images::new(
        Arc::new(node.runtime.clone()),
        PullLimits { serialize: true, max_parallel: None, qps: 5, burst: 10 },
        ImageVerification::ExceptPreloaded,
        RegistryCredentials::default(),
        store.clone(),
        node.clock.clone(),
    )
}

pub(super) fn host(node: &HollowNode) -> HostDeps {
    HostDeps {
        boot_id: node.facts.host.machine.boot_id.as_str().into(),
        mounts: Arc::new(KernelMounts { mountinfo: node.root.join(MOUNTS) }),
        file_label: None,
        logind: Arc::new(NoLogind),
        // Never short of space.
        measure: Arc::new(|_| {
            Ok(FilesystemUsage { capacity: 100 << 30, available: 50 << 30, ..FilesystemUsage::default() })
        }),
    }
}

pub(super) fn running_host(node: &HollowNode, own: &OwnNode) -> RunningHost {
    RunningHost {
        settings: HostSettings {
            root_dir: node.root.clone(),
            pod_logs_dir: logs(&node.root).pod_logs_dir,
            node_name: node.settings.name.clone(),
            node_ips: node.addresses.clone(),
            cluster_domain: "cluster.local".into(),
            cluster_dns: Vec::new(),
            resolv_conf: None,
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: Duration::from_millis(100),
            seccomp_default: false,
            allocatable: amounts(own),
            memory_capacity: node.facts.host.machine.memory,
            cgroup_v2: true,
            memory_qos: None,
            limited_swap: false,
            swap_capacity: 0,
            single_process_oom_kill: false,
            stop_signals: true,
            runtime_name: "containerd".into(),
            kernel: KernelFacts {
                hugepage_sizes: Vec::new(),
                throttle_paths: Vec::new(),
                swap_controller: false,
                selinux: false,
            },
        },
        cgroups: None,
        enforces_reservations: false,
        reserved_memory_percent: None,
        containerd: None,
        observer: Arc::new(Unobserved),
        reports: None,
    }
}

/// A host without logind; nothing asks it without periods of a shutdown.
struct NoLogind;

#[async_trait]
impl Logind for NoLogind {
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError> {
        Err(LogindError::Closed)
    }
}

/// The devices of a node that has none.
pub(super) fn devices(node: &HollowNode) -> Devices {
    let settings = DevicesSettings {
        dir: node.root.join("device-plugins"),
        copy: node.root.join("devices"),
        numa_nodes: [0].into(),
        uptime: Duration::MAX,
    };
    Devices::new(settings, node.clock.clone()).0
}
