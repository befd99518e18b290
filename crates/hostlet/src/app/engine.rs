//! Translates the configuration and the host into settings of the engine.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::architecture;
use hostlet_base::node::NodeAddresses;
use hostlet_config::Config;
use hostlet_engine::cri_config::{HostSettings, KernelFacts, SubordinateIds};
use hostlet_engine::engine::{ContainerdAccess, EngineSettings, ImagePreload, RunningHost, UserIds};
use hostlet_engine::eviction::NodeObserver;
use hostlet_engine::shutdown::{Reports, ShutdownPeriods, ShutdownSettings};
use hostlet_host::cgroup::{CgroupVersion, Cgroups};
use hostlet_image::preload::{Containerd, PreloadConfig};
use hostlet_observe::log::LogLayout;
use hostlet_observe::status::StatusGates;

use super::node_side::NodeSide;
use super::paths::{CONTAINER_LOGS, ETC, PROC, SYS};
use super::runtime::{RuntimeInfo, RuntimeSide};

/// Where the logs of containers are.
pub(super) fn log_layout(config: &Config) -> LogLayout {
    LogLayout { pod_logs_dir: config.pods.logs_dir.clone(), containers_dir: CONTAINER_LOGS.into() }
}

/// The engine's settings.
pub(super) fn engine_settings(config: &Config, node: &NodeSide) -> EngineSettings {
    EngineSettings {
        root_dir: config.root_dir.clone(),
        logs: log_layout(config),
        log_limits: config.pods.log_limits,
        image_gc: config.image_gc,
        node: node.view.clone(),
        amounts: node.amounts,
        allowed_unsafe_sysctls: config.pods.allowed_unsafe_sysctls.clone(),
        has_swap: has_swap(config),
        sync_frequency: config.sources.sync_frequency,
        max_concurrent_starts: config.max_concurrent_starts,
        crash_loop_cap: config.pods.max_restart_wait,
        status_gates: StatusGates {
            stop_signals: config.pods.stop_signals,
            image_volumes: config.pods.report_image_volumes,
        },
        eviction: config.eviction.clone(),
        isolates_storage: node.settings.node.local_storage_isolation,
        volume_stats_period: config.pods.volume_stats_period,
        user_ids: UserIds {
            per_pod: config.pods.ids_per_pod,
            max_pods: node.settings.max_pods,
            subordinate: SubordinateIds::default(),
        },
        shutdown: ShutdownSettings {
            periods: ShutdownPeriods::new(&config.shutdown),
            is_recorded: config.shutdown.is_recorded,
            root_dir: config.root_dir.clone(),
            etc: ETC.into(),
        },
    }
}

/// What imports images of archives.
pub(super) fn image_preload(config: &Config, runtime: &RuntimeSide) -> Option<ImagePreload> {
    config.image_preload_dir.clone().map(|directory| ImagePreload {
        config: PreloadConfig { directory, architecture: architecture() },
        store: Arc::new(Containerd::new(runtime.content.clone())),
    })
}

/// The host, once the runtime has answered.
pub(super) fn running_host(
    config: &Config,
    settings: HostSettings,
    cgroups: Arc<Cgroups>,
    runtime: &RuntimeSide,
    observer: Arc<dyn NodeObserver>,
    reports: Option<Reports>,
) -> RunningHost {
    let is_containerd = settings.runtime_name == "containerd";
    RunningHost {
        settings,
        cgroups: config.cgroups.per_qos.then_some(cgroups),
        enforces_reservations: config.cgroups.limit_all_pods,
        reserved_memory_percent: config.cgroups.reserved_memory_percent,
        containerd: is_containerd.then(|| ContainerdAccess {
            client: runtime.client.clone(),
            socket: config.runtime.runtime_socket.clone(),
            proc: PROC.into(),
        }),
        observer,
        reports,
    }
}

/// Whether containers may swap: only on cgroup v2 with the controller for it.
fn has_swap(config: &Config) -> bool {
    config.cgroups.limited_swap && KernelFacts::read(Path::new(SYS), Path::new(PROC), true).swap_controller
}

/// Facts of the host that the configurations of containers need.
pub(super) fn host_settings(
    config: &Config,
    runtime_info: &RuntimeInfo,
    cgroups: CgroupVersion,
    node: &NodeSide,
    addresses: NodeAddresses,
) -> HostSettings {
    let cgroup_v2 = match cgroups {
        CgroupVersion::V1 => false,
        CgroupVersion::V2 => true,
    };
    HostSettings {
        root_dir: config.root_dir.clone(),
        pod_logs_dir: config.pods.logs_dir.clone(),
        node_name: config.node_name.clone(),
        node_ips: addresses,
        cluster_domain: config.dns.cluster_domain.clone(),
        cluster_dns: config.dns.cluster_dns.clone(),
        resolv_conf: config.dns.resolv_conf.clone(),
        cpu_cfs_quota: config.cgroups.cfs_quota,
        cpu_cfs_quota_period: config.cgroups.cfs_period,
        seccomp_default: config.pods.seccomp_default,
        allocatable: node.amounts,
        memory_capacity: node.memory,
        cgroup_v2,
        memory_qos: config.cgroups.memory_qos,
        limited_swap: config.cgroups.limited_swap,
        swap_capacity: node.swap,
        // cgroup v1 supports only the kill of a single process.
        single_process_oom_kill: config.cgroups.single_process_oom_kill.unwrap_or(!cgroup_v2),
        stop_signals: config.pods.stop_signals,
        runtime_name: runtime_info.version.runtime_name.clone(),
        kernel: KernelFacts::read(Path::new(SYS), Path::new(PROC), cgroup_v2),
    }
}
