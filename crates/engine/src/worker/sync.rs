//! Makes a pod's containers match its spec: observes, plans, performs. A failure is reported as a waiting reason, and the
//! step is retried.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use hostlet_base::{PodEvent, error_chain, go_duration, reasons};
use hostlet_dra::has_claims;
use hostlet_host::file_work;
use hostlet_observe::pleg::PodStatus;
use hostlet_observe::status::{Activity, PodProgress};
use hostlet_pod::resources::Enforced;
use hostlet_pod::{AdmittedPod, Rejection, resize_message};
use hostlet_runtime::cri::CriError;
use hostlet_volume::{PodVolumes, VolumeOwner};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use tokio::time::{Instant, timeout_at};

use super::cleanup::Cleanup;
use super::container::{ContainerStarter, NotStarted, PreparedPod};
use super::context::WorkerContext;
use super::deadline::{ActiveRecord, PAST_DEADLINE, time_left};
use super::handler::handler_of;
use super::image_needs::image_needs;
use super::image_volumes::ImageVolumes;
use super::plan::{Kill, Plan, PlanInput, Reset, SandboxPlan, plan};
use super::pod_pulls::PodPuller;
use super::resize::{PodResize, ResizeError, cgroup_settings};
use super::sandbox::{PodSandbox, Sandboxes};
use super::stopping::{ContainerStop, Stopping};
use super::{Outcome, Retry, WorkerState};
use crate::cri_config::{container_hash, make_pod_dir};

/// One step of a pod that should run.
pub(super) struct PodSync<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) pod: &'a Arc<AdmittedPod>,
    pub(super) state: &'a mut WorkerState,
}

impl PodSync<'_> {
    /// Performs the step, unless the pod's deadline is over before it completes.
    pub(super) async fn run(mut self) -> Outcome {
        let outcome = self.step_in_time().await;
        match self.state.rejection.take() {
            Some(rejection) => {
                self.state.reporter.announce(None, &rejection.event());
                Outcome::Rejected(rejection)
            }
            None => outcome,
        }
    }

    async fn step_in_time(&mut self) -> Outcome {
        let Some(limit) = self.pod.spec().active_deadline_seconds else { return self.step().await };
        let left = time_left(limit, self.active_for().await);
        // External input: one that is too far away for a clock is none.
        let Some(deadline) = Instant::now().checked_add(left) else { return self.step().await };
        let stepped = if left.is_zero() { None } else { timeout_at(deadline, self.step()).await.ok() };
        match stepped {
            Some(Outcome::Done { due }) => {
                Outcome::Done { due: Some(due.map_or(deadline, |due| due.min(deadline))) }
            }
            // The deadline holds while it waits to retry, too.
            Some(Outcome::Failed(Retry::BackOff)) => Outcome::Failed(Retry::By(deadline)),
            Some(outcome) => outcome,
            None => {
                let event = PodEvent::normal(reasons::DEADLINE_EXCEEDED, PAST_DEADLINE);
                self.state.reporter.announce(None, &event);
                Outcome::DeadlineExceeded
            }
        }
    }

    /// How long the pod has been active.
    async fn active_for(&mut self) -> Duration {
        let record = ActiveRecord {
            store: &self.context.store,
            pod: &self.pod.reference.uid,
            boot_id: &self.context.host.boot_id,
        };
        let uptime = self.state.reporter.uptime();
        if let Some(known) = self.state.active.known(record, uptime) {
            return known;
        }
        // Unknown for now.
        let Ok(started) = self.started().await else { return Duration::ZERO };
        let now = self.state.reporter.now();
        self.state.active.begin(record, started.unwrap_or(now), now, uptime)
    }

    /// When the pod was started: by its status, or for a new daemon by what an earlier one left of it; `None` if there is nothing of it.
    /// As a time of this host's clock, it cannot be earlier than the API server's creation of the pod.
    async fn started(&mut self) -> Result<Option<Timestamp>, CriError> {
        let of_object = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let known = self.state.reporter.start_time().or(of_object.map(|time| time.0));
        let started = match known {
            Some(known) => Some(known),
            None => {
                let observed = self.state.observe(self.context).await?;
                observed.sandboxes.iter().map(|sandbox| sandbox.created_at).min()
            }
        };
        let created = self.pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Ok(started.map(|started| created.map_or(started, |created| started.max(created))))
    }

    async fn step(&mut self) -> Outcome {
        let observed = match self.state.observe(self.context).await {
            Ok(observed) => observed,
            Err(error) => {
                let event = PodEvent::warning("FailedSync", format!("error determining status: {error}"));
                self.state.reporter.event(None, event);
                return Outcome::Failed(Retry::after(&error));
            }
        };
        let now = self.state.reporter.steady();
        let restarts = self.context.restarts.due(&observed);
        self.state.actuated.work_begins(self.pod, &observed);
        self.state.starts.work_begins(self.pod);
        self.state.reporter.facts.allocations = self.pod.resize.allocations;
        let plan = plan(&PlanInput {
            pod: self.pod,
            observed: &observed,
            crash_loops: self.state.starts.crash_loops(),
            restarts: &restarts,
            probes: &self.context.probes.of(&self.pod.reference.uid),
            actuated: self.state.actuated.get(),
            hash: container_hash,
            now,
        });
        let pending = self.state.expected.take().filter(|_| plan.has_starts());
        self.report_waits(&plan);
        self.state.reporter.facts.progress = PodProgress::Active;
        let handler = handler_of(self.context, self.pod);
        self.state.reporter.facts.recursive_read_only = handler.recursive_read_only_mounts;
        if !plan.has_starts() {
            self.state.reporter.facts.setup_error = None;
        }
        self.report_resize(plan.resize.is_under_way);
        self.report_health();
        self.state.reporter.publish_facts();
        if plan.has_ended {
            return Outcome::PodEnded;
        }
        self.state.ends.note(self.pod, &observed);
        if plan.is_empty(&observed) && self.state.is_prepared {
            // Theirs is the turn of a later step.
            let _ = self.pull_images(&observed, &plan).await;
            // No container waits for them, but volumes may show the pod's labels.
            self.set_up_volumes().await;
            return Outcome::Done { due: self.next_restart(&plan) };
        }
        let at_work = self.context.runtime.pleg.at_work(&self.pod.reference);
        let performed = self.perform(&observed, &plan).await;
        // The result is relisted at once, which wakes this worker.
        self.state.settled = Some(Instant::now());
        drop((at_work, pending));
        match performed {
            Ok(()) => {
                // A restart for it is not observed yet.
                if plan.resize.is_under_way && plan.kill.is_empty() {
                    self.report_resize(false);
                    self.state.reporter.publish_facts();
                }
                Outcome::Done { due: self.next_restart(&plan) }
            }
            Err(retry) => {
                self.state.reporter.publish_facts();
                Outcome::Failed(retry)
            }
        }
    }

    /// Reports why containers wait. Those in back-off get that reason; those about to start keep the reason of their last
    /// attempt.
    fn report_waits(&mut self, plan: &Plan) {
        let WorkerState { reporter, starts, .. } = &mut *self.state;
        let (pod, loops) = (&self.pod.reference, starts.crash_loops());
        reporter.starting(plan.start.iter().map(|start| start.container.name.clone()));
        let full = pod.described();
        for wait in &plan.backing_off {
            let text = format!("Back-off restarting failed container {} in pod {full}", wait.name);
            reporter.event(Some(&wait.name), PodEvent::warning(reasons::BACK_OFF, text));
            let pause = go_duration(wait.pause);
            let message = format!("back-off {pause} restarting failed container={} pod={full}", wait.name);
            reporter.waits(&wait.name, reasons::CRASH_LOOP_BACK_OFF, message);
            reporter.retries_at(&wait.name, loops.wall(wait.until));
        }
        if let Some(wait) = &plan.sandbox_wait {
            let text = format!("Back-off re-creating the sandbox of pod {pod}: {}", wait.reason);
            reporter.event(None, PodEvent::warning(reasons::BACK_OFF, text));
            let why =
                format!("back-off {} re-creating the pod sandbox: {}", go_duration(wait.pause), wait.reason);
            let reason = if self.pod.init_containers().is_empty() {
                reasons::CONTAINER_CREATING
            } else {
                reasons::POD_INITIALIZING
            };
            for container in self.pod.containers() {
                reporter.waits(&container.spec.name, reason, &why);
                reporter.retries_at(&container.spec.name, loops.wall(wait.until));
            }
        }
        reporter.publish_retries();
    }

    /// Reports whether a resize is under way; if none is anymore, it has completed.
    fn report_resize(&mut self, is_under_way: bool) {
        let WorkerState { actuated, reporter, .. } = &mut *self.state;
        match is_under_way {
            true => actuated.resizes(self.pod),
            false => {
                if let Some(completed) = actuated.completed() {
                    let message = resize_message("completed", self.pod, completed.generation, "");
                    reporter.announce(None, &PodEvent::normal("ResizeCompleted", message));
                }
            }
        }
        let is_known = reporter.facts.actuated.as_deref() == Some(actuated.get());
        if !is_known || !is_under_way {
            reporter.facts.actuated = is_under_way.then(|| Arc::new(actuated.get().clone()));
        }
    }

    /// When the first container in back-off may start again.
    fn next_restart(&self, plan: &Plan) -> Option<Instant> {
        let containers = plan.backing_off.iter().map(|wait| wait.until);
        let until = containers.chain(plan.sandbox_wait.as_ref().map(|wait| wait.until)).min()?;
        let pause = until.duration_since(self.state.reporter.steady());
        Some(Instant::now() + Duration::try_from(pause).unwrap_or_default())
    }

    /// Performs a plan as far as possible. Failures are reported where they happen; the error is when to retry.
    async fn perform(&mut self, observed: &PodStatus, plan: &Plan) -> Result<(), Retry> {
        let is_new = matches!(plan.sandbox, SandboxPlan::Create { .. });
        if !self.state.is_prepared || is_new {
            self.record(is_new).await?;
            // What runs keeps its resources until it is resized, in order.
            let kept = self.state.actuated.get().pod.filter(|_| !is_new);
            let prepared = self.prepare_host(kept.unwrap_or_else(|| Enforced::of_pod(self.pod))).await;
            prepared.inspect_err(|_| self.state.reporter.setup_failed())?;
            self.state.is_prepared = true;
        }
        if !plan.reset.is_empty() {
            return self.reset(observed, &plan.reset).await;
        }
        let images = self.pull_images(observed, plan).await;
        let ready = self.sandbox(observed, plan).await;
        let ready = ready.inspect_err(|_| self.state.reporter.setup_failed())?;
        let mut result = self.resize(plan).await;
        if let Some((sandbox, volumes)) = ready {
            let mut prepared = PreparedPod { sandbox, volumes, images };
            let started = self.start_containers(observed, plan, &mut prepared).await;
            if started.is_err() && self.has_users() && matches!(plan.sandbox, SandboxPlan::Create { .. }) {
                self.context.metrics.starts.pod_with_users_failed();
            }
            result = started.and(result);
        }
        let cleanup = Cleanup { context: self.context, reporter: &self.state.reporter };
        if let Err(error) = cleanup.leftovers(observed, &plan.leftovers).await {
            let pod = &self.pod.reference;
            // The next plan finds it again.
            tracing::warn!(%pod, uid = %pod.uid, %error, "cannot remove dead containers and sandboxes");
        }
        result
    }

    /// Begins to pull the images that containers need now or later, beside all that precedes their starts. Returns the image volumes
    /// that the containers will wait for.
    async fn pull_images(&mut self, observed: &PodStatus, plan: &Plan) -> ImageVolumes {
        let pod = self.pod;
        let containers = plan.images().filter_map(|container| pod.container(container));
        let containers: Vec<&Container> = containers.map(|container| container.spec).collect();
        let volumes = ImageVolumes::of(self.context, pod, &containers).await;
        let missing = self.state.pulls.keep(image_needs(pod, &containers, volumes.are_mounted()));
        if missing.is_empty() {
            return volumes;
        }
        let attempt = match &plan.sandbox {
            SandboxPlan::Keep(_) => kept_attempt(observed),
            SandboxPlan::Create { attempt, .. } => *attempt,
            // All of them wait for a back-off.
            SandboxPlan::Stop => return volumes,
        };
        let Some(config) = self.sandboxes().early_config(attempt).await else { return volumes };
        let WorkerState { reporter, pull_secrets, pulls, .. } = &*self.state;
        let images = &self.context.runtime.images;
        let puller =
            PodPuller { pulls, images, events: reporter.events(), secrets: pull_secrets, sandbox: &config };
        for need in &missing {
            // It goes on by itself.
            drop(puller.pull(need));
        }
        volumes
    }

    /// Stops what the plan stops. Returns the sandbox and the volumes for the containers to start; `None` if none is to start.
    async fn sandbox(
        &mut self,
        observed: &PodStatus,
        plan: &Plan,
    ) -> Result<Option<(PodSandbox, PodVolumes)>, Retry> {
        match &plan.sandbox {
            SandboxPlan::Keep(id) => {
                self.kill_unwanted(observed, plan).await?;
                if plan.start.is_empty() {
                    // No container waits for them, but a new daemon has to keep volumes up to date, and to know the claims that it
                    // must unprepare one day.
                    self.set_up_volumes().await;
                    if !self.context.host.claims.holds(self.pod) {
                        // It runs anyway; the event says what is wrong.
                        let _ = self.require_claims().await;
                    }
                    return Ok(None);
                }
                let volumes = self.require_volumes().await?;
                // What runs in the sandbox has them already, whoever had them prepared.
                if !self.context.host.claims.holds(self.pod) {
                    self.require_claims().await?;
                }
                let config = self.sandboxes().config(kept_attempt(observed), &volumes.groups).await?;
                self.state.reporter.facts.setup_error = None;
                Ok(Some((PodSandbox { id: id.clone(), config, ips: observed.ips.clone() }, volumes)))
            }
            SandboxPlan::Create { attempt, .. } => {
                if observed.sandbox().is_some() {
                    let text = "Pod sandbox changed, it will be killed and re-created.";
                    self.state.reporter.event(None, PodEvent::normal("SandboxChanged", text));
                }
                self.stop_all(observed).await?;
                let volumes = self.require_volumes().await?;
                self.require_claims().await?;
                let metrics = &self.context.metrics.starts;
                metrics.pod(self.has_users());
                let created = self.sandboxes().create(*attempt, &volumes.groups).await;
                let (sandbox, status) = created.inspect_err(|_| metrics.pod_failed(self.has_users()))?;
                self.state.reporter.facts.setup_error = None;
                // Published now, as pulling images may take long.
                self.state.reporter.facts.made_sandbox = Some(status);
                self.state.reporter.publish_facts();
                Ok(Some((sandbox, volumes)))
            }
            SandboxPlan::Stop => {
                self.stop_all(observed).await?;
                Ok(None)
            }
        }
    }

    /// Enforces the resources that were allocated to what runs. A failure does not prevent containers from starting.
    async fn resize(&mut self, plan: &Plan) -> Result<(), Retry> {
        let SandboxPlan::Keep(sandbox) = &plan.sandbox else { return Ok(()) };
        if plan.resize.steps.is_empty() {
            return Ok(());
        }
        let (context, pod) = (self.context, self.pod);
        let mut resizing = PodResize { context, pod, sandbox, actuated: &mut self.state.actuated };
        let began = Instant::now();
        let resized = resizing.run(&plan.resize).await;
        context.metrics.resizes.observe(began.elapsed(), resized.is_ok());
        let Err(error) = resized else { return Ok(()) };
        let WorkerState { actuated, reporter, .. } = &mut *self.state;
        let text = error_chain(&error);
        if let Some(generation) = actuated.failed(&text) {
            let message = resize_message("error", pod, generation, &text);
            reporter.announce(None, &PodEvent::warning("ResizeError", message));
        }
        reporter.failed(text);
        reporter.facts.actuated = Some(Arc::new(actuated.get().clone()));
        Err(match &error {
            ResizeError::Runtime(error) => Retry::after(error),
            ResizeError::Usage(_)
            | ResizeError::InUse(_)
            | ResizeError::Refused(_)
            | ResizeError::Cgroup(_)
            | ResizeError::Work(_) => Retry::BackOff,
        })
    }

    /// Whether it has users of its own.
    fn has_users(&self) -> bool {
        self.pod.spec().host_users == Some(false)
    }

    fn sandboxes(&mut self) -> Sandboxes<'_> {
        let WorkerState { reporter, starts, env, .. } = &mut *self.state;
        Sandboxes { context: self.context, pod: self.pod, reporter, starts, env }
    }

    /// Starts one container after the other. A failure does not prevent the others from starting.
    async fn start_containers(
        &mut self,
        observed: &PodStatus,
        plan: &Plan,
        prepared: &mut PreparedPod,
    ) -> Result<(), Retry> {
        let (mut result, mut has_failed_pull) = (Ok(()), false);
        for start in &plan.start {
            let Some(container) = self.pod.container(&start.container) else { continue };
            let mut starter = ContainerStarter {
                context: self.context,
                pod: self.pod,
                container: container.spec,
                observed,
                prepared,
                state: self.state,
            };
            let (kind, metrics) = (start.container.kind, &self.context.metrics.starts);
            metrics.container(kind);
            let started = starter.start(start).await;
            match started {
                Ok(()) => {
                    self.state.reporter.started(&start.container.name);
                    self.state.reporter.publish_started();
                }
                Err(NotStarted { reason, message, retry }) => {
                    metrics.container_failed(kind, &reason);
                    has_failed_pull |= reason == reasons::ERR_IMAGE_PULL;
                    self.state.reporter.waits(&start.container.name, &reason, message);
                    result = Err(retry);
                }
            }
        }
        if has_failed_pull {
            self.report_missing_secrets();
        }
        result
    }

    /// Names the missing pull Secrets after a failed pull, which may have needed them.
    fn report_missing_secrets(&mut self) {
        let missing: Vec<String> = self.state.pull_secrets.missing().into_iter().map(str::to_owned).collect();
        self.state.reporter.missing_secrets(missing.clone());
        if !missing.is_empty() {
            let text = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            self.state.reporter.event(None, PodEvent::warning("FailedToRetrieveImagePullSecret", text));
        }
    }

    /// Creates what must exist before anything of the pod runs: its cgroup with these resources, and its directory.
    async fn prepare_host(&mut self, whole: Enforced) -> Result<(), Retry> {
        let (host, uid) = (&self.context.host, &self.pod.reference.uid);
        if let Some(cgroups) = host.cgroups.clone() {
            let (uid, qos) = (uid.clone(), self.pod.qos);
            let resources = cgroup_settings(self.context, self.pod, &whole);
            let made = file_work(move || cgroups.ensure_pod(&uid, qos, &resources));
            let problem = match made.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error_chain(&error)),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                let text = format!("unable to ensure pod container exists: {problem}");
                self.state.reporter.event(None, PodEvent::warning("FailedCreatePodContainer", text));
                return Err(Retry::BackOff);
            }
        }
        self.state.actuated.set_pod(whole);
        make_pod_dir(uid, &host.settings).await.map_err(|error| {
            let text = format!("error making pod data directories: {}", error_chain(&error));
            self.state.reporter.event(None, PodEvent::warning("FailedMakePodDataDirectories", text));
            Retry::BackOff
        })
    }

    /// Records that the pod is hostlet's own. A pod of which there may be nothing yet does not begin without that: nobody would know
    /// whose it is if hostlet were killed.
    async fn record(&mut self, is_new: bool) -> Result<(), Retry> {
        let Err(error) = self.context.own.record(&self.pod.reference).await else { return Ok(()) };
        let text = format!("error making pod data directories: {}", error_chain(&error));
        self.state.reporter.event(None, PodEvent::warning("FailedMakePodDataDirectories", text));
        if !is_new {
            return Ok(());
        }
        self.state.reporter.setup_failed();
        Err(Retry::BackOff)
    }

    /// Sets up or updates the pod's volumes, and reports their problems.
    async fn set_up_volumes(&mut self) -> PodVolumes {
        let host = &self.context.host;
        let memory_limit = u64::try_from(Enforced::of_pod(self.pod).memory_limit).ok().filter(|it| *it > 0);
        match host.volumes.set_up(VolumeOwner { pod: self.pod.clone(), memory_limit }).await {
            Ok(volumes) => {
                let passing = volumes.problems.iter().filter(|problem| !problem.rejects_pod());
                self.state.reporter.volume_problems(passing);
                for warning in &volumes.shared {
                    let event = PodEvent::warning("AlreadyMountedVolume", warning);
                    self.state.reporter.announce(None, &event);
                }
                volumes
            }
            Err(error) => {
                let text = format!("Unable to attach or mount volumes: {}", error_chain(&error));
                self.state.reporter.event(None, PodEvent::warning("FailedMount", text));
                PodVolumes::default()
            }
        }
    }

    /// Sets up the pod's volumes, and fails unless all are mounted.
    async fn require_volumes(&mut self) -> Result<PodVolumes, Retry> {
        if self.pod.host_volumes().next().is_none() {
            return Ok(PodVolumes::default());
        }
        self.state.reporter.begin(Activity::SettingUpVolumes);
        let volumes = self.set_up_volumes().await;
        if self.pod.host_volumes().all(|volume| volumes.is_ready(&volume.name)) {
            return Ok(volumes);
        }
        if let Some(problem) = volumes.problems.iter().find(|problem| problem.rejects_pod()) {
            let reason = reasons::VOLUME_ATTACHMENT_LIMIT_EXCEEDED;
            self.state.rejection = Some(Rejection::new(reason, problem.to_string()));
        }
        if let Some(problem) = volumes.problems.first() {
            self.state.reporter.failed(problem.to_string());
        }
        Err(Retry::BackOff)
    }

    /// Has the pod's claimed devices prepared, and fails unless all are.
    async fn require_claims(&mut self) -> Result<(), Retry> {
        if !has_claims(self.pod) {
            return Ok(());
        }
        self.state.reporter.begin(Activity::PreparingClaims);
        let Err(error) = self.context.host.claims.prepare(self.pod).await else { return Ok(()) };
        let text = format!("Failed to prepare dynamic resources: prepare dynamic resources: {error}");
        self.state.reporter.event(None, PodEvent::warning("FailedPrepareDynamicResources", text));
        Err(Retry::BackOff)
    }

    /// Takes the health of the pod's devices into its status: those of device plugins, then claimed ones, as upstream.
    fn report_health(&mut self) {
        let (pod, claims, grants) = (self.pod, &self.context.host.claims, &self.context.grants);
        let health = pod.main_containers().filter_map(|container| {
            let mut health = grants.device_health(&pod.reference.uid, &container.spec.name);
            health.extend(claims.health(pod, container.spec));
            (!health.is_empty()).then(|| (container.spec.name.clone(), health))
        });
        self.state.reporter.facts.device_health = health.collect();
    }

    async fn kill_unwanted(&mut self, observed: &PodStatus, plan: &Plan) -> Result<(), Retry> {
        let stopping = self.stopping(&observed.ips);
        let kills = plan.kill.iter().map(|kill| {
            let Kill { name, id, message, grace_seconds } = kill;
            stopping.container(ContainerStop { name, id, message, grace_seconds: *grace_seconds })
        });
        let killed: Result<(), CriError> = join_all(kills).await.into_iter().collect();
        killed.map_err(|error| self.failed_kill(&error))
    }

    /// Removes instances so that all containers of the pod start again. Their logs are kept until the pod is deleted.
    async fn reset(&mut self, observed: &PodStatus, resets: &[Reset]) -> Result<(), Retry> {
        let now = self.state.reporter.steady();
        for reset in resets {
            // The next attempt follows the newest one that its logs show.
            if let Some(newest) = observed.container(&reset.name).filter(|newest| newest.id == reset.id) {
                self.state.starts.replaced(newest, now);
            }
            let removed = async {
                if reset.stop {
                    let (name, id) = (reset.name.as_str(), &reset.id);
                    let stop = ContainerStop { name, id, message: "killing", grace_seconds: 0 };
                    self.stopping(&[]).container(stop).await?;
                }
                self.state.reporter.status_settled().await;
                self.context.runtime.service.remove_container(&reset.id).await
            };
            removed.await.map_err(|error| self.failed_kill(&error))?;
        }
        Ok(())
    }

    async fn stop_all(&mut self, observed: &PodStatus) -> Result<(), Retry> {
        let stopping = self.stopping(&observed.ips);
        let grace = self.grace_seconds();
        let stopped = async {
            stopping.containers(observed, grace).await?;
            stopping.sandboxes(observed).await
        };
        stopped.await.map_err(|error| self.failed_kill(&error))
    }

    fn stopping<'s>(&'s self, ips: &'s [IpAddr]) -> Stopping<'s> {
        Stopping { context: self.context, pod: Some(self.pod), reporter: &self.state.reporter, ips }
    }

    /// The grace period of containers that are stopped while their pod keeps running.
    fn grace_seconds(&self) -> i64 {
        self.pod.grace_seconds.unwrap_or(0)
    }

    fn failed_kill(&mut self, error: &CriError) -> Retry {
        let event = PodEvent::warning("FailedKillPod", format!("error killing pod: {error}"));
        self.state.reporter.event(None, event);
        Retry::after(error)
    }
}

/// The attempt of the sandbox that is kept.
fn kept_attempt(observed: &PodStatus) -> u32 {
    observed.sandbox().map_or(0, |sandbox| sandbox.attempt)
}
