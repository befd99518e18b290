//! Starts one container: image, files, configuration, then the runtime's create and start, each through the gate. Does not
//! decide when a container starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{ContainerId, PodEvent, error_chain, reasons};
use hostlet_host::file_work;
use hostlet_image::ImageError;
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::Activity;
use hostlet_pod::resources::Enforced;
use hostlet_pod::validation::unsupported_ephemeral;
use hostlet_pod::{AdmittedPod, ContainerKind};
use hostlet_runtime::cri::wire::ImageSpec;
use hostlet_runtime::cri::{ContainerState, ContainerStatus, CriError, ImageInfo};
use hostlet_volume::PodVolumes;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::context::WorkerContext;
use super::hooks::HookTarget;
use super::image_needs::{ImageNeed, mounts};
use super::image_volumes::{ImageVolumeError, ImageVolumes};
use super::plan::Start;
use super::pod_pulls::{PodPuller, PullEnd};
use super::sandbox::{PodSandbox, with_memory_limits};
use super::stopping::{ContainerStop, Stopping};
use super::{Retry, WorkerState};
use crate::gate::Permit;

/// Why a container could not be started, and when to try again.
pub(super) struct NotStarted {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) retry: Retry,
}

impl NotStarted {
    fn new(reason: &str, message: impl Into<String>, retry: Retry) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), retry }
    }
}

/// What a step prepared for the containers that it starts.
pub(super) struct PreparedPod {
    pub(super) sandbox: PodSandbox,
    pub(super) volumes: PodVolumes,
    pub(super) images: ImageVolumes,
}

/// Starts one container of a pod in the pod's sandbox.
pub(super) struct ContainerStarter<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) pod: &'a Arc<AdmittedPod>,
    pub(super) container: &'a Container,
    pub(super) observed: &'a PodStatus,
    pub(super) prepared: &'a mut PreparedPod,
    pub(super) state: &'a mut WorkerState,
}

impl ContainerStarter<'_> {
    /// Creates the container, unless `start` adopts one, and starts it.
    pub(super) async fn start(&mut self, start: &Start) -> Result<(), NotStarted> {
        self.check_fields(start.container.kind)?;
        let previous = self.observed.container(&self.container.name);
        let (id, attempt) = match &start.adopt {
            Some(id) => (id.clone(), previous.map_or(0, |c| c.attempt)),
            None => {
                let replaced = previous.filter(|p| Some(&p.id) == start.replace.as_ref());
                let attempt = match (previous, replaced) {
                    (_, Some(replaced)) => replaced.attempt,
                    (Some(previous), None) => previous.attempt.saturating_add(1),
                    (None, None) => self.attempt_from_logs().await,
                };
                (self.create(attempt, replaced).await?, attempt)
            }
        };
        // Counted whether or not it succeeds: what cannot be started at all must back off too.
        if let Some(previous) = previous {
            self.count_restart(previous);
        }
        let next = Activity::StartingContainer { container: self.container.name.clone() };
        let permit = self.enter_gate(next).await;
        self.state.starts.request(&id, &*self.context.runtime.service, self.observed).await;
        let (runtime, logs) = (self.context.runtime.service.clone(), self.context.host.logs.clone());
        let (owner, name) = (self.pod.reference.clone(), self.container.name.clone());
        let started = id.clone();
        if self.post_start().is_some() {
            // Before it runs: it counts as started once its hook has succeeded.
            self.state.reporter.facts.post_starting.insert(id.clone());
            self.state.reporter.publish_facts();
        }
        let call = async move {
            permit.during(runtime.start_container(&id)).await?;
            // Part of the start: nothing else links the log of a running container.
            Ok::<_, CriError>(file_work(move || logs.link_log(&owner, &name, attempt, &id)).await)
        };
        let linked = match self.state.starts.in_flight.keep(call).await {
            Ok(linked) => linked,
            Err(error) => {
                self.state.starts.failed(&error);
                self.state.reporter.facts.post_starting.remove(&started);
                let message = with_memory_limits(self.pod, &error);
                return Err(self.failed(reasons::RUN_CONTAINER_ERROR, message, Retry::after(&error)));
            }
        };
        self.state.starts.succeeded();
        self.announce(reasons::STARTED, "Container started");
        self.state.reporter.recovered(&self.container.name);
        if let Ok(Err(error)) = linked {
            let (pod, container) = (&self.pod.reference, &self.container.name);
            tracing::warn!(%pod, uid = %pod.uid, container, error = error_chain(&error), "cannot link the container's log");
        }
        let hooked = match self.post_start() {
            Some(handler) => self.run_post_start(&started, handler).await,
            None => Ok(()),
        };
        self.state.reporter.facts.post_starting.remove(&started);
        hooked
    }

    fn post_start(&self) -> Option<&LifecycleHandler> {
        self.container.lifecycle.as_ref()?.post_start.as_ref()
    }

    /// Runs the hook of a container that was started. If it fails, the container is stopped.
    async fn run_post_start(&self, id: &ContainerId, handler: &LifecycleHandler) -> Result<(), NotStarted> {
        let name = self.container.name.as_str();
        self.state.reporter.begin(Activity::PostStartHook { container: name.to_owned() });
        let (context, reporter) = (self.context, &self.state.reporter);
        let (pod, ips) = (&self.pod.reference, &*self.prepared.sandbox.ips);
        let target = HookTarget { context, reporter, container: self.container, id, ips };
        let Err(error) = target.run(handler).await else { return Ok(()) };
        let message = target.message(handler, &error);
        tracing::warn!(%pod, uid = %pod.uid, container = name, error = message, "the postStart hook failed");
        // Without the error, which may contain secrets.
        let event = PodEvent::warning("FailedPostStartHook", "PostStartHook failed");
        self.state.reporter.announce(Some(name), &event);
        let stopping = Stopping { context, pod: Some(self.pod), reporter, ips };
        let grace_seconds = self.pod.grace_seconds.unwrap_or(0);
        let stop = ContainerStop { name, id, message: "FailedPostStartHook", grace_seconds };
        if let Err(error) = stopping.container(stop).await {
            tracing::warn!(%pod, uid = %pod.uid, container = name, %error, "cannot stop the container whose postStart hook failed");
        }
        Err(NotStarted::new(reasons::POST_START_HOOK_ERROR, message, Retry::BackOff))
    }

    /// Counts the restart after this instance, unless it was stopped for another reason than a failure of its own.
    fn count_restart(&mut self, previous: &ContainerStatus) {
        let (context, uid, now) = (self.context, &self.pod.reference.uid, self.state.reporter.steady());
        let probe_failed = context.probes.of(uid).failed(&previous.id).is_some();
        match previous.state {
            _ if context.restarts.is_requested(uid, &previous.id) => {
                self.state.starts.replaced(previous, now)
            }
            // Stopped because of a probe just now: upstream counts the instance before it.
            ContainerState::Running if probe_failed => {
                let mut instances = self.observed.containers.iter().filter(|c| c.name == previous.name);
                let before = instances.find(|c| c.state == ContainerState::Exited && c.hash == previous.hash);
                match before {
                    Some(before) => self.state.starts.restarted_after(before, previous, now),
                    None => self.state.starts.replaced(previous, now),
                }
            }
            ContainerState::Running | ContainerState::Unknown => self.state.starts.replaced(previous, now),
            ContainerState::Exited => self.state.starts.restarted(previous, now),
            // It never ran, and its attempt is that of the next one.
            ContainerState::Created => {}
        }
    }

    /// Reports a stop signal that has no effect.
    async fn check_stop_signal(&mut self) {
        let lifecycle = self.container.lifecycle.as_ref();
        let Some(signal) = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref()) else { return };
        let why = if self.context.host.settings.stop_signals {
            // If the runtime does not answer, the container is not created either.
            let version = self.context.runtime.service.version().await.ok();
            version.and_then(|version| version.ignores_stop_signals())
        } else {
            Some("set the feature gate ContainerStopSignals".to_owned())
        };
        if let Some(why) = why {
            let text = format!("The stop signal {signal} has no effect: {why}");
            self.state
                .reporter
                .event(Some(&self.container.name), PodEvent::warning("StopSignalIgnored", text));
        }
    }

    /// Creates the container of this attempt, in place of `replaced`, which never ran.
    async fn create(
        &mut self,
        attempt: u32,
        replaced: Option<&ContainerStatus>,
    ) -> Result<ContainerId, NotStarted> {
        let mounted_images = self.mounted_images().await?;
        let metrics = &self.context.metrics.image_volumes;
        metrics.requested(mounted_images.len());
        let image = self.image().await?;
        self.check_stop_signal().await;
        let config = self.config(attempt, &image, &mounted_images).await?;
        let logs = self.context.host.logs.clone();
        let (owner, name) = (self.pod.reference.clone(), self.container.name.clone());
        let made = file_work(move || logs.create_container_dir(&owner, &name)).await;
        if let Ok(Err(error)) = made {
            return Err(self.failed(reasons::CREATE_CONTAINER_ERROR, error_chain(&error), Retry::BackOff));
        }
        let next = Activity::CreatingContainer { container: self.container.name.clone() };
        let permit = self.enter_gate(next).await;
        if let Some(replaced) = replaced {
            self.remove_replaced(replaced).await?;
        }
        // Also if the response is lost.
        self.state.actuated.set_container(&self.container.name, Enforced::of(self.pod, self.container));
        let (runtime, sandbox) = (self.context.runtime.service.clone(), self.prepared.sandbox.id.clone());
        let within = self.prepared.sandbox.config.clone();
        let call = async move { runtime.create_container(&sandbox, config, within).await };
        let created = self.state.starts.in_flight.keep(permit.during(call)).await;
        let mounts = self.container.volume_mounts.iter().flatten();
        metrics.created(mounts.filter(|mount| mounted_images.contains_key(&mount.name)).count(), &created);
        match created {
            Ok(id) => {
                self.announce("Created", "Container created");
                Ok(id)
            }
            Err(error) => {
                self.state.starts.failed(&error);
                let message = with_memory_limits(self.pod, &error);
                Err(self.failed(reasons::CREATE_CONTAINER_ERROR, message, Retry::after(&error)))
            }
        }
    }

    /// Waits at the start gate, then shows `next` as the pod's activity.
    async fn enter_gate(&mut self, next: Activity) -> Permit {
        self.state.reporter.begin(Activity::QueuedStart);
        let permit = self.context.runtime.starts.enter(self.state.starts.priority(self.pod)).await;
        self.state.reporter.begin(next);
        permit
    }

    /// Rejects an ephemeral container with unsupported fields: its pod was admitted before it was added.
    fn check_fields(&mut self, kind: ContainerKind) -> Result<(), NotStarted> {
        let unsupported = match kind {
            ContainerKind::Ephemeral => unsupported_ephemeral(self.container),
            ContainerKind::Init | ContainerKind::Sidecar | ContainerKind::Main => return Ok(()),
        };
        if unsupported.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = unsupported.iter().map(ToString::to_string).collect();
        Err(self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, texts.join("; "), Retry::BackOff))
    }

    /// Removes a container that never ran, whose name and log the new one takes. Its log is removed first: if the daemon dies
    /// in between, no log counts as an attempt.
    async fn remove_replaced(&mut self, replaced: &ContainerStatus) -> Result<(), NotStarted> {
        let pod = &self.pod.reference;
        let logs = self.context.host.logs.clone();
        let (owner, id, attempt) = (pod.clone(), replaced.id.clone(), replaced.attempt);
        let name = replaced.name.clone();
        let removed = file_work(move || logs.remove_container_logs(&owner, &name, attempt, &id)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot remove a container's log");
        }
        let removed = self.context.runtime.service.remove_container(&replaced.id).await;
        removed.map_err(|error| {
            self.failed(reasons::CREATE_CONTAINER_ERROR, error.to_string(), Retry::after(&error))
        })
    }

    /// Waits for the images of the image volumes that it mounts. Returns them by volume. Upstream reports each that is not available,
    /// and the last as the reason.
    async fn mounted_images(&mut self) -> Result<BTreeMap<String, ImageSpec>, NotStarted> {
        let (pod, container) = (self.pod, self.container);
        for (volume, source) in pod.image_volumes().filter(|(volume, _)| mounts(container, volume)) {
            if self.prepared.images.lack(volume) {
                let image = self.pull(&ImageNeed::of_volume(volume, source)).await;
                self.prepared.images.pulled(volume, image);
            }
        }
        let (images, problems) = self.prepared.images.mounted_by(container, pod);
        for problem in &problems {
            self.report_failure(&problem.event());
        }
        let until = problems.iter().filter_map(ImageVolumeError::back_off).min();
        if let Some(at) = until.and_then(|remaining| self.state.reporter.now().checked_add(remaining).ok()) {
            self.state.reporter.retries_at(&self.container.name, at);
        }
        match problems.last() {
            Some(last) => Err(NotStarted::new(last.reason(), last.to_string(), last.retry())),
            None => Ok(images),
        }
    }

    /// Waits for the image that it runs.
    async fn image(&mut self) -> Result<ImageInfo, NotStarted> {
        let container = self.container;
        self.pull(&ImageNeed::of_container(container)).await.map_err(|error| {
            if let ImageError::BackOff { remaining, .. } = &error
                && let Ok(at) = self.state.reporter.now().checked_add(*remaining)
            {
                self.state.reporter.retries_at(&container.name, at);
            }
            self.report_failure(error.reason());
            NotStarted::new(error.reason(), error.to_string(), Retry::after_image(&error))
        })
    }

    /// Waits for an image that it needs, whose pull may have begun long before.
    async fn pull(&mut self, need: &ImageNeed) -> Result<ImageInfo, ImageError> {
        let container = &self.container.name;
        let puller = PodPuller {
            pulls: &self.state.pulls,
            images: &self.context.runtime.images,
            events: self.state.reporter.events(),
            secrets: &self.state.pull_secrets,
            sandbox: &self.prepared.sandbox.config,
        };
        let pull = puller.pull(need);
        if pull.peek().is_none() {
            self.state.reporter.facts.pulling.insert(container.clone(), need.pull.clone());
            self.state.reporter.publish_facts();
            self.state.reporter.begin(Activity::PullingImage(need.pull.clone()));
        }
        let PullEnd { image, found } = pull.await;
        // Shown with the next facts.
        self.state.reporter.facts.pulling.remove(container);
        self.state.pulls.used(need);
        if let Some(event) = found {
            self.state.reporter.event(need.container(), event);
        }
        image
    }

    /// The next attempt of a container that the runtime does not know. Logs that cannot be listed count as none: the runtime
    /// rejects a name that is in use.
    async fn attempt_from_logs(&self) -> u32 {
        let (pod, container) = (&self.pod.reference, &self.container.name);
        let logs = self.context.host.logs.clone();
        let (owner, name) = (pod.clone(), container.clone());
        match file_work(move || logs.next_attempt(&owner, &name)).await {
            Ok(Ok(attempt)) => attempt,
            Ok(Err(error)) => {
                tracing::warn!(%pod, uid = %pod.uid, container, error = error_chain(&error), "cannot count the container's logs");
                0
            }
            Err(_) => 0,
        }
    }

    fn announce(&self, reason: &'static str, message: &str) {
        self.state.reporter.announce(Some(&self.container.name), &PodEvent::normal(reason, message));
    }

    pub(super) fn failed(&mut self, reason: &str, message: String, retry: Retry) -> NotStarted {
        self.report_failure(&message);
        NotStarted::new(reason, message, retry)
    }

    fn report_failure(&mut self, error: &str) {
        let event = PodEvent::warning(reasons::FAILED, format!("Error: {error}"));
        self.state.reporter.event(Some(&self.container.name), event);
    }
}
