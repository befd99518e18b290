//! The daemon from start to end: what must hold, then the parts that need no runtime, then, once the runtime answers, the
//! pods. Ending leaves the pods running.

use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, ClusterInputs, ClusterOutputs};
use super::node_ip::node_ips;
use super::runtime::{Met, meet};
use super::startup::{StartupError, open_cgroups, prepare};
use super::tasks::{TaskEnded, Tasks};
use crate::api::ConnectError;
use crate::cgroup::CgroupVersion;
use crate::config::{Config, ParallelPulls};
use crate::cri::{CriClient, ImageService, RuntimeService, monitor};
use crate::image::preload::{self, Containerd, PreloadConfig};
use crate::image::{ContainerdArrivals, Images, PullLimits};
use crate::log::LogLayout;
use crate::node::{OwnNode, Settings};
use crate::pleg::Pleg;
use crate::pod::admission::{
    Admission, AdmissionInputs, AdmittedPods, Allocatable, InheritedPod, Judged, NodeView,
};
use crate::pod::container::{HostSettings, KernelFacts};
use crate::pod::service_env::ServiceEnv;
use crate::pod::source::api::ApiState;
use crate::pod::source::{self, SourceConfig, SourceState};
use crate::pod::table::{PodTable, WantedPods};
use crate::pod::worker::Services;
use crate::pod::{HostJanitor, PodEvents, StartGate, StatusBoard};
use crate::server::{ControlError, ControlServer};
use crate::store::Store;
use crate::sys::{HostDirs, KernelMounts, Machine};
use crate::types::{PodEvent, PodRef, WallClock, architecture};
use crate::volume::objects::{ObjectSource, Standalone};
use crate::volume::{NodeAmounts, VolumeSettings, Volumes};

const ROOT: &str = "/";
const PROC: &str = "/proc";
const SYS: &str = "/sys";
const CGROUP_MOUNT: &str = "/sys/fs/cgroup";
const MOUNTINFO: &str = "/proc/self/mountinfo";
/// Where log collectors look; upstream has no setting for it either.
const CONTAINER_LOGS: &str = "/var/log/containers";

/// Why the daemon could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The host is not fit.
    #[error(transparent)]
    Startup(#[from] StartupError),
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Cluster(#[from] ConnectError),
    /// The control socket could not be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A part of the daemon ended by itself.
    #[error(transparent)]
    Task(#[from] TaskEnded),
    /// A start-up step panicked.
    #[error("a start-up step ended early")]
    Step(#[from] tokio::task::JoinError),
}

/// Runs the daemon until cancelled.
pub async fn run(config: Config, cancel: CancellationToken) -> Result<(), AppError> {
    let dirs = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: CONTAINER_LOGS.into(),
    };
    let started = prepare(&config, &dirs, Path::new(ROOT))?;
    let cluster = match &config.cluster {
        Some(joined) => Some(Cluster::new(joined, &config.node_name).await?),
        None => None,
    };
    let settings = Arc::new(node_settings(&config, &started.machine));
    let own = OwnNode::new(&settings, &started.machine);
    let allocatable = Allocatable::of(&own.allocatable);
    let client = CriClient::new(&config.runtime.runtime_socket, config.runtime.request_timeout);
    let images = if config.runtime.image_socket == config.runtime.runtime_socket {
        client.clone()
    } else {
        CriClient::new(&config.runtime.image_socket, config.runtime.request_timeout)
    };
    let calls = client.calls().clone();
    let runtime: Arc<dyn RuntimeService> = Arc::new(client);
    let listener = ControlServer::bind(&config.socket).await?;

    // After the socket: whoever finds a daemon running touches nothing of it.
    let (store, keeper) = Store::open(dirs.store()).await;
    let (admitted, inherited) = AdmittedPods::new(store.clone());

    let mut tasks = Tasks::new(cancel.clone());
    tasks.spawn("store", keeper.run(tasks.cancel()));
    let (source_in, source) = watch::channel(SourceState::default());
    let manifests = SourceConfig {
        path: config.sources.static_pod_path.clone(),
        node_name: config.node_name.clone(),
        check_frequency: config.sources.file_check_frequency,
    };
    let known = inherited.iter().filter_map(InheritedPod::of_manifest).collect();
    tasks.spawn("manifests", source::run(manifests, known, source_in, tasks.cancel()));
    let board = StatusBoard::default();
    let (wanted_in, wanted) = watch::channel(WantedPods::default());
    let (refused_in, refused) = watch::channel(Vec::new());
    // Alone there is nothing to wait for.
    let (api_in, api) = watch::channel(ApiState { ready: cluster.is_none(), ..ApiState::default() });
    let (node_in, node) = watch::channel(None);
    let nobody = |_: &PodRef, _: Option<&str>, _: &PodEvent| {};
    let events = cluster.as_ref().map_or_else(|| -> PodEvents { Arc::new(nobody) }, Cluster::pod_events);
    let inputs = AdmissionInputs {
        manifests: source.clone(),
        api: api.clone(),
        own: NodeView {
            name: config.node_name.clone(),
            labels: own.labels,
            taints: config.node.taints.clone(),
            allocatable,
        },
        node,
        board: board.clone(),
        allowed_unsafe_sysctls: config.pods.allowed_unsafe_sysctls.clone(),
    };
    let judged = Judged {
        wanted: wanted_in,
        refused: refused_in,
        admitted: admitted.clone(),
        events: events.clone(),
        clock: WallClock::system(),
    };
    tasks.spawn("admission", Admission::new(inputs, judged).run(tasks.cancel()));
    let (status_in, runtime_status) = watch::channel(None);
    let (ready_in, ready_at) = watch::channel(None);
    tasks.spawn("runtime monitor", monitor(runtime.clone(), status_in, ready_in, tasks.cancel()));
    let (relister, pleg) = Pleg::new(runtime.clone(), StdRng::from_os_rng());
    tasks.spawn("pleg", relister.run(tasks.cancel()));
    let content = images.channel();
    let runtime_images: Arc<dyn ImageService> = Arc::new(images);
    let images =
        Images::new(runtime_images.clone(), pull_limits(&config), store.clone(), WallClock::system());
    let outputs = ClusterOutputs { api: api_in, node: node_in };
    // Those who read need somebody who could write, be it nobody who ever does.
    let (objects, service_env, _alone): (Arc<dyn ObjectSource>, _, _) = match cluster {
        Some(cluster) => {
            let inputs = ClusterInputs {
                settings,
                runtime: runtime.clone(),
                images: runtime_images.clone(),
                runtime_status: runtime_status.clone(),
                ready_at,
                pleg: pleg.health(),
                board: board.clone(),
                refused: refused.clone(),
                wanted: wanted.clone(),
                known: inherited.iter().filter_map(InheritedPod::of_api).collect(),
            };
            let (objects, service_env) = cluster.spawn(&mut tasks, &config, inputs, outputs);
            (Arc::new(objects), service_env, None)
        }
        None => (Arc::new(Standalone), ServiceEnv::none(), Some(outputs)),
    };
    let server = ControlServer {
        node: config.node_name.clone(),
        board: board.clone(),
        refused,
        source,
        api,
        runtime: runtime_status.clone(),
        pleg: pleg.clone(),
        calls,
        runtime_images,
        images: images.clone(),
        arrivals: Arc::new(ContainerdArrivals::new(content.clone())),
        preload_dir: config.image_preload_dir.clone(),
        store: store.trouble(),
    };
    tasks.spawn("control socket", server.run(listener, tasks.cancel()));

    if let Some(met) = meet(&*runtime, &cancel).await {
        let version = &met.version;
        tracing::info!(
            runtime = version.runtime_name,
            version = version.runtime_version,
            "met the container runtime"
        );
        if let Some(directory) = &config.image_preload_dir {
            let preload = PreloadConfig { directory: directory.clone(), architecture: architecture() };
            let store = Arc::new(Containerd::new(content));
            tasks.spawn("image preload", preload::run(preload, store, tasks.cancel()));
        }
        let (driver, opening) = (met.cgroup_driver.unwrap_or(config.cgroups.driver), config.clone());
        let opened = tokio::task::spawn_blocking(move || {
            open_cgroups(&opening, driver, Path::new(PROC), Path::new(CGROUP_MOUNT))
        });
        let (cgroup_version, cgroups) = opened.await??;
        let cgroups = cgroups.map(Arc::new);
        let logs =
            LogLayout { pod_logs_dir: config.pods.logs_dir.clone(), containers_dir: CONTAINER_LOGS.into() };
        let mounts = Arc::new(KernelMounts { mountinfo: MOUNTINFO.into() });
        let (volume_task, volumes) = Volumes::new(VolumeSettings {
            root: config.root_dir.clone(),
            node: NodeAmounts {
                milli_cpu: allocatable.milli_cpu,
                memory: allocatable.memory,
                ephemeral_storage: allocatable.ephemeral_storage.unwrap_or_default(),
            },
            mounts: mounts.clone(),
            objects: objects.clone(),
            clock: WallClock::system(),
        });
        tasks.spawn("volumes", volume_task.run(tasks.cancel()));
        let services = Services {
            runtime,
            images,
            pleg: pleg.clone(),
            gate: StartGate::new(config.max_concurrent_starts.get()),
            cgroups: cgroups.clone(),
            logs: logs.clone(),
            host: Arc::new(host_settings(&config, &met, cgroup_version, started.machine.memory)),
            runtime_status,
            board: board.clone(),
            events,
            crash_loop_cap: config.pods.max_restart_wait,
            store,
            clock: WallClock::system(),
            volumes,
            objects,
            service_env,
            mounts: mounts.clone(),
        };
        let janitor =
            HostJanitor { root_dir: config.root_dir.clone(), mounts, logs, cgroups, admitted, board };
        let (table, _handle) = PodTable::new(
            wanted,
            pleg,
            Arc::new(services),
            Arc::new(janitor),
            config.sources.sync_frequency,
            StdRng::from_os_rng(),
        );
        let table = table.after(inherited.into_iter().map(|inherited| inherited.pod));
        tasks.spawn("pods", table.run(tasks.cancel()));
        tracing::info!(node = config.node_name, "hostlet runs");
    }
    tasks.run().await?;
    drop(started.lock);
    // A socket that is left is replaced by the next daemon; one that is gone tells the truth at once.
    let _ = std::fs::remove_file(&config.socket);
    tracing::info!("hostlet ended; pods go on running");
    Ok(())
}

fn node_settings(config: &Config, machine: &Machine) -> Settings {
    Settings {
        name: config.node_name.clone(),
        node_ips: config.node_ips.clone(),
        max_pods: config.pods.most_pods(machine.cpus),
        // hostlet serves nothing over the network yet.
        server_port: None,
        node: config.node.clone(),
    }
}

fn pull_limits(config: &Config) -> PullLimits {
    let (serialize, max_parallel) = match config.pulls.parallel {
        ParallelPulls::Serial => (true, None),
        ParallelPulls::AtMost(bound) => (false, Some(bound)),
        ParallelPulls::Unlimited => (false, None),
    };
    let qps = config.pulls.per_second.map_or(0, std::num::NonZeroU32::get);
    PullLimits { serialize, max_parallel, qps, burst: config.pulls.burst }
}

fn host_settings(config: &Config, met: &Met, cgroups: CgroupVersion, memory_capacity: u64) -> HostSettings {
    let cgroup_v2 = match cgroups {
        CgroupVersion::V1 => false,
        CgroupVersion::V2 => true,
    };
    HostSettings {
        root_dir: config.root_dir.clone(),
        pod_logs_dir: config.pods.logs_dir.clone(),
        node_name: config.node_name.clone(),
        node_ips: if config.node_ips.is_empty() { node_ips() } else { config.node_ips.clone() },
        cluster_domain: config.dns.cluster_domain.clone(),
        cluster_dns: config.dns.cluster_dns.clone(),
        resolv_conf: config.dns.resolv_conf.clone(),
        cpu_cfs_quota: config.cgroups.cfs_quota,
        cpu_cfs_quota_period: config.cgroups.cfs_period,
        seccomp_default: config.pods.seccomp_default,
        memory_capacity,
        cgroup_v2,
        // One killed process at a time is all cgroup v1 can do.
        single_process_oom_kill: config.cgroups.single_process_oom_kill.unwrap_or(!cgroup_v2),
        runtime_name: met.version.runtime_name.clone(),
        kernel: KernelFacts::read(Path::new(SYS), Path::new(PROC), cgroup_v2),
    }
}
