//! Stops a pod's containers within the grace period, with their preStop hooks, then its sandboxes. Kills never pass the start gate.

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures::future::join_all;
use hostlet_base::{ContainerId, PodEvent, SandboxId, error_chain};
use hostlet_host::{CNI_RESULTS, file_work, is_broken_result_error, remove_broken_results};
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::Activity;
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::{ContainerStatus, CriError};
use k8s_openapi::api::core::v1::{Container, Lifecycle, LifecycleHandler};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::context::WorkerContext;
use super::hooks::HookTarget;
use super::pre_stops::PreStops;
use super::reporter::Reporter;
use super::stop_order::{GraceBudget, MIN_STOP_SECONDS, stop_order};

/// Stops the containers and sandboxes of one pod.
#[derive(Clone, Copy)]
pub(super) struct Stopping<'a> {
    pub(super) context: &'a WorkerContext,
    /// None for a pod known only from the runtime.
    pub(super) pod: Option<&'a AdmittedPod>,
    pub(super) reporter: &'a Reporter,
    /// Addresses of the pod, for hooks.
    pub(super) ips: &'a [IpAddr],
}

/// One container to stop.
#[derive(Clone, Copy)]
pub(super) struct ContainerStop<'a> {
    pub(super) name: &'a str,
    pub(super) id: &'a ContainerId,
    /// For the `Killing` event.
    pub(super) message: &'a str,
    /// With 0, no hook runs; the runtime always gets at least two seconds.
    pub(super) grace_seconds: i64,
}

impl<'a> Stopping<'a> {
    /// Stops all running containers in their order, within the grace period that they share. All preStop hooks begin at once, as
    /// upstream, even those of containers that are stopped later. Stops as many as possible, then returns the first error. The
    /// activity is shown at once, not only when the future is polled.
    pub(super) fn containers(
        self,
        observed: &'a PodStatus,
        grace_seconds: i64,
    ) -> impl Future<Output = Result<(), CriError>> + use<'a> {
        let groups = stop_order(self.pod, observed);
        if !groups.is_empty() {
            let grace_seconds = grace_seconds.max(MIN_STOP_SECONDS);
            self.reporter.begin(Activity::StoppingContainers { grace_seconds });
        }
        async move {
            let budget = GraceBudget::starting(grace_seconds, Instant::now());
            // Cancelled when all of a group have terminated.
            let ended: Vec<CancellationToken> = groups.iter().map(|_| CancellationToken::new()).collect();
            let stops = groups.into_iter().enumerate().map(async |(index, group)| {
                let (before, own) = (ended.get(..index).unwrap_or_default(), ended.get(index));
                let stops = group.into_iter().map(|container| self.in_turn(container, budget, before));
                let stopped: Result<(), CriError> = join_all(stops).await.into_iter().collect();
                // After a failure, the later groups wait until the grace period is over.
                if let (Ok(()), Some(own)) = (&stopped, own) {
                    own.cancel();
                }
                stopped
            });
            join_all(stops).await.into_iter().collect()
        }
    }

    /// Stops one container once those `before` it have terminated, or the grace period is over.
    async fn in_turn(
        self,
        container: &ContainerStatus,
        budget: GraceBudget,
        before: &[CancellationToken],
    ) -> Result<(), CriError> {
        let message = format!("Stopping container {}", container.name);
        self.reporter.killing(&container.name, &container.id, &message);
        let hook = self.hook(&container.name, Some(container));
        let stop = |spent| async move {
            for earlier in before {
                let patience = seconds(budget.unfloored(spent, Instant::now()));
                // At the end of the grace period, it is stopped whatever the others do.
                let _ = timeout(patience, earlier.cancelled()).await;
            }
            let grace = budget.left(spent, Instant::now());
            self.context.runtime.service.stop_container(&container.id, grace).await
        };
        self.after_pre_stop(hook, &container.id, budget.seconds, stop).await
    }

    /// Stops one container, after its preStop hook.
    pub(super) async fn container(self, stop: ContainerStop<'_>) -> Result<(), CriError> {
        self.reporter.killing(stop.name, stop.id, stop.message);
        let ContainerStop { name, id, message: _, grace_seconds } = stop;
        let stop = |spent| async move {
            let grace = grace_seconds.saturating_sub(spent).max(MIN_STOP_SECONDS);
            self.context.runtime.service.stop_container(id, grace).await
        };
        self.after_pre_stop(self.hook(name, None), id, grace_seconds, stop).await
    }

    /// A container that has a preStop hook, and its hook: from its spec, or for a pod known only from the runtime from what was
    /// stored with the container.
    fn hook(
        self,
        name: &str,
        observed: Option<&ContainerStatus>,
    ) -> Option<(Cow<'a, Container>, LifecycleHandler)> {
        let Some(pod) = self.pod else {
            let stored = observed?.pre_stop.as_ref()?;
            let pre_stop: LifecycleHandler = serde_json::from_str(&stored.handler).ok()?;
            let lifecycle = Lifecycle { pre_stop: Some(pre_stop.clone()), ..Lifecycle::default() };
            let container = Container {
                name: name.to_owned(),
                lifecycle: Some(lifecycle),
                ports: serde_json::from_str(&stored.ports).ok(),
                ..Container::default()
            };
            return Some((Cow::Owned(container), pre_stop));
        };
        let container = pod.all_containers().find(|container| container.spec.name == name)?.spec;
        let handler = container.lifecycle.as_ref()?.pre_stop.clone()?;
        Some((Cow::Borrowed(container), handler))
    }

    /// Runs a preStop hook for at most the grace period, then `stop` with the seconds that the hook took. A hook that is out of time
    /// goes on until its container has been stopped, as upstream: both end together. One that was cut short before is not run again;
    /// only a pause goes on.
    async fn after_pre_stop<S: Future<Output = Result<(), CriError>>>(
        self,
        hook: Option<(Cow<'_, Container>, LifecycleHandler)>,
        id: &ContainerId,
        grace_seconds: i64,
        stop: impl FnOnce(i64) -> S,
    ) -> Result<(), CriError> {
        let Some((container, hook)) = hook.filter(|_| grace_seconds > 0) else { return stop(0).await };
        let (pod, name) = (self.reporter.pod(), container.name.as_str());
        let uid = &pod.uid;
        let began = Instant::now();
        let record = PreStops { store: &self.context.store, pod: uid };
        let uptime = self.reporter.uptime();
        if let Some(before) = record.begin(id, self.reporter.now(), uptime).await {
            let spent = whole_seconds(before).min(grace_seconds);
            if let Some(pause) = &hook.sleep {
                sleep(seconds(pause.seconds.min(grace_seconds).saturating_sub(spent))).await;
            }
            return stop(spent.saturating_add(whole_seconds(began.elapsed()))).await;
        }
        self.reporter.mark(TimelineStep::PreStop, name.to_owned());
        let mut running = pin!(self.run_pre_stop(&container, id, &hook));
        let is_over = timeout(seconds(grace_seconds), &mut running).await.is_ok();
        let stopping = stop(whole_seconds(began.elapsed()));
        if is_over {
            return stopping.await;
        }
        tracing::info!(%pod, %uid, container = name, grace_seconds, "the preStop hook takes longer than the grace period");
        let mut stopping = pin!(stopping);
        tokio::select! {
            biased;
            // Cancel-safe, both: the futures live outside.
            () = &mut running => stopping.await,
            stopped = &mut stopping => {
                if stopped.is_ok() && hook.exec.is_some() {
                    self.announce_failed_pre_stop(name);
                }
                stopped
            }
        }
    }

    /// Runs a preStop hook to its end, and reports its failure.
    async fn run_pre_stop(self, container: &Container, id: &ContainerId, hook: &LifecycleHandler) {
        let Self { context, reporter, ips, .. } = self;
        let target = HookTarget { context, reporter, container, id, ips };
        if let Err(error) = target.run(hook).await {
            let (pod, error) = (reporter.pod(), target.message(hook, &error));
            tracing::warn!(%pod, uid = %pod.uid, container = container.name, error, "the preStop hook failed");
            self.announce_failed_pre_stop(&container.name);
        }
    }

    /// Without the error, which may contain secrets.
    fn announce_failed_pre_stop(self, name: &str) {
        let event = PodEvent::warning("FailedPreStopHook", "PreStopHook failed");
        self.reporter.announce(Some(name), &event);
    }

    /// Stops all sandboxes at once, also those that are not ready: the runtime then releases a network it may still hold.
    pub(super) async fn sandboxes(self, observed: &PodStatus) -> Result<(), CriError> {
        if !observed.sandboxes.is_empty() {
            self.reporter.begin(Activity::StoppingSandbox);
        }
        join_all(observed.sandboxes.iter().map(|s| self.sandbox(&s.id))).await.into_iter().collect()
    }

    /// Stops one sandbox, even if the runtime was killed while it wrote the sandbox's CNI result.
    async fn sandbox(self, id: &SandboxId) -> Result<(), CriError> {
        let runtime = &self.context.runtime.service;
        let stopped = runtime.stop_sandbox(id).await;
        let Err(error) = &stopped else { return stopped };
        if !is_broken_result_error(&error.to_string()) {
            return stopped;
        }
        let sandbox = id.clone();
        let removed =
            file_work(move || remove_broken_results(Path::new(CNI_RESULTS), sandbox.as_str())).await;
        let pod = self.reporter.pod();
        let uid = &pod.uid;
        match removed {
            Ok(Ok(removed)) if !removed.is_empty() => {
                let files: Vec<_> = removed.iter().map(|file| file.display().to_string()).collect();
                let files = files.join(", ");
                tracing::warn!(%pod, %uid, files, "removed damaged network results of the pod, left by a killed container runtime");
                runtime.stop_sandbox(id).await
            }
            Ok(Ok(_)) | Err(_) => stopped,
            Ok(Err(problem)) => {
                let error = error_chain(&problem);
                tracing::warn!(%pod, %uid, error, "cannot look for damaged network results in {CNI_RESULTS}");
                stopped
            }
        }
    }
}

/// A duration of this many seconds; none if negative.
fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The whole seconds of a duration.
fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
