//! Starts one container: image, files, configuration, then the runtime's create and start, each through the gate. Does not
//! decide when a container starts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::actuated::ActuatedRecord;
use super::context::WorkerContext;
use super::env_files::file_values;
use super::handler::handler_of;
use super::hooks::HookTarget;
use super::image_needs::{ImageNeed, mounts};
use super::image_volumes::{ImageVolumeError, ImageVolumes};
use super::plan::Start;
use super::pod_pulls::{PodPuller, PodPulls, PullEnd};
use super::pull_secrets::PodPullSecrets;
use super::reporter::Reporter;
use super::sandbox::{PodSandbox, with_memory_limits};
use super::start_record::StartRecord;
use super::stopping::{ContainerStop, Stopping};
use super::{EnvNeeds, Retry};
use crate::cri_config::{
    ConfigError, EnvSources, FilesError, MountSources, MountSupport, container_config, container_mounts,
    join_groups, share_processes, share_users, sub_paths,
};
use crate::gate::Permit;
use hostlet_base::{ContainerId, PodEvent, error_chain, reasons};
use hostlet_host::file_work;
use hostlet_image::ImageError;
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::Activity;
use hostlet_pod::resources::Enforced;
use hostlet_pod::validation::unsupported_ephemeral;
use hostlet_pod::{AdmittedPod, ContainerKind};
use hostlet_runtime::cri::wire::{ContainerConfig, ImageSpec};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, CriError, ImageInfo};
use hostlet_volume::{PodVolumes, SubPath};

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

/// Starts one container of a pod in the pod's sandbox.
pub(super) struct ContainerStarter<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) pod: &'a Arc<AdmittedPod>,
    pub(super) container: &'a Container,
    pub(super) observed: &'a PodStatus,
    pub(super) sandbox: &'a PodSandbox,
    pub(super) volumes: &'a PodVolumes,
    pub(super) images: &'a mut ImageVolumes,
    pub(super) reporter: &'a mut Reporter,
    pub(super) starts: &'a mut StartRecord,
    pub(super) actuated: &'a mut ActuatedRecord,
    pub(super) env: &'a mut EnvNeeds,
    pub(super) pull_secrets: &'a PodPullSecrets,
    pub(super) pulls: &'a PodPulls,
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
        self.starts.request(&id, &*self.context.runtime.service, self.observed).await;
        let (runtime, logs) = (self.context.runtime.service.clone(), self.context.host.logs.clone());
        let (owner, name) = (self.pod.reference.clone(), self.container.name.clone());
        let started = id.clone();
        if self.post_start().is_some() {
            // Before it runs: it counts as started once its hook has succeeded.
            self.reporter.facts.post_starting.insert(id.clone());
            self.reporter.publish_facts();
        }
        let call = async move {
            permit.during(runtime.start_container(&id)).await?;
            // Part of the start: nothing else links the log of a running container.
            Ok::<_, CriError>(file_work(move || logs.link_log(&owner, &name, attempt, &id)).await)
        };
        let linked = match self.starts.in_flight.keep(call).await {
            Ok(linked) => linked,
            Err(error) => {
                self.starts.failed(&error);
                self.reporter.facts.post_starting.remove(&started);
                let message = with_memory_limits(self.pod, &error);
                return Err(self.failed(reasons::RUN_CONTAINER_ERROR, message, Retry::after(&error)));
            }
        };
        self.starts.succeeded();
        self.announce(reasons::STARTED, "Container started");
        self.reporter.recovered(&self.container.name);
        if let Ok(Err(error)) = linked {
            let (pod, container) = (&self.pod.reference, &self.container.name);
            tracing::warn!(%pod, uid = %pod.uid, container, error = error_chain(&error), "cannot link the container's log");
        }
        let hooked = match self.post_start() {
            Some(handler) => self.run_post_start(&started, handler).await,
            None => Ok(()),
        };
        self.reporter.facts.post_starting.remove(&started);
        hooked
    }

    fn post_start(&self) -> Option<&LifecycleHandler> {
        self.container.lifecycle.as_ref()?.post_start.as_ref()
    }

    /// Runs the hook of a container that was started. If it fails, the container is stopped.
    async fn run_post_start(&self, id: &ContainerId, handler: &LifecycleHandler) -> Result<(), NotStarted> {
        let name = self.container.name.as_str();
        self.reporter.begin(Activity::PostStartHook { container: name.to_owned() });
        let (context, reporter) = (self.context, &*self.reporter);
        let (pod, ips) = (&self.pod.reference, &*self.sandbox.ips);
        let target = HookTarget { context, reporter, container: self.container, id, ips };
        let Err(error) = target.run(handler).await else { return Ok(()) };
        let message = target.message(handler, &error);
        tracing::warn!(%pod, uid = %pod.uid, container = name, error = message, "the postStart hook failed");
        // Without the error, which may contain secrets.
        let event = PodEvent::warning("FailedPostStartHook", "PostStartHook failed");
        self.reporter.announce(Some(name), &event);
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
        let (context, uid, now) = (self.context, &self.pod.reference.uid, self.reporter.now());
        let probe_failed = context.probes.of(uid).failed(&previous.id).is_some();
        match previous.state {
            _ if context.restarts.is_requested(uid, &previous.id) => self.starts.replaced(previous, now),
            // Stopped because of a probe just now: upstream counts the instance before it.
            ContainerState::Running if probe_failed => {
                let mut instances = self.observed.containers.iter().filter(|c| c.name == previous.name);
                let before = instances.find(|c| c.state == ContainerState::Exited && c.hash == previous.hash);
                match before {
                    Some(before) => self.starts.restarted_after(before, previous, now),
                    None => self.starts.replaced(previous, now),
                }
            }
            ContainerState::Running | ContainerState::Unknown => self.starts.replaced(previous, now),
            ContainerState::Exited => self.starts.restarted(previous, now),
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
            self.reporter.event(Some(&self.container.name), PodEvent::warning("StopSignalIgnored", text));
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
        self.actuated.set_container(&self.container.name, Enforced::of(self.pod, self.container));
        let (runtime, sandbox) = (self.context.runtime.service.clone(), self.sandbox.id.clone());
        let within = self.sandbox.config.clone();
        let call = async move { runtime.create_container(&sandbox, config, within).await };
        let created = self.starts.in_flight.keep(permit.during(call)).await;
        let mounts = self.container.volume_mounts.iter().flatten();
        metrics.created(mounts.filter(|mount| mounted_images.contains_key(&mount.name)).count(), &created);
        match created {
            Ok(id) => {
                self.announce("Created", "Container created");
                Ok(id)
            }
            Err(error) => {
                self.starts.failed(&error);
                let message = with_memory_limits(self.pod, &error);
                Err(self.failed(reasons::CREATE_CONTAINER_ERROR, message, Retry::after(&error)))
            }
        }
    }

    /// Waits at the start gate, then shows `next` as the pod's activity.
    async fn enter_gate(&mut self, next: Activity) -> Permit {
        self.reporter.begin(Activity::QueuedStart);
        let permit = self.context.runtime.starts.enter(self.starts.priority(self.pod)).await;
        self.reporter.begin(next);
        permit
    }

    async fn config(
        &mut self,
        attempt: u32,
        image: &ImageInfo,
        images: &BTreeMap<String, ImageSpec>,
    ) -> Result<ContainerConfig, NotStarted> {
        let (pod, container, host) = (&**self.pod, self.container, &self.context.host.settings);
        let (volumes, ips) = (self.volumes, &self.sandbox.ips);
        let target = self.target()?;
        let mut sources = env_sources(self.context, pod, container, ips, self.env).await;
        sources.files = file_values(self.context, pod, container, volumes).await;
        let config = async {
            let parts = self.mount_parts(&sources, images).await?;
            let handler = handler_of(self.context, pod);
            let support = MountSupport { recursive_read_only: handler.recursive_read_only_mounts };
            let mounted = MountSources { volumes, images, parts: &parts };
            let mounts = container_mounts(pod, container, mounted, support, ips, host).await?;
            let mut config = container_config(pod, container, attempt, image, &sources, mounts, host)?;
            join_groups(&mut config, &volumes.groups);
            share_users(&mut config, &self.sandbox.config);
            if let Some(target) = &target {
                share_processes(&mut config, target);
            }
            Ok::<_, FilesError>(config)
        };
        config.await.map_err(|error| {
            self.env.lacks(&self.container.name);
            self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, error_chain(&error), Retry::BackOff)
        })
    }

    /// The container whose processes an ephemeral container can see (`targetContainerName`).
    fn target(&mut self) -> Result<Option<ContainerId>, NotStarted> {
        let mut ephemeral = self.pod.spec().ephemeral_containers.iter().flatten();
        let own = ephemeral.find(|ephemeral| ephemeral.name == self.container.name);
        let Some(name) =
            own.and_then(|own| own.target_container_name.as_ref()).filter(|name| !name.is_empty())
        else {
            return Ok(None);
        };
        match self.observed.container(name) {
            Some(target) => Ok(Some(target.id.clone())),
            None => {
                let message = format!("unable to find target container {name}");
                Err(self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, message, Retry::BackOff))
            }
        }
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

    /// Mounts the parts of volumes that the container mounts. Returns where, by the index of the mount; of an image, its path in it:
    /// the runtime mounts that.
    async fn mount_parts(
        &self,
        sources: &EnvSources<'_>,
        images: &BTreeMap<String, ImageSpec>,
    ) -> Result<BTreeMap<usize, PathBuf>, ConfigError> {
        let (container, host) = (self.container, &self.context.host);
        let mut mounted = BTreeMap::new();
        for (index, path) in sub_paths(self.pod, container, sources, &host.settings)? {
            let Some(mount) = container.volume_mounts.iter().flatten().nth(index) else { continue };
            if images.contains_key(&mount.name) {
                mounted.insert(index, path);
                continue;
            }
            let Some(volume) = self.volumes.mounted.get(&mount.name) else { continue };
            let part = SubPath {
                uid: self.pod.reference.uid.clone(),
                volume: mount.name.clone(),
                host_path: volume.host_path.clone(),
                container: container.name.clone(),
                index,
                path,
            };
            let at = host.volumes.mount_part(part).await.map_err(|error| {
                let pod = &self.pod.reference;
                let (volume, container) = (mount.name.clone(), container.name.clone());
                tracing::warn!(%pod, uid = %pod.uid, container, volume, error = error_chain(&error), "cannot mount a part of a volume");
                ConfigError::SubPath { volume, container }
            })?;
            mounted.insert(index, at);
        }
        Ok(mounted)
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
            if self.images.lack(volume) {
                let image = self.pull(&ImageNeed::of_volume(volume, source)).await;
                self.images.pulled(volume, image);
            }
        }
        let (images, problems) = self.images.mounted_by(container, pod);
        for problem in &problems {
            self.report_failure(&problem.event());
        }
        let until = problems.iter().filter_map(ImageVolumeError::back_off).min();
        if let Some(at) = until.and_then(|remaining| self.reporter.now().checked_add(remaining).ok()) {
            self.reporter.retries_at(&self.container.name, at);
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
                && let Ok(at) = self.reporter.now().checked_add(*remaining)
            {
                self.reporter.retries_at(&container.name, at);
            }
            self.report_failure(error.reason());
            NotStarted::new(error.reason(), error.to_string(), Retry::after_image(&error))
        })
    }

    /// Waits for an image that it needs, whose pull may have begun long before.
    async fn pull(&mut self, need: &ImageNeed) -> Result<ImageInfo, ImageError> {
        let container = &self.container.name;
        let puller = PodPuller {
            pulls: self.pulls,
            images: &self.context.runtime.images,
            events: self.reporter.events(),
            secrets: self.pull_secrets,
            sandbox: &self.sandbox.config,
        };
        let pull = puller.pull(need);
        if pull.peek().is_none() {
            self.reporter.facts.pulling.insert(container.clone(), need.pull.clone());
            self.reporter.publish_facts();
            self.reporter.begin(Activity::PullingImage(need.pull.clone()));
        }
        let PullEnd { image, found } = pull.await;
        // Shown with the next facts.
        self.reporter.facts.pulling.remove(container);
        self.pulls.used(need);
        if let Some(event) = found {
            self.reporter.event(need.container(), event);
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
        self.reporter.announce(Some(&self.container.name), &PodEvent::normal(reason, message));
    }

    fn failed(&mut self, reason: &str, message: String, retry: Retry) -> NotStarted {
        self.report_failure(&message);
        NotStarted::new(reason, message, retry)
    }

    fn report_failure(&mut self, error: &str) {
        let event = PodEvent::warning(reasons::FAILED, format!("Error: {error}"));
        self.reporter.event(Some(&self.container.name), event);
    }
}

/// The sources of a container's environment. Waits briefly for those that are not known yet.
async fn env_sources<'s>(
    context: &WorkerContext,
    pod: &AdmittedPod,
    container: &Container,
    pod_ips: &'s [IpAddr],
    env: &mut EnvNeeds,
) -> EnvSources<'s> {
    let objects = env.of(&container.name).await;
    let services = &context.env.services;
    let links = pod.spec().enable_service_links.unwrap_or(true);
    let variables = || services.variables(&pod.reference.namespace, links);
    let variables = if pod.is_static {
        // It starts without an API server too, with the services that are known.
        Some(variables().unwrap_or_default())
    } else {
        services.first_answer().await;
        variables()
    };
    if variables.is_none() {
        env.lacks_services(services);
    }
    EnvSources { pod_ips, objects, services: variables, ..EnvSources::default() }
}
