//! The runtime's side: clients of it, those who look at it all the time, and meeting it, which may take for ever: it is
//! learned then what must be known before the first pod.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::tasks::{Stage, Tasks};
use crate::config::Config;
use crate::cri::{
    Calls, CriClient, CriError, FIRST_ANSWER_RETRY, ImageService, RuntimeService, RuntimeStatus, Version,
    monitor,
};
use crate::pleg::{Pleg, PlegHandle};
use crate::telemetry::Metrics;
use crate::types::{CgroupDriver, error_chain};

/// The runtime as the other parts reach it.
pub(super) struct RuntimeSide {
    pub(super) runtime: Arc<dyn RuntimeService>,
    /// The client behind `runtime`, for containerd's own services.
    pub(super) client: CriClient,
    pub(super) images: Arc<dyn ImageService>,
    /// Containerd's own services, on the socket of the image service.
    pub(super) content: Channel,
    /// Calls under way.
    pub(super) calls: Calls,
    /// What it says of itself; none before it answered.
    pub(super) status: watch::Receiver<Option<RuntimeStatus>>,
    /// When it last said that it is ready.
    pub(super) ready_at: watch::Receiver<Option<Instant>>,
    /// What it has.
    pub(super) pleg: PlegHandle,
}

impl RuntimeSide {
    /// Starts looking at it.
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
        tasks.spawn(Stage::Support, "pleg", |cancel| relister.run(cancel));
        let content = images.channel();
        Self { runtime, client, images: Arc::new(images), content, calls, status, ready_at, pleg }
    }
}

/// What is learned of the runtime.
#[derive(Clone, Debug)]
pub(super) struct RuntimeInfo {
    /// Name and version.
    pub(super) version: Version,
    /// The cgroup driver it uses; none if it cannot say.
    pub(super) cgroup_driver: Option<CgroupDriver>,
}

/// Waits until the runtime answers; `None` when cancelled before.
pub(super) async fn wait_for_runtime(
    runtime: &dyn RuntimeService,
    cancel: &CancellationToken,
) -> Option<RuntimeInfo> {
    let mut told = None;
    loop {
        let error = tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => return None,
            // Cancel-safe: asking changes nothing.
            answer = ask(runtime) => match answer {
                Ok(met) => return Some(met),
                Err(error) => error_chain(&error),
            },
        };
        if told.as_ref() != Some(&error) {
            tracing::warn!(error, "waiting for the container runtime");
            told = Some(error);
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
