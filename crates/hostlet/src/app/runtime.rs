//! Wires the runtime: its clients, its observers, and the wait for its first response, which provides the facts needed before the
//! first pod.

use std::sync::Arc;

use hostlet_base::{CgroupDriver, error_chain};
use hostlet_config::Config;
use hostlet_observe::pleg::{Pleg, PlegHandle};
use hostlet_runtime::cri::{
    Calls, CriClient, CriError, FIRST_ANSWER_RETRY, ImageService, RuntimeService, RuntimeStatus, Version,
    monitor,
};
use hostlet_telemetry::Metrics;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::tasks::{Stage, Tasks};

/// Handles to the runtime.
pub(super) struct RuntimeSide {
    pub(super) runtime: Arc<dyn RuntimeService>,
    /// The client behind `runtime`, for containerd's own services.
    pub(super) client: CriClient,
    pub(super) images: Arc<dyn ImageService>,
    /// Containerd's own services, on the socket of the image service.
    pub(super) content: Channel,
    /// Calls in progress.
    pub(super) calls: Calls,
    /// Its status; `None` before its first response.
    pub(super) status: watch::Receiver<Option<RuntimeStatus>>,
    /// When it last reported that it is ready.
    pub(super) ready_at: watch::Receiver<Option<Instant>>,
    /// Its pods, from relisting.
    pub(super) pleg: PlegHandle,
}

impl RuntimeSide {
    /// Starts its observers.
    pub(super) fn start(config: &Config, metrics: &Metrics, tasks: &mut Tasks) -> Self {
        let client = CriClient::new(&config.runtime.runtime_socket, config.runtime.request_timeout);
        let images = if config.runtime.image_socket == config.runtime.runtime_socket {
            client.clone()
        } else {
            CriClient::new(&config.runtime.image_socket, config.runtime.request_timeout).counted_with(&client)
        };
        let calls = client.calls().clone();
        calls.register(metrics);
        let runtime: Arc<dyn RuntimeService> = Arc::new(client.clone());
        let (status_in, status) = watch::channel(None);
        let (ready_in, ready_at) = watch::channel(None);
        tasks.spawn(Stage::Support, "runtime monitor", |cancel| {
            monitor(runtime.clone(), status_in, ready_in, cancel)
        });
        let (relister, pleg) = Pleg::new(runtime.clone(), StdRng::from_os_rng());
        pleg.register(metrics);
        let relister = relister.with_heartbeat(tasks.heartbeat("pleg"));
        tasks.spawn(Stage::Support, "pleg", |cancel| relister.run(cancel));
        let content = images.channel();
        Self { runtime, client, images: Arc::new(images), content, calls, status, ready_at, pleg }
    }
}

/// Facts about the runtime.
#[derive(Clone, Debug)]
pub(super) struct RuntimeInfo {
    /// Name and version.
    pub(super) version: Version,
    /// Its cgroup driver, if reported.
    pub(super) cgroup_driver: Option<CgroupDriver>,
}

/// Waits until the runtime responds; `None` if cancelled.
pub(super) async fn wait_for_runtime(
    runtime: &dyn RuntimeService,
    cancel: &CancellationToken,
) -> Option<RuntimeInfo> {
    let mut logged = None;
    loop {
        let error = tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => return None,
            // Cancel-safe: read-only calls.
            answer = ask(runtime) => match answer {
                Ok(runtime_info) => return Some(runtime_info),
                Err(error) => error_chain(&error),
            },
        };
        if logged.as_ref() != Some(&error) {
            tracing::warn!(error, "waiting for the container runtime");
            logged = Some(error);
        }
        tokio::select! {
            // Cancel-safe: as above.
            () = cancel.cancelled() => return None,
            // Cancel-safe: a sleep.
            () = tokio::time::sleep(FIRST_ANSWER_RETRY) => {}
        }
    }
}

async fn ask(runtime: &dyn RuntimeService) -> Result<RuntimeInfo, CriError> {
    let version = runtime.version().await?;
    let cgroup_driver = runtime.cgroup_driver().await?;
    Ok(RuntimeInfo { version, cgroup_driver })
}
