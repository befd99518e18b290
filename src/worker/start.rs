//! Starting a sandbox and a container, each through the gate.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use parking_lot::Mutex;

use super::plan::Start;
use super::syncer::WorkerContext;
use super::{Memory, Retry};
use crate::cri::wire::PodSandboxConfig;
use crate::cri::{ContainerState, ContainerStatus, CriError, SandboxStatus};
use crate::cri_config::{EnvSources, container_config, container_mounts};
use crate::gate::StartPriority;
use crate::image::{ImageError, ImageRequest, PullPolicy};
use crate::pleg::PodStatus;
use crate::pod::WaitingReason;
use crate::pod::{is_static, pod_ref};
use crate::status::Activity;
use crate::status::timeline::TimelineStep;
use crate::store::Table;
use crate::sys::file_work;
use crate::types::{ContainerId, PodEvent, PodRef, SandboxId, error_chain};
use crate::volume::PodVolumes;

/// A sandbox that takes containers.
pub(super) struct PodSandbox {
    pub(super) id: SandboxId,
    pub(super) config: PodSandboxConfig,
    pub(super) ips: Vec<IpAddr>,
}

/// Why a container could not be started, and when to try again.
pub(super) struct NotStarted {
    pub(super) waiting: WaitingReason,
    pub(super) retry: Retry,
}

/// Which attempt a container is, and which one that never ran is to make room for it.
struct Made<'a> {
    attempt: u32,
    replaced: Option<&'a ContainerStatus>,
}

fn not_started(reason: &str, message: impl Into<String>, retry: Retry) -> NotStarted {
    NotStarted { waiting: WaitingReason { reason: reason.to_owned(), message: message.into() }, retry }
}

impl WorkerContext {
    /// Makes the sandbox and reads its state with its addresses.
    pub(super) async fn run_sandbox(
        &self,
        pod: &Pod,
        reference: &PodRef,
        config: PodSandboxConfig,
        memory: &mut Memory,
    ) -> Result<(PodSandbox, SandboxStatus), CriError> {
        let logs = self.logs.clone();
        let owner = reference.clone();
        // The runtime makes the directory too when it must; a failure here shows when the first log is opened.
        if let Ok(Err(error)) = file_work(move || logs.create_pod_dir(&owner)).await {
            tracing::warn!(pod = %reference, uid = %reference.uid, error = error_chain(&error), "cannot make the pod's log directory");
        }
        self.begin(reference, Activity::WaitingForTurn);
        let permit = self.gate.enter(StartPriority::of(pod).after(memory.failed_starts)).await;
        self.begin(reference, Activity::MakingSandbox);
        let (runtime, wanted) = (self.runtime.clone(), config.clone());
        let call = async move { runtime.run_sandbox(wanted, "").await };
        let made = memory.in_flight.keep(permit.during(call)).await;
        let id = made.inspect_err(|error| memory.start_failed(error))?;
        memory.failed_starts = 0;
        let status = self.runtime.sandbox_status(&id).await?;
        let ips: Vec<String> = status.ips.iter().map(IpAddr::to_string).collect();
        self.status_cache.timeline().mark(reference, TimelineStep::Network, ips.join(", "), self.clock.now());
        tracing::debug!(pod = %reference, uid = %reference.uid, sandbox = %id, "sandbox made");
        Ok((PodSandbox { id, config, ips: status.ips.clone() }, status))
    }

    /// Starts one container: its image, its files, its configuration, then the runtime's create and start.
    pub(super) async fn start_container(
        &self,
        pod: &Arc<Pod>,
        container: &Container,
        start: &Start,
        observed: &PodStatus,
        place: (&PodSandbox, &PodVolumes),
        memory: &mut Memory,
    ) -> Result<(), NotStarted> {
        let reference = pod_ref(pod);
        let previous = observed.container(&container.name);
        let (id, attempt) = match &start.adopt {
            Some(id) => (id.clone(), previous.map_or(0, |c| c.attempt)),
            None => {
                let replaced = previous.filter(|p| Some(&p.id) == start.replace.as_ref());
                let attempt = match (previous, replaced) {
                    (_, Some(replaced)) => replaced.attempt,
                    (Some(previous), None) => previous.attempt.saturating_add(1),
                    (None, None) => self.attempt_from_logs(&reference, &container.name).await,
                };
                let made = Made { attempt, replaced };
                (self.make_container(pod, &reference, container, made, place, memory).await?, attempt)
            }
        };
        // Counted whether or not it succeeds: what cannot be started at all must back off too.
        if let Some(ended) = previous.filter(|p| p.state == ContainerState::Exited) {
            memory.crash_loops.restarted(ended, self.clock.now());
            self.store.put(Table::CrashLoops, reference.uid.as_str(), &memory.crash_loops.stored());
        }
        self.begin(&reference, Activity::WaitingForTurn);
        let permit = self.gate.enter(StartPriority::of(pod).after(memory.failed_starts)).await;
        self.begin(&reference, Activity::StartingContainer { container: container.name.clone() });
        self.note_start(&reference, &id, observed, memory).await;
        let (runtime, logs) = (self.runtime.clone(), self.logs.clone());
        let (owner, name) = (reference.clone(), container.name.clone());
        let call = async move {
            permit.during(runtime.start_container(&id)).await?;
            // Part of the start: nobody else links the log of a container that runs.
            Ok::<_, CriError>(file_work(move || logs.link_log(&owner, &name, attempt, &id)).await)
        };
        let linked = match memory.in_flight.keep(call).await {
            Ok(linked) => linked,
            Err(error) => {
                memory.start_failed(&error);
                self.failed(&reference, container, &error.to_string(), memory);
                return Err(not_started("RunContainerError", error.to_string(), Retry::after(&error)));
            }
        };
        memory.failed_starts = 0;
        self.announce(&reference, Some(&container.name), &PodEvent::normal("Started", "Container started"));
        memory.recovered(&container.name);
        if let Ok(Err(error)) = linked {
            tracing::warn!(pod = %reference, uid = %reference.uid, container = container.name, error = error_chain(&error), "cannot link the container's log");
        }
        Ok(())
    }

    /// Notes a start, on the disk too, if the container must not run again when nobody knows whether it ran.
    async fn note_start(&self, pod: &PodRef, id: &ContainerId, observed: &PodStatus, memory: &mut Memory) {
        if !memory.runs_once {
            return;
        }
        memory.asked.note(id, self.runtime.instance().await, observed);
        self.store.put(Table::RequestedStarts, pod.uid.as_str(), &memory.asked);
        self.store.written().await;
    }

    async fn make_container(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        container: &Container,
        Made { attempt, replaced }: Made<'_>,
        (sandbox, volumes): (&PodSandbox, &PodVolumes),
        memory: &mut Memory,
    ) -> Result<ContainerId, NotStarted> {
        let image = self.pull(reference, container, sandbox, memory).await?;
        let sources = self.env_sources(pod, container, sandbox, memory).await;
        let config = async {
            let mounts = container_mounts(pod, container, volumes, &sandbox.ips, &self.host).await?;
            let config = container_config(pod, container, attempt, &image, &sources, mounts, &self.host)?;
            Ok::<_, crate::cri_config::FilesError>(config)
        };
        let config = match config.await {
            Ok(config) => config,
            Err(error) => {
                let text = error_chain(&error);
                memory.env.lacks(&container.name);
                self.failed(reference, container, &text, memory);
                return Err(not_started("CreateContainerConfigError", text, Retry::BackOff));
            }
        };
        let logs = self.logs.clone();
        let (owner, name) = (reference.clone(), container.name.clone());
        let made = file_work(move || logs.create_container_dir(&owner, &name)).await;
        if let Ok(Err(error)) = made {
            let text = error_chain(&error);
            self.failed(reference, container, &text, memory);
            return Err(not_started("CreateContainerError", text, Retry::BackOff));
        }
        self.begin(reference, Activity::WaitingForTurn);
        let permit = self.gate.enter(StartPriority::of(pod).after(memory.failed_starts)).await;
        self.begin(reference, Activity::CreatingContainer { container: container.name.clone() });
        if let Some(replaced) = replaced {
            self.make_room(reference, container, replaced, memory).await?;
        }
        let (runtime, sandbox, within) = (self.runtime.clone(), sandbox.id.clone(), sandbox.config.clone());
        let call = async move { runtime.create_container(&sandbox, config, within).await };
        match memory.in_flight.keep(permit.during(call)).await {
            Ok(id) => {
                self.announce(
                    reference,
                    Some(&container.name),
                    &PodEvent::normal("Created", "Container created"),
                );
                Ok(id)
            }
            Err(error) => {
                memory.start_failed(&error);
                self.failed(reference, container, &error.to_string(), memory);
                Err(not_started("CreateContainerError", error.to_string(), Retry::after(&error)))
            }
        }
    }

    /// Removes a container that never ran, whose name and log the one to come will have. Its log goes first: should this
    /// end in between, no log counts an attempt that was none.
    async fn make_room(
        &self,
        pod: &PodRef,
        container: &Container,
        replaced: &ContainerStatus,
        memory: &mut Memory,
    ) -> Result<(), NotStarted> {
        let logs = self.logs.clone();
        let (owner, id, attempt) = (pod.clone(), replaced.id.clone(), replaced.attempt);
        let name = replaced.name.clone();
        let removed = file_work(move || logs.remove_container_logs(&owner, &name, attempt, &id)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot remove a container's log");
        }
        self.runtime.remove_container(&replaced.id).await.map_err(|error| {
            self.failed(pod, container, &error.to_string(), memory);
            not_started("CreateContainerError", error.to_string(), Retry::after(&error))
        })
    }

    /// What a container's environment is made from. What is not known yet is waited for, but not for long.
    async fn env_sources<'s>(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &'s PodSandbox,
        memory: &mut Memory,
    ) -> EnvSources<'s> {
        let objects = memory.env.of(&container.name).await;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let variables = || self.service_env.variables(namespace, links);
        let services = if is_static(pod) {
            // It starts without an API server too, with those of the services that are known.
            Some(variables().unwrap_or_default())
        } else {
            self.service_env.first_answer().await;
            variables()
        };
        if services.is_none() {
            memory.env.lacks_services(&self.service_env);
        }
        EnvSources { pod_ips: &sandbox.ips, objects, services }
    }

    async fn pull(
        &self,
        reference: &PodRef,
        container: &Container,
        sandbox: &PodSandbox,
        memory: &mut Memory,
    ) -> Result<crate::cri::ImageInfo, NotStarted> {
        let image = container.image.clone().unwrap_or_default();
        // Defaulting has set the policy; without one, nothing is fetched that is here already.
        let policy = container.image_pull_policy.as_deref().and_then(PullPolicy::from_api);
        let request = ImageRequest {
            pod: reference,
            image: &image,
            policy: policy.unwrap_or(PullPolicy::IfNotPresent),
            sandbox: sandbox.config.clone(),
        };
        let told = Mutex::new(memory);
        let report = |event: PodEvent| {
            if event.reason == "Pulling" {
                let (container, image) = (container.name.clone(), image.clone());
                self.begin(reference, Activity::PullingImage { container, image });
            }
            let mut memory = told.lock();
            self.event(reference, Some(&container.name), event, &mut memory);
        };
        let ensured = self.images.ensure(request, &report).await;
        let memory = told.into_inner();
        ensured.map(|ensured| ensured.image).map_err(|error| {
            if let ImageError::BackOff { remaining, .. } = &error
                && let Ok(at) = self.clock.now().checked_add(*remaining)
            {
                memory.retries.insert(container.name.clone(), at);
            }
            self.failed(reference, container, error.reason(), memory);
            let retry = match &error {
                // No registry was asked, only the runtime.
                ImageError::Inspect { .. } => Retry::Soon,
                _ => Retry::BackOff,
            };
            not_started(error.reason(), error.to_string(), retry)
        })
    }

    /// The attempt of a container the runtime knows nothing of. Logs that cannot be listed count as none: the runtime
    /// refuses a name that is taken.
    async fn attempt_from_logs(&self, pod: &PodRef, container: &str) -> u32 {
        let logs = self.logs.clone();
        let (owner, name) = (pod.clone(), container.to_owned());
        match file_work(move || logs.next_attempt(&owner, &name)).await {
            Ok(Ok(attempt)) => attempt,
            Ok(Err(error)) => {
                tracing::warn!(%pod, uid = %pod.uid, container, error = error_chain(&error), "cannot count the container's logs");
                0
            }
            Err(_) => 0,
        }
    }

    fn failed(&self, pod: &PodRef, container: &Container, error: &str, memory: &mut Memory) {
        let event = PodEvent::warning("Failed", format!("Error: {error}"));
        self.event(pod, Some(&container.name), event, memory);
    }
}
