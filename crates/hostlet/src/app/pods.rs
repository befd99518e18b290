//! The parts that work on pods, started once the runtime responds: image preloading, cgroups, volumes, workers and lifecycles.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::timeout;

use super::node_events::{cgroup_v1_event, resolv_conf_event, swap_event};
use super::node_side::NodeSide;
use super::parts::Parts;
use super::paths::{CGROUP_MOUNT, CONTAINER_LOGS, MOUNTINFO, PROC, SYS};
use super::run::AppError;
use super::runtime::RuntimeInfo;
use super::startup::{StartupError, open_cgroups};
use super::tasks::{Stage, Tasks};
use hostlet_base::node::NodeAddresses;
use hostlet_base::{WallClock, architecture};
use hostlet_config::Config;
use hostlet_engine::container_logs::{LogRotation, LogRotationDeps};
use hostlet_engine::cri_config::{
    HostSettings, KernelFacts, SubordinateIds, UserNamespaces, resolv_conf_problem,
};
use hostlet_engine::gate::{StartGate, StopGate};
use hostlet_engine::housekeeping::{
    HostJanitor, LeftoverShims, LeftoverTasks, PodsLimit, ProtectedMemory, SystemCgroups,
};
use hostlet_engine::lifecycle::PodTable;
use hostlet_engine::probe::{Prober, ProberDeps};
use hostlet_engine::shutdown::{ShutdownDeps, SystemBus};
use hostlet_engine::worker::{
    EnvAccess, HostAccess, ReportSinks, RuntimeAccess, WorkerContext, WorkerMetrics,
};
use hostlet_host::cgroup::{CgroupVersion, Cgroups, systemd_is_init};
use hostlet_host::{KernelMounts, tmpfs_can_avoid_swap};
use hostlet_image::preload::{self, Containerd, PreloadConfig};
use hostlet_net::http::HttpClient;
use hostlet_observe::log::LogLayout;
use hostlet_observe::status::{PodStatusDeps, PodStatusTask, StatusGates, StatusHandle};
use hostlet_pod::AdmittedPod;
use hostlet_volume::{VolumeSettings, Volumes};

/// Maximum wait of the first pods for the node's addresses.
const FIRST_ADDRESSES: Duration = Duration::from_secs(1);
/// Maximum wait of the first pods for logind.
const LOGIND_PATIENCE: Duration = Duration::from_secs(1);

impl Parts {
    /// Opens the cgroups of pods, without changing any.
    pub(super) async fn open_cgroups(
        &self,
        config: &Config,
        runtime_info: &RuntimeInfo,
    ) -> Result<Arc<Cgroups>, AppError> {
        let (driver, opening) = (runtime_info.cgroup_driver.unwrap_or(config.cgroups.driver), config.clone());
        let page_sizes = self.node.huge_page_sizes.clone();
        let opened = tokio::task::spawn_blocking(move || {
            open_cgroups(&opening, driver, page_sizes, Path::new(PROC), Path::new(CGROUP_MOUNT))
        });
        Ok(Arc::new(opened.await??))
    }

    /// Starts these parts.
    pub(super) async fn start_pods(
        mut self,
        config: &Config,
        runtime_info: &RuntimeInfo,
        cgroups: Arc<Cgroups>,
        tasks: &mut Tasks,
    ) -> Result<(), AppError> {
        let logs =
            LogLayout { pod_logs_dir: config.pods.logs_dir.clone(), containers_dir: CONTAINER_LOGS.into() };
        // Not before: on a first start that is refused, the records are still being written.
        self.images.take_over_records(&config.root_dir).await;
        let mounts = Arc::new(KernelMounts { mountinfo: MOUNTINFO.into() });
        // Those that the node registers with, until the Node object is known.
        let (own_labels, node_object) = (self.node.view.labels.clone(), self.describer.latest.clone());
        let labels = move || {
            let labels = node_object.borrow().as_ref().and_then(|node| node.metadata.labels.clone());
            labels.unwrap_or_else(|| own_labels.clone())
        };
        let (volume_task, volumes) = Volumes::new(VolumeSettings {
            root: config.root_dir.clone(),
            node: self.node.amounts,
            labels: Arc::new(labels),
            mounts: mounts.clone(),
            objects: self.objects.clone(),
            clock: WallClock::system(),
        });
        volumes.register(&self.metrics);
        tasks.spawn(Stage::Support, "volumes", |cancel| volume_task.run(cancel));
        let storage = self.start_storage(config, &logs, &volumes, tasks);
        if let Some(limits) = config.pods.log_limits {
            let sources = LogRotationDeps {
                runtime: self.runtime.runtime.clone(),
                observed: self.runtime.pleg.cache().clone(),
                events: self.events.clone(),
                clock: WallClock::system(),
            };
            let rotation = LogRotation::new(limits, sources, &self.metrics);
            tasks.spawn(Stage::Pods, "log rotation", |cancel| rotation.run(cancel));
        }
        if let Some(directory) = &config.image_preload_dir {
            let preload = PreloadConfig { directory: directory.clone(), architecture: architecture() };
            let store = Arc::new(Containerd::new(self.runtime.content.clone()));
            let problems = self.preload.clone();
            tasks
                .spawn(Stage::Pods, "image preload", |cancel| preload::run(preload, store, problems, cancel));
        }
        let tree = cgroups.clone();
        tokio::task::spawn_blocking(move || tree.ensure_tree()).await?.map_err(StartupError::Cgroups)?;
        let cgroup_version = cgroups.version();
        cgroup_version.register(&self.metrics);
        match cgroup_version {
            CgroupVersion::V1 => (self.node_events)(cgroup_v1_event()),
            CgroupVersion::V2 => {}
        }
        if self.node.swap > 0 && !tmpfs_can_avoid_swap() {
            (self.node_events)(swap_event());
        }
        cgroups.register(&self.metrics);
        self.serve_stats(config, &logs, cgroups.clone(), storage, tasks);
        let kubelet = config.cgroups.kubelet.clone();
        if let (Some(path), true) = (&kubelet, systemd_is_init()) {
            tracing::warn!(
                path,
                "kubeletCgroups has no effect: systemd is init, and hostlet stays in the cgroup of its unit"
            );
        }
        let kubelet = kubelet.filter(|_| !systemd_is_init());
        if kubelet.is_some() || config.cgroups.system.is_some() {
            let (cgroups, system) = (cgroups.clone(), config.cgroups.system.clone());
            let system = SystemCgroups { cgroups, proc: PROC.into(), kubelet, system };
            tasks.spawn(Stage::Support, "system cgroups", |cancel| system.run(cancel));
        }
        let cgroups = config.cgroups.per_qos.then_some(cgroups);
        let limit = |cgroups: &Arc<Cgroups>| {
            Arc::new(PodsLimit::new(
                cgroups.clone(),
                self.node.own_node.subscribe(),
                self.node_events.clone(),
            ))
        };
        let pods_limit = cgroups.as_ref().filter(|_| config.cgroups.limit_all_pods).map(limit);
        if let Some(limit) = pods_limit.clone() {
            tokio::task::spawn_blocking(move || limit.apply()).await?;
        }
        if runtime_info.version.runtime_name == "containerd" {
            let shims = LeftoverShims {
                client: self.runtime.client.clone(),
                socket: config.runtime.runtime_socket.clone(),
                proc: PROC.into(),
                mounts: mounts.clone(),
                problem: self.shims,
            };
            tasks.spawn(Stage::Pods, "leftover shims", |cancel| shims.run(cancel));
            let leftovers = LeftoverTasks {
                client: self.runtime.client.clone(),
                observed: self.runtime.pleg.cache().clone(),
                own: self.own.clone(),
            };
            tasks.spawn(Stage::Pods, "leftover tasks", |cancel| leftovers.run(cancel));
        } else {
            tracing::debug!(
                runtime = runtime_info.version.runtime_name,
                "leftover shims and tasks are only searched for on containerd"
            );
        }
        // Usually known by now. Waiting avoids statuses without addresses, but pods must not wait for a name server.
        let _ = timeout(FIRST_ADDRESSES, self.addresses.known()).await;
        let statuses = StatusHandle::default();
        let probes = self.probes.results;
        let sources = PodStatusDeps {
            handle: statuses.clone(),
            probes: probes.clone(),
            observed: self.runtime.pleg.cache().clone(),
            addresses: self.addresses.clone(),
            runtime_name: runtime_info.version.runtime_name.clone(),
            timeline: self.timeline.clone(),
            gates: StatusGates {
                stop_signals: config.pods.stop_signals,
                image_volumes: config.pods.report_image_volumes,
            },
            clock: WallClock::system(),
        };
        let prober = ProberDeps {
            runtime: self.runtime.runtime.clone(),
            status_cache: self.status_cache.clone(),
            timeline: self.timeline.clone(),
            statuses: statuses.clone(),
            results: probes.clone(),
            failing: self.probes.failing,
            metrics: self.probes.metrics,
            store: self.store.clone(),
            events: self.events.clone(),
            clock: WallClock::system(),
        };
        // It restores the findings of an earlier daemon before a status or a plan needs them.
        let prober = Prober::new(prober, StdRng::from_os_rng()).with_heartbeat(tasks.heartbeat("probes"));
        tasks.spawn(Stage::Support, "probes", |cancel| prober.run(cancel));
        let status_task = PodStatusTask::new(sources, self.status_cache.clone());
        status_task.register(&self.metrics);
        let status_task = status_task.with_heartbeat(tasks.heartbeat("statuses"));
        tasks.spawn(Stage::Support, "statuses", |cancel| status_task.run(cancel));
        let quiet_period = self.runtime.calls.quiet_period();
        let (starts, stops) = (StartGate::new(config.max_concurrent_starts.get()), StopGate::default());
        starts.register(&self.metrics);
        stops.register(&self.metrics);
        let runtime = RuntimeAccess {
            service: self.runtime.runtime,
            status: self.runtime.status,
            classes: self.runtime_classes,
            images: self.images,
            pleg: self.runtime.pleg.clone(),
            starts,
            stops,
            quiet_period: quiet_period.clone(),
        };
        let settings =
            host_settings(config, runtime_info, cgroup_version, &self.node, self.addresses.clone());
        // As upstream, once: what a later change does to a pod is an event of that pod.
        if let Some(problem) = resolv_conf_problem(&settings).await {
            (self.node_events)(resolv_conf_event(problem));
        }
        let user_namespaces = Arc::new(UserNamespaces::new(
            config.root_dir.clone(),
            config.pods.ids_per_pod,
            self.node.settings.max_pods,
            SubordinateIds::default(),
        ));
        let host = HostAccess {
            settings: Arc::new(settings),
            cgroups: cgroups.clone(),
            user_namespaces: user_namespaces.clone(),
            logs: logs.clone(),
            volumes: volumes.clone(),
            mounts: mounts.clone(),
        };
        let reports = ReportSinks {
            status_cache: self.status_cache.clone(),
            activities: self.activities.clone(),
            timeline: self.timeline.clone(),
            statuses: statuses.clone(),
            events: self.events.clone(),
            clock: WallClock::system(),
        };
        let worker_metrics = WorkerMetrics::default();
        worker_metrics.register(&self.metrics);
        let context = WorkerContext {
            runtime,
            host,
            env: EnvAccess { objects: self.objects, services: self.service_env },
            reports,
            store: self.store,
            own: self.own.clone(),
            restarts: self.restarts,
            probes,
            hook_client: HttpClient::default(),
            metrics: worker_metrics,
            crash_loop_cap: config.pods.max_restart_wait,
        };
        // The kernel protects memory on cgroup v2 alone.
        let has_protection = matches!(cgroup_version, CgroupVersion::V2);
        let (memory_qos, protected_memory) =
            (config.cgroups.memory_qos.filter(|_| has_protection), ProtectedMemory::default());
        if config.cgroups.memory_qos.is_some() {
            protected_memory.register(&self.metrics);
        }
        let janitor = HostJanitor {
            quiet_period,
            root_dir: config.root_dir.clone(),
            mounts,
            volumes,
            logs,
            cgroups,
            memory_qos,
            protected_memory,
            pods_limit,
            user_namespaces,
            own: self.own,
            foreign: self.foreign,
            admitted: self.admitted,
            status_cache: self.status_cache.clone(),
            activities: self.activities,
            timeline: self.timeline.clone(),
        };
        let events = self.events;
        let desired_pods = self.desired_pods.clone();
        let table = PodTable::new(
            self.desired_pods,
            self.runtime.pleg,
            Arc::new(context),
            Arc::new(janitor),
            config.sources.sync_frequency,
            StdRng::from_os_rng(),
        );
        let table = table
            .with_statuses(statuses)
            .with_heartbeat(tasks.heartbeat("pods"))
            .at(self.addresses)
            .reporting(events)
            .after(self.adopted.into_iter().map(|adopted| AdmittedPod::new(adopted.pod)));
        table.register(&self.metrics, &self.status_cache);
        let sources = ShutdownDeps {
            logind: Arc::new(SystemBus),
            desired_pods,
            ended_kills: table.ended_kills(),
            status_cache: self.status_cache,
            timeline: self.timeline,
            reports: self.reports,
            events: self.node_events,
            clock: WallClock::system(),
        };
        tasks.spawn(Stage::Pods, "node shutdown", |cancel| self.shutdown.run(sources, cancel));
        // A host that is shutting down already starts no pod.
        let _ = timeout(LOGIND_PATIENCE, self.shutdown_outputs.is_checked.wait_for(|is_checked| *is_checked))
            .await;
        tasks.spawn(Stage::Pods, "pods", |cancel| table.run(cancel));
        Ok(())
    }
}

fn host_settings(
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
