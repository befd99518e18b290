//! The daemon from start to end: what must hold, then the parts that need no runtime, then, once the runtime answers, the
//! pods. Ending leaves the pods running.

use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::node_ip::node_ips;
use super::runtime::{Met, meet};
use super::startup::{StartupError, open_cgroups, prepare};
use super::tasks::{TaskEnded, Tasks};
use crate::cgroup::CgroupVersion;
use crate::config::{Config, ParallelPulls};
use crate::cri::{CriClient, ImageService, RuntimeService, monitor};
use crate::image::preload::{self, Containerd, PreloadConfig};
use crate::image::{ContainerdArrivals, Images, PullLimits};
use crate::log::LogLayout;
use crate::pleg::Pleg;
use crate::pod::admission::{AdmittedPods, InheritedPod, Limits, admit};
use crate::pod::container::{HostSettings, KernelFacts};
use crate::pod::source::{self, SourceConfig, SourceState};
use crate::pod::table::{PodTable, WantedPods};
use crate::pod::timeline::Timeline;
use crate::pod::worker::Services;
use crate::pod::{HostJanitor, StartGate, StatusBoard};
use crate::server::{ControlError, ControlServer};
use crate::store::Store;
use crate::sys::{HostDirs, KernelMounts};
use crate::types::{WallClock, architecture};
use crate::volume::objects::Standalone;
use crate::volume::{VolumeSettings, Volumes};

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
    let started = prepare(&config, &dirs, Path::new(PROC))?;
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
    let limits = Limits {
        max_pods: config.pods.most_pods(started.cpus),
        allowed_unsafe_sysctls: config.pods.allowed_unsafe_sysctls.clone(),
    };
    let judged = Judged {
        wanted: wanted_in,
        refused: refused_in,
        admitted: admitted.clone(),
        timeline: board.timeline().clone(),
    };
    tasks.spawn("admission", admission(source.clone(), limits, judged, tasks.cancel()));
    let (status_in, runtime_status) = watch::channel(None);
    tasks.spawn(
        "runtime monitor",
        monitor(runtime.clone(), status_in, watch::Sender::new(None), tasks.cancel()),
    );
    let (relister, pleg) = Pleg::new(runtime.clone(), StdRng::from_os_rng());
    tasks.spawn("pleg", relister.run(tasks.cancel()));
    let content = images.channel();
    let runtime_images: Arc<dyn ImageService> = Arc::new(images);
    let images =
        Images::new(runtime_images.clone(), pull_limits(&config), store.clone(), WallClock::system());
    let preload_told = watch::Sender::new(Vec::new());
    let server = ControlServer {
        node: config.node_name.clone(),
        board: board.clone(),
        refused,
        source,
        runtime: runtime_status.clone(),
        pleg: pleg.clone(),
        calls,
        runtime_images,
        images: images.clone(),
        arrivals: Arc::new(ContainerdArrivals::new(content.clone())),
        preload: config.image_preload_dir.clone().map(|directory| (directory, preload_told.subscribe())),
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
            tasks.spawn("image preload", preload::run(preload, store, preload_told, tasks.cancel()));
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
            node: started.amounts,
            mounts: mounts.clone(),
            objects: Arc::new(Standalone),
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
            host: Arc::new(host_settings(&config, &met, cgroup_version, started.memory_capacity)),
            runtime_status,
            board: board.clone(),
            crash_loop_cap: config.pods.max_restart_wait,
            store,
            clock: WallClock::system(),
            volumes,
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

/// Where the judgements go.
struct Judged {
    wanted: watch::Sender<WantedPods>,
    refused: watch::Sender<Vec<k8s_openapi::api::core::v1::Pod>>,
    admitted: AdmittedPods,
    timeline: Timeline,
}

/// Judges what the manifests say, each time they say something new.
async fn admission(
    mut source: watch::Receiver<SourceState>,
    limits: Limits,
    judged: Judged,
    cancel: CancellationToken,
) {
    let clock = WallClock::system();
    loop {
        let state = source.borrow_and_update().clone();
        let (admitted, rejected) = admit(&state, &judged.admitted.times(), &limits);
        judged.admitted.note(&state, &admitted, clock.now());
        for pod in &rejected {
            let message = pod.status.as_ref().and_then(|s| s.message.as_deref());
            tracing::warn!(pod = %crate::pod::pod_ref(pod), message, "pod was refused");
            judged.timeline.refused(pod, clock.now());
        }
        for pod in &admitted.pods {
            judged.timeline.admitted(pod, clock.now());
        }
        judged.wanted.send_replace(admitted);
        judged.refused.send_replace(rejected);
        tokio::select! {
            // Cancel-safe: waiting for a token takes nothing.
            () = cancel.cancelled() => return,
            // Cancel-safe: a watch marks its value seen only when `changed` returns.
            changed = source.changed() => if changed.is_err() {
                return cancel.cancelled().await;
            }
        }
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
