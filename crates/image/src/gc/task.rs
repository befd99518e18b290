//! The task: collects images every five minutes, and answers requests in between. Reports failures as upstream does.

use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_base::node::NodeEvent;
use hostlet_base::settings::ImageGcPolicy;
use hostlet_telemetry::Metrics;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::collector::{Collector, ImageGcDeps};
use super::error::GcError;
use super::handle::{Door, ImageGc};
use super::request::Request;

/// How often images are collected, as upstream.
const PERIOD: Duration = Duration::from_secs(300);

/// How many requests wait: an eviction and a few users at most.
const MOST_REQUESTS: usize = 4;

/// Events of the node (`kubelet/events/event.go`).
const IMAGE_GC_FAILED: &str = "ImageGCFailed";
const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";

/// The task, which the app runs.
pub struct ImageGcTask {
    collector: Collector,
    door: watch::Sender<Door>,
    /// How many passes have failed in a row.
    failed: u32,
    /// Whether it was logged that too little could be freed.
    is_shortage_logged: bool,
}

impl ImageGcTask {
    /// Removes nothing before it runs. The metrics are registered in `metrics`.
    pub fn new(policy: ImageGcPolicy, deps: ImageGcDeps, metrics: &Metrics) -> (Self, ImageGc) {
        let (door, handle) = watch::channel(None);
        let collector = Collector::new(policy, deps, metrics);
        (Self { collector, door, failed: 0, is_shortage_logged: false }, ImageGc::new(handle))
    }

    /// Runs until cancelled. A removal under way is then left to the runtime.
    pub async fn run(mut self, cancel: CancellationToken) {
        let (sender, requests) = mpsc::channel(MOST_REQUESTS);
        self.door.send_replace(Some(sender));
        if !self.collector.policy.is_on() {
            tracing::info!("unused images are only removed on request: imageGCHighThresholdPercent is 100");
        }
        tokio::select! {
            biased;
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: what a dropped pass has not recorded, the next one of the next daemon sees.
            () = self.work(requests) => {}
        }
        self.door.send_replace(None);
    }

    async fn work(&mut self, mut requests: mpsc::Receiver<Request>) {
        let mut archives = self.collector.deps.archives.clone();
        let mut ticks: Interval = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_waiting = archives.borrow_and_update().is_none();
        loop {
            tokio::select! {
                // Cancel-safe: a request is taken only when it is returned.
                Some(request) = requests.recv() => self.answer(request).await,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = archives.changed(), if is_waiting => {
                    is_waiting = archives.borrow_and_update().is_none();
                    if !is_waiting {
                        ticks.reset_immediately();
                    }
                }
                // Cancel-safe: a tick is taken only when it is returned.
                _ = ticks.tick() => {
                    let collected = self.collector.collect().await;
                    self.report(collected);
                }
            }
        }
    }

    /// Answers a request. Nobody may wait for the answer any longer.
    async fn answer(&mut self, request: Request) {
        match request {
            Request::DeleteUnused(answer) => drop(answer.send(self.collector.delete_unused().await)),
            Request::Unused(answer) => drop(answer.send(self.collector.unused().await)),
        }
    }

    /// Reports how a pass ended. As upstream, a single failure is no event of its own: the runtime may have just been restarted.
    fn report(&mut self, collected: Result<(), GcError>) {
        let Err(error) = collected else {
            if self.failed > 1 {
                tracing::info!("images are collected again");
            }
            (self.failed, self.is_shortage_logged) = (0, false);
            return;
        };
        self.failed = self.failed.saturating_add(1);
        let warn = |reason: &'static str, message: String| {
            (self.collector.deps.events)(NodeEvent::warning(reason, message));
        };
        let message = error_chain(&error);
        match &error {
            GcError::Insufficient { .. } => {
                warn(FREE_DISK_SPACE_FAILED, message.clone());
                // Its numbers change with every pass, and the event has them.
                if !self.is_shortage_logged {
                    tracing::warn!("{message}");
                }
                self.is_shortage_logged = true;
            }
            GcError::NoCapacity { .. } => warn(INVALID_DISK_CAPACITY, message.clone()),
            GcError::NotRunning
            | GcError::ArchivesUnknown
            | GcError::Images(_)
            | GcError::Containers(_)
            | GcError::Mounts { .. }
            | GcError::Settings(_)
            | GcError::Filesystems(_)
            | GcError::NoFilesystem
            | GcError::Measure(_)
            | GcError::Panicked(_)
            | GcError::Removals { .. } => {}
        }
        match self.failed {
            1 => tracing::debug!(message, "images could not be collected; trying again in five minutes"),
            2 => tracing::warn!(message, "images could not be collected twice in a row; going on"),
            _ => tracing::debug!(message, "images could still not be collected"),
        }
        if self.failed > 1 {
            warn(IMAGE_GC_FAILED, message);
        }
    }
}
