//! Making a pod's containers match its spec: looks, plans, performs. What a step cannot do now is told as a waiting
//! reason and tried again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::plan::{Leftovers, Plan, SandboxPlan, plan};
use super::start::{NotStarted, PodSandbox};
use super::syncer::WorkerContext;
use super::{Memory, Outcome, Retry};
use crate::cri::{CriError, SandboxStatus};
use crate::cri_config;
use crate::cri_config::{container_hash, make_pod_dir, pod_dns};
use crate::gate::StartPriority;
use crate::pleg::PodStatus;
use crate::pod::WaitingReason;
use crate::pod::pod_ref;
use crate::pod::resources::{pod_resources, qos_class};
use crate::status::{PodFacts, PodProgress};
use crate::sys::file_work;
use crate::types::{PodEvent, PodRef, error_chain, go_duration};

/// How long a pod waits for the runtime's first word on its network before that is told as a failure.
const FIRST_STATUS: Duration = Duration::from_secs(1);

impl WorkerContext {
    /// One step of a pod that should run.
    pub(super) async fn sync(&self, pod: &Arc<Pod>, memory: &mut Memory) -> Outcome {
        let reference = pod_ref(pod);
        let is_first = memory.last_work.is_none();
        // Before the first look: which pod's answer comes first is chance.
        let on_the_way = is_first.then(|| self.gate.expect(StartPriority::of(pod)));
        let observed = match self.observe(&reference, memory).await {
            Ok(observed) => observed,
            Err(error) => {
                let event = PodEvent::warning("FailedSync", format!("error determining status: {error}"));
                self.event(&reference, None, event, memory);
                return Outcome::Failed(Retry::after(&error));
            }
        };
        let plan = plan(pod, &observed, &memory.crash_loops, container_hash, self.clock.now());
        let on_the_way = on_the_way.filter(|_| plan.has_starts());
        self.remember_waits(pod, &reference, &plan, memory);
        memory.facts.progress = PodProgress::Active;
        if !matches!(plan.sandbox, SandboxPlan::Create { .. }) {
            memory.facts.sandbox_error = None;
        }
        self.leave_facts(&reference, memory);
        if plan.has_ended {
            return Outcome::PodEnded;
        }
        if plan.is_empty(&observed) && !is_first {
            // Nothing waits for them, but the pod's labels may be in them.
            self.set_up_volumes(pod, &reference, memory).await;
            return Outcome::Done { due: self.next_restart(&plan) };
        }
        let at_work = self.pleg.at_work(&reference);
        let performed = self.perform_plan(pod, &reference, &observed, &plan, is_first, memory).await;
        // What was done shows at once, and wakes this worker for a look at it.
        memory.settled = Some(Instant::now());
        drop((at_work, on_the_way));
        match performed {
            Ok(()) => Outcome::Done { due: self.next_restart(&plan) },
            Err(retry) => {
                self.leave_facts(&reference, memory);
                Outcome::Failed(retry)
            }
        }
    }

    /// Containers in back-off wait for that reason; those to be started keep the reason of the last try; the others wait
    /// for none.
    fn remember_waits(&self, pod: &Pod, reference: &PodRef, plan: &Plan, memory: &mut Memory) {
        let containers = pod.spec.as_ref().map_or(&[][..], |spec| &spec.containers);
        let starting = plan.start.iter().filter_map(|start| containers.get(start.index));
        memory.facts.starting = starting.map(|container| container.name.clone()).collect();
        let PodFacts { waiting, starting, .. } = &mut memory.facts;
        waiting.retain(|name, _| starting.contains(name));
        memory.retries.clear();
        for wait in &plan.backing_off {
            let who = format!(
                "container={} pod={}_{}({})",
                wait.name, reference.name, reference.namespace, reference.uid
            );
            let message = format!("back-off {} restarting failed {who}", go_duration(wait.pause));
            let text = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                wait.name, reference.name, reference.namespace, reference.uid
            );
            self.event(reference, Some(&wait.name), PodEvent::warning("BackOff", text), memory);
            let reason = WaitingReason { reason: "CrashLoopBackOff".to_owned(), message };
            memory.facts.waiting.insert(wait.name.clone(), reason);
            memory.retries.insert(wait.name.clone(), wait.until);
        }
        if let Some(wait) = &plan.sandbox_wait {
            let why =
                format!("back-off {} re-creating the pod sandbox: {}", go_duration(wait.pause), wait.reason);
            let text = format!("Back-off re-creating the sandbox of pod {reference}: {}", wait.reason);
            self.event(reference, None, PodEvent::warning("BackOff", text), memory);
            for container in containers {
                let reason = WaitingReason { reason: "ContainerCreating".to_owned(), message: why.clone() };
                memory.facts.waiting.insert(container.name.clone(), reason);
                memory.retries.insert(container.name.clone(), wait.until);
            }
        }
        // Before the status that says so: whoever reads that asks until when.
        self.status_cache.retries(&reference.uid, memory.retries.clone());
    }

    /// When the first container in back-off may start again.
    fn next_restart(&self, plan: &Plan) -> Option<Instant> {
        let containers = plan.backing_off.iter().map(|wait| wait.until);
        let until = containers.chain(plan.sandbox_wait.map(|wait| wait.until)).min()?;
        let pause = until.duration_since(self.clock.now());
        Some(Instant::now() + Duration::try_from(pause).unwrap_or_default())
    }

    /// Performs a plan as far as it can be. What cannot be done the pod's owner is told as an event where it happens; the
    /// error is when to try again.
    async fn perform_plan(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        observed: &PodStatus,
        plan: &Plan,
        is_first: bool,
        memory: &mut Memory,
    ) -> Result<(), Retry> {
        if is_first || matches!(plan.sandbox, SandboxPlan::Create { .. }) {
            self.prepare_host(pod, reference, memory).await?;
        }
        let sandbox = match &plan.sandbox {
            SandboxPlan::Keep(id) => {
                self.kill_unwanted(pod, reference, plan, memory).await?;
                if plan.start.is_empty() {
                    // Nothing waits for them, but a new daemon has to keep them up to date.
                    self.set_up_volumes(pod, reference, memory).await;
                    None
                } else {
                    let attempt = observed.sandbox().map_or(0, |s| s.attempt);
                    let volumes = self.need_volumes(pod, reference, memory).await?;
                    let config = self.sandbox_config(pod, reference, attempt, memory).await?;
                    Some((PodSandbox { id: id.clone(), config, ips: observed.ips.clone() }, volumes))
                }
            }
            SandboxPlan::Create { attempt, .. } => {
                if observed.sandbox().is_some() {
                    memory.crash_loops.sandbox_replaced(self.clock.now());
                    let text = "Pod sandbox changed, it will be killed and re-created.";
                    self.event(reference, None, PodEvent::normal("SandboxChanged", text), memory);
                }
                self.stop_all(pod, reference, observed, memory).await?;
                let volumes = self.need_volumes(pod, reference, memory).await?;
                let (sandbox, made) = self.make_sandbox(pod, reference, *attempt, memory).await?;
                // Reported now: until the containers run, images may be pulled for long.
                memory.facts.made_sandbox = Some(made);
                self.leave_facts(reference, memory);
                Some((sandbox, volumes))
            }
            SandboxPlan::Stop => {
                self.stop_all(pod, reference, observed, memory).await?;
                None
            }
        };
        let mut result = Ok(());
        if let Some((sandbox, volumes)) = sandbox {
            for start in &plan.start {
                let Some(container) = pod.spec.as_ref().and_then(|s| s.containers.get(start.index)) else {
                    continue;
                };
                match self
                    .start_container(pod, container, start, observed, (&sandbox, &volumes), memory)
                    .await
                {
                    Ok(()) => {
                        memory.facts.waiting.remove(&container.name);
                        memory.facts.starting.remove(&container.name);
                        self.leave_started(reference, memory);
                    }
                    Err(NotStarted { waiting, retry }) => {
                        memory.facts.waiting.insert(container.name.clone(), waiting);
                        result = Err(retry);
                    }
                }
            }
        }
        if let Err(error) = self.remove_leftovers(reference, observed, &plan.leftovers).await {
            // The next plan finds it again.
            tracing::warn!(pod = %reference, uid = %reference.uid, %error, "cannot remove dead containers and sandboxes");
        }
        result
    }

    /// What must be on the host before anything of the pod runs: its cgroup and its directory.
    async fn prepare_host(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        memory: &mut Memory,
    ) -> Result<(), Retry> {
        if let Some(cgroups) = self.cgroups.clone() {
            let (uid, pod) = (reference.uid.clone(), pod.clone());
            let resources = pod_resources(&pod, self.host.cpu_cfs_quota_period);
            let made = file_work(move || cgroups.ensure_pod(&uid, qos_class(&pod), &resources));
            let problem = match made.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error_chain(&error)),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                let text = format!("unable to ensure pod container exists: {problem}");
                self.event(reference, None, PodEvent::warning("FailedCreatePodContainer", text), memory);
                return Err(Retry::BackOff);
            }
        }
        make_pod_dir(reference.uid.as_str(), &self.host).await.map_err(|error| {
            let text = format!("error making pod data directories: {}", error_chain(&error));
            self.event(reference, None, PodEvent::warning("FailedMakePodDataDirectories", text), memory);
            Retry::BackOff
        })
    }

    async fn kill_unwanted(
        &self,
        pod: &Pod,
        reference: &PodRef,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Result<(), Retry> {
        let grace = grace_seconds(pod);
        let kills = plan
            .kill
            .iter()
            .map(|k| self.stop_container(reference, &k.name, &k.id, k.message.clone(), grace));
        let killed: Result<(), CriError> = join_all(kills).await.into_iter().collect();
        killed.map_err(|error| self.failed_kill(reference, &error, memory))
    }

    async fn stop_all(
        &self,
        pod: &Pod,
        reference: &PodRef,
        observed: &PodStatus,
        memory: &mut Memory,
    ) -> Result<(), Retry> {
        let stopped = async {
            self.stop_containers(reference, observed, grace_seconds(pod)).await?;
            self.stop_sandboxes(reference, observed).await
        };
        stopped.await.map_err(|error| self.failed_kill(reference, &error, memory))
    }

    fn failed_kill(&self, pod: &PodRef, error: &CriError, memory: &mut Memory) -> Retry {
        let event = PodEvent::warning("FailedKillPod", format!("error killing pod: {error}"));
        self.event(pod, None, event, memory);
        Retry::after(error)
    }

    async fn make_sandbox(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        attempt: u32,
        memory: &mut Memory,
    ) -> Result<(PodSandbox, SandboxStatus), Retry> {
        self.check_network(pod, reference, memory).await?;
        let config = self.sandbox_config(pod, reference, attempt, memory).await?;
        match self.run_sandbox(pod, reference, config, memory).await {
            Ok(sandbox) => {
                memory.facts.sandbox_error = None;
                memory.recovered("");
                Ok(sandbox)
            }
            Err(error) => {
                let text = format!("Failed to create pod sandbox: {error}");
                Err(self.no_sandbox(reference, "FailedCreatePodSandBox", text, Retry::after(&error), memory))
            }
        }
    }

    /// Tells why there is no sandbox, and remembers it for the status; when to try again.
    fn no_sandbox(
        &self,
        pod: &PodRef,
        reason: &'static str,
        message: String,
        retry: Retry,
        memory: &mut Memory,
    ) -> Retry {
        self.event(pod, None, PodEvent::warning(reason, message.clone()), memory);
        memory.facts.sandbox_error = Some(message);
        retry
    }

    async fn check_network(&self, pod: &Pod, reference: &PodRef, memory: &mut Memory) -> Result<(), Retry> {
        if pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false) {
            return Ok(());
        }
        // At boot the first status comes any moment. A later answer is heeded at the next try.
        let mut first = self.runtime_status.clone();
        let _ = tokio::time::timeout(FIRST_STATUS, first.wait_for(Option::is_some)).await;
        let problem = match &*self.runtime_status.borrow() {
            Some(status) if status.network.status => return Ok(()),
            Some(status) => format!(
                "container runtime network not ready: NetworkReady=false reason:{} message:{}",
                status.network.reason, status.network.message
            ),
            None => "container runtime status check may not have completed yet".to_owned(),
        };
        let text = format!("network is not ready: {problem}");
        Err(self.no_sandbox(reference, "NetworkNotReady", text, Retry::Soon, memory))
    }

    async fn sandbox_config(
        &self,
        pod: &Arc<Pod>,
        reference: &PodRef,
        attempt: u32,
        memory: &mut Memory,
    ) -> Result<crate::cri::wire::PodSandboxConfig, Retry> {
        let config = async {
            let (dns, warnings) = pod_dns(pod, &self.host).await.map_err(|e| error_chain(&e))?;
            let parent = match &self.cgroups {
                Some(cgroups) => cgroups.parent(&reference.uid, qos_class(pod)),
                None => Ok(String::new()),
            };
            let parent = parent.map_err(|e| error_chain(&e))?;
            let config = cri_config::sandbox_config(pod, attempt, &parent, dns, &self.host);
            Ok::<_, String>((config.map_err(|e| error_chain(&e))?, warnings))
        };
        match config.await {
            Ok((config, warnings)) => {
                for warning in warnings {
                    let event = PodEvent::warning(warning.reason, warning.message);
                    self.event(reference, None, event, memory);
                }
                Ok(config)
            }
            Err(error) => {
                let text = format!("Failed to create pod sandbox: {error}");
                Err(self.no_sandbox(reference, "FailedCreatePodSandBox", text, Retry::BackOff, memory))
            }
        }
    }

    /// Removes what is left over, with its logs: all that can be; then tells the first error.
    pub(super) async fn remove_leftovers(
        &self,
        pod: &PodRef,
        observed: &PodStatus,
        left: &Leftovers,
    ) -> Result<(), CriError> {
        if !left.containers.is_empty() {
            // What they wrote when they ended goes with them: it was read by then.
            self.statuses.settled(&pod.uid).await;
        }
        let mut result = Ok(());
        for id in &left.containers {
            if let Err(error) = self.runtime.remove_container(id).await {
                result = result.and(Err(error));
                continue;
            }
            let Some(dead) = observed.containers.iter().find(|c| c.id == *id) else { continue };
            let (logs, owner, id) = (self.logs.clone(), pod.clone(), id.clone());
            let (name, attempt) = (dead.name.clone(), dead.attempt);
            let removed = file_work(move || logs.remove_container_logs(&owner, &name, attempt, &id));
            if let Ok(Err(error)) = removed.await {
                tracing::warn!(%pod, uid = %pod.uid, error = error_chain(&error), "cannot remove a container's log");
            }
        }
        for id in &left.sandboxes {
            result = result.and(self.runtime.remove_sandbox(id).await);
        }
        result
    }
}

/// The grace period of containers that are stopped while their pod goes on.
fn grace_seconds(pod: &Pod) -> i64 {
    pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds).unwrap_or(0)
}
