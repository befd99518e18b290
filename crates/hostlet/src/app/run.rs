//! Runs the daemon: start-up checks, the parts that need no runtime, then, once the runtime responds, the pods. Shutdown leaves the
//! pods running.

use std::path::Path;

use hostlet_config::Config;
use hostlet_csi::found_on_disk;
use hostlet_engine::housekeeping::trim_heap_regularly;
use hostlet_engine::ownership::OwnPods;
use hostlet_host::{HostDirs, file_work};
use hostlet_net::http::tcp_dialer;
use hostlet_serve::server::ControlServer;
use hostlet_serve::supervisor::{ConfigState, Notifier, Supervisor};
use hostlet_store::Store;
use hostlet_telemetry::{Metrics, TraceExporter};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::error::AppError;
use super::guard::Guard;
use super::node_api::{AboutProcess, ApiClients};
use super::node_side::NodeSide;
use super::parts::{Parts, Records};
use super::paths::{CONTAINER_LOGS, ROOT};
use super::ports::Ports;
use super::reload::Reload;
use super::runtime::{RuntimeSide, wait_for_runtime};
use super::startup::{adjust_host, prepare};
use super::tasks::{Stage, Tasks};

/// Runs the daemon until cancelled.
pub(crate) async fn run(config: Config, reload: Reload, cancel: CancellationToken) -> Result<(), AppError> {
    let dirs = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: CONTAINER_LOGS.into(),
    };
    let started = prepare(&config, &dirs, Path::new(ROOT))?;
    let node = NodeSide::new(&config, started.machine)?;
    let cluster = match &config.cluster {
        Some(joined) => Some(Cluster::new(joined, &config.node_name)?),
        None => None,
    };
    let listener = ControlServer::bind(&config.socket).await?;
    let socket = ControlServer::identity(&config.socket);
    // After opening the socket, so that a second daemon fails before it touches anything.
    let (store, writer) = Store::open(dirs.store()).await;
    let metrics = Metrics::default();
    store.register(&metrics);
    let traces = config
        .traces
        .as_ref()
        .map(|traces| TraceExporter::start(traces, &config.node_name, tcp_dialer(), &metrics));
    let mut tasks = Tasks::new(cancel.clone());
    let own = OwnPods::new(dirs.own_pods(), &store);
    let root = config.root_dir.clone();
    let volumes = file_work(move || found_on_disk(&root)).await.unwrap_or_default();
    let records = Records { store, own, volumes };
    let guard = Guard::new(&config, &dirs, &records, &mut tasks);
    let about = AboutProcess {
        configuration: reload.started_with.clone(),
        flags: reload.flags.given.shown(),
        log: reload.logs.clone(),
    };
    let ports = Ports { clients: cluster.as_ref().map(ApiClients::of), about };
    let (open, closed) = if guard.is_first() {
        (None, Some(ports))
    } else {
        adjust_host(&config, &dirs, Path::new(ROOT))?;
        (Some(ports.open(&config)?), None)
    };
    tasks.spawn(Stage::State, "store", |cancel| writer.run(cancel));
    if let Some(traces) = traces {
        tasks.spawn(Stage::State, "traces", |cancel| traces.run(cancel));
    }

    tasks.spawn(Stage::Support, "heap trim", trim_heap_regularly);
    let runtime = RuntimeSide::start(&config, &metrics, &mut tasks);
    let parts = Parts::start(&config, node, runtime, records, cluster, metrics, &mut tasks);
    if let Some(open) = open {
        open.serve(&config, &parts, &mut tasks);
    }
    tasks.spawn(Stage::State, "control socket", |cancel| parts.server(&config).run(listener, cancel));

    tasks.heartbeats().register_metrics(&parts.metrics);
    let (config_state, config_view) = watch::channel(ConfigState::default());
    let (notifier, rescan) = (Notifier::from_environment(), tasks.rescan().clone());
    if let Some(notifier) = notifier.clone() {
        let inputs = parts.supervised(tasks.heartbeats().clone(), config_view, guard.decision());
        let (supervisor, stop) = (Supervisor::new(notifier, inputs), cancel.clone());
        tasks.spawn(Stage::Supervisor, "supervisor", |cancel| supervisor.run(stop, cancel));
    }
    tasks.spawn(Stage::State, "reload", |cancel| reload.run(rescan, config_state, notifier, cancel));

    let mut refused = None;
    if let Some(runtime_info) = wait_for_runtime(parts.runtime(), &cancel).await {
        let version = &runtime_info.version;
        tracing::info!(
            runtime = version.runtime_name,
            version = version.runtime_version,
            "connected to the container runtime"
        );
        let cgroups = parts.open_cgroups(&config, &runtime_info).await?;
        let sources = parts.guard_sources(&config);
        match guard.decide(parts.runtime(), &cgroups, sources, &cancel).await {
            None => {}
            Some(Err(rejection)) => {
                refused = Some(rejection);
                cancel.cancel();
            }
            Some(Ok(())) => {
                if let Some(closed) = closed {
                    adjust_host(&config, &dirs, Path::new(ROOT))?;
                    closed.open(&config)?.serve(&config, &parts, &mut tasks);
                }
                guard.claim(parts.devices.had_checkpoint(), &mut tasks).await;
                parts.start_pods(&config, &runtime_info, cgroups, &mut tasks).await?;
                tracing::info!(node = config.node_name, "hostlet runs");
            }
        }
    }
    tasks.run().await?;
    // Removed only if it is still ours: the next daemon may have replaced it already.
    if ControlServer::identity(&config.socket) == socket {
        let _ = std::fs::remove_file(&config.socket);
    }
    drop(started.lock);
    if let Some(rejection) = refused {
        return Err(rejection.into());
    }
    tracing::info!("hostlet stopped; pods keep running");
    Ok(())
}
