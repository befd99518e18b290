//! The task: looks at the size of each running container's log periodically, and rotates those that are too large.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hostlet_base::settings::LogLimits;
use hostlet_base::{ContainerId, PodEvent, PodRef, WallClock, error_chain};
use hostlet_host::file_work;
use hostlet_observe::pleg::Cache;
use hostlet_pod::PodEvents;
use hostlet_runtime::cri::{ContainerState, ContainerStatus, RuntimeService};
use hostlet_telemetry::Metrics;
use jiff::tz::TimeZone;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::error::RotationError;
use super::files;
use super::metrics::RotationMetrics;

/// How long rotations in progress have at shutdown, so that no log is renamed without a new one.
const GRACE: Duration = Duration::from_secs(2);

/// Consecutive failures until they are reported: a container that has just exited fails once.
const REPORTED: u32 = 2;

/// Reason of the event for logs that cannot be rotated. The stock kubelet has no such event.
const FAILED: &str = "FailedLogRotation";

/// What rotation works with, and where it reports.
pub(crate) struct LogRotationDeps {
    /// Opens new logs.
    pub runtime: Arc<dyn RuntimeService>,
    /// The running containers and where their logs are.
    pub observed: Cache,
    /// Receives the events of pods.
    pub events: PodEvents,
    /// The wall clock, for names.
    pub clock: WallClock,
}

/// The task, which the app runs.
pub(crate) struct LogRotation {
    limits: LogLimits,
    deps: LogRotationDeps,
    metrics: RotationMetrics,
    /// Consecutive failures by container.
    failing: HashMap<ContainerId, u32>,
}

/// The log of a running container.
#[derive(Clone, Debug)]
struct RunningLog {
    pod: PodRef,
    container: String,
    id: ContainerId,
    path: PathBuf,
}

/// The result of a look at one log.
struct Outcome {
    log: RunningLog,
    is_rotated: bool,
    failure: Option<RotationError>,
}

/// Rotates one log.
struct Rotator {
    limits: LogLimits,
    runtime: Arc<dyn RuntimeService>,
    clock: WallClock,
    cancel: CancellationToken,
}

impl LogRotation {
    /// The task with these limits.
    pub(crate) fn new(limits: LogLimits, deps: LogRotationDeps, metrics: &Metrics) -> Self {
        let rotation_metrics = RotationMetrics::default();
        rotation_metrics.register(metrics);
        Self { limits, deps, metrics: rotation_metrics, failing: HashMap::new() }
    }

    /// Runs until cancelled.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let mut ticks = interval(self.limits.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = VecDeque::new();
        // Waiting or being rotated: a slow rotation is not repeated, and delays only as many others as there are workers.
        let mut at_work = HashSet::new();
        let mut rotations = FuturesUnordered::new();
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => break,
                // Cancel-safe: a tick is consumed only when it is returned.
                _ = ticks.tick() => {
                    let due = self.due().await;
                    waiting.extend(due.into_iter().filter(|log| at_work.insert(log.id.clone())));
                }
                // Cancel-safe: an outcome leaves the set only when it is returned.
                Some(outcome) = rotations.next() => {
                    self.report(&outcome);
                    at_work.remove(&outcome.log.id);
                }
            }
            while rotations.len() < self.limits.workers
                && let Some(log) = waiting.pop_front()
            {
                rotations.push(self.rotator(&cancel).rotate(log));
            }
        }
        let _ = timeout(GRACE, rotations.for_each(|_| std::future::ready(()))).await;
    }

    fn rotator(&self, cancel: &CancellationToken) -> Rotator {
        Rotator {
            limits: self.limits,
            runtime: self.deps.runtime.clone(),
            clock: self.deps.clock.clone(),
            cancel: cancel.clone(),
        }
    }

    /// The logs that are too large, or missing.
    async fn due(&mut self) -> Vec<RunningLog> {
        let running = self.running();
        let ids: HashSet<&ContainerId> = running.iter().map(|log| &log.id).collect();
        self.failing.retain(|id, _| ids.contains(id));
        if running.is_empty() {
            return Vec::new();
        }
        let max_size = self.limits.max_size;
        let is_due = move |log: &RunningLog| match files::size(&log.path) {
            Ok(Some(size)) => size >= max_size,
            // Its rotation finds out more.
            Ok(None) | Err(_) => true,
        };
        let due = file_work(move || running.into_iter().filter(is_due).collect()).await;
        due.unwrap_or_else(|error| {
            tracing::error!(error = error_chain(&error), "cannot look at the sizes of logs");
            Vec::new()
        })
    }

    /// The logs of running containers. Others do not grow.
    fn running(&self) -> Vec<RunningLog> {
        let cache = &self.deps.observed;
        let observed = cache.pods().into_iter().filter_map(|pod| cache.get(&pod).ok());
        let logs = observed.flat_map(|status| {
            let running = status.containers.iter().filter(|container| {
                container.state == ContainerState::Running && !container.log_path.is_empty()
            });
            let log = |container: &ContainerStatus| RunningLog {
                pod: status.pod.clone(),
                container: container.name.to_string(),
                id: container.id.clone(),
                path: PathBuf::from(&container.log_path),
            };
            running.map(log).collect::<Vec<_>>()
        });
        logs.collect()
    }

    fn report(&mut self, outcome: &Outcome) {
        let log = &outcome.log;
        if outcome.is_rotated {
            self.metrics.rotated.inc();
        }
        let Some(error) = &outcome.failure else {
            self.failing.remove(&log.id);
            return;
        };
        self.metrics.failed.inc();
        let failures = self.failing.entry(log.id.clone()).or_default();
        *failures = failures.saturating_add(1);
        let (pod, container, error) = (&log.pod, &log.container, error_chain(error));
        if *failures == REPORTED {
            tracing::warn!(%pod, container, error, "cannot rotate the log of a container");
            let message = format!("Failed to rotate the log of container {container:?}: {error}");
            (self.deps.events)(pod, None, &PodEvent::warning(FAILED, message));
        } else {
            tracing::debug!(%pod, container, error, "cannot rotate the log of a container");
        }
    }
}

impl Rotator {
    async fn rotate(self, log: RunningLog) -> Outcome {
        match self.try_rotate(&log).await {
            Ok((is_rotated, failure)) => Outcome { log, is_rotated, failure },
            Err(error) => Outcome { log, is_rotated: false, failure: Some(error) },
        }
    }

    /// Rotates a log that is still too large. Whether it was, and why an older file could not be compressed.
    async fn try_rotate(&self, log: &RunningLog) -> Result<(bool, Option<RotationError>), RotationError> {
        let mut size = self.files(log, files::size).await?;
        if size.is_none() {
            // A kubelet was killed after the rename, or somebody removed it.
            self.reopen(log).await?;
            size = self.files(log, files::size).await?;
        }
        let max_size = self.limits.max_size;
        if size.is_none_or(|size| size < max_size) {
            return Ok((false, None));
        }
        let now = self.clock.now().to_zoned(TimeZone::system()).datetime();
        let max_files = self.limits.max_files;
        let (rotated, failure) = self.files(log, move |path| files::prepare(path, max_files, now)).await?;
        if self.cancel.is_cancelled() {
            return Ok((false, failure));
        }
        let to = rotated.clone();
        self.files(log, move |path| files::rename(path, &to)).await?;
        if let Err(error) = self.reopen(log).await {
            // The runtime continues to write to the renamed file.
            if self.files(log, move |path| files::undo(path, &rotated)).await? {
                return Err(error);
            }
        }
        Ok((true, failure))
    }

    async fn reopen(&self, log: &RunningLog) -> Result<(), RotationError> {
        let reopened = self.runtime.reopen_log(&log.id).await;
        reopened.map_err(|source| RotationError::Reopen { path: log.path.clone(), source })
    }

    /// Does work on the files of a log.
    async fn files<T: Send + 'static>(
        &self,
        log: &RunningLog,
        work: impl FnOnce(&Path) -> Result<T, RotationError> + Send + 'static,
    ) -> Result<T, RotationError> {
        let path = log.path.clone();
        let done = file_work(move || work(&path)).await;
        done.map_err(|source| RotationError::Work { path: log.path.clone(), source })?
    }
}
