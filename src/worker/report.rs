//! Telling of a pod: its status on the status cache, its events in the log. Nothing is repeated while nothing changes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use tokio::time::Instant;

use super::Memory;
use super::memory::ReportedEvent;
use super::plan::{Plan, SandboxPlan};
use super::syncer::WorkerContext;
use crate::cri::{ContainerState, ContainerStatus};
use crate::log::termination_message;
use crate::pleg::PodStatus;
use crate::pod::StatusOverride;
use crate::pod::is_static;
use crate::status::PodStatusEntry;
use crate::status::timeline::TimelineStep;
use crate::status::{LifecycleSummary, StatusInput, generate, newest};
use crate::sys::file_work;
use crate::types::{EventKind, PodEvent, PodRef};

/// How long an event that is told again and again is not told to the API server again: as long as a stock kubelet's shortest
/// pause between two tries.
const REPEAT: Duration = Duration::from_secs(10);

/// How far a pod's life has come, and what of its work bears on its status.
pub(super) enum Progress<'a> {
    /// Its containers may be started; with the plan of this step.
    Syncing(&'a Plan),
    /// It is being stopped, to end with this status.
    Terminating(Option<&'a StatusOverride>),
    /// It is stopped, and ends with this status.
    Terminated(Option<&'a StatusOverride>),
}

impl WorkerContext {
    /// Tells the pod's status as it follows from what is observed.
    pub(super) async fn tell(
        &self,
        pod: &Arc<Pod>,
        observed: &PodStatus,
        progress: Progress<'_>,
        memory: &mut Memory,
    ) {
        self.read_termination_messages(observed, memory).await;
        let (lifecycle, status_override, needs_sandbox) = match progress {
            Progress::Syncing(plan) => {
                (LifecycleSummary::Active, None, matches!(plan.sandbox, SandboxPlan::Create { .. }))
            }
            Progress::Terminating(status) => (LifecycleSummary::Terminating, status, false),
            Progress::Terminated(status) => (LifecycleSummary::Terminated, status, false),
        };
        let previous = previous(pod, memory);
        let sandbox_error = memory.sandbox_error.as_deref().filter(|_| needs_sandbox);
        let status = generate(&StatusInput {
            pod,
            observed,
            reasons: &memory.waiting,
            termination_messages: &memory.termination_messages,
            sandbox_error,
            lifecycle,
            status_override,
            previous: previous.as_ref(),
            now: self.clock.now(),
            runtime_name: &self.host.runtime_name,
            host_ips: &self.host.node_ips.now(),
        });
        // A pod that ran to its end is stopped too, but nobody would call it terminating.
        let is_stopping = lifecycle != LifecycleSummary::Active
            && observed.containers.iter().any(|c| c.state == ContainerState::Running);
        let terminating_since = match (is_stopping, memory.terminating_since) {
            (false, _) => None,
            (true, None) => Some(self.clock.now()),
            (true, since) => since,
        };
        let is_news = memory.status.as_deref() != Some(&status)
            || memory.terminating_since != terminating_since
            || memory.lifecycle != Some(lifecycle);
        if !is_news {
            return;
        }
        let status = Arc::new(status);
        memory.status = Some(status.clone());
        memory.terminating_since = terminating_since;
        memory.lifecycle = Some(lifecycle);
        let pod = pod.clone();
        self.status_cache.tell(PodStatusEntry {
            pod,
            status,
            terminating_since,
            lifecycle,
            has_released: false,
        });
    }

    /// Reads what containers that ended since the last look left; forgets what belongs to containers that are gone.
    async fn read_termination_messages(&self, observed: &PodStatus, memory: &mut Memory) {
        memory.termination_messages.retain(|id, _| observed.containers.iter().any(|c| c.id == *id));
        for container in &observed.containers {
            let has_ended = container.state == ContainerState::Exited;
            if !has_ended || memory.termination_messages.contains_key(&container.id) {
                continue;
            }
            self.note_end(&observed.pod, container);
            let ended = container.clone();
            let read = file_work(move || termination_message(&ended)).await;
            memory.termination_messages.insert(container.id.clone(), read.unwrap_or_default());
        }
    }

    /// Notes that a container ended.
    fn note_end(&self, pod: &PodRef, ended: &ContainerStatus) {
        let reason = match ended.reason.as_str() {
            "" | "Error" | "Completed" => String::new(),
            reason => format!(", {reason}"),
        };
        let detail = format!("{}: exit code {}{reason}", ended.name, ended.exit_code);
        self.status_cache.timeline().mark(pod, TimelineStep::Ended, detail, self.clock.now());
    }

    /// Tells an event. Work is tried again and again: an event that is the same as the last one of its reason is not logged
    /// again, and the API server, where equal events are counted in one object that lives for an hour after the last, is told of it now and
    /// then.
    pub(super) fn event(&self, pod: &PodRef, container: Option<&str>, event: PodEvent, memory: &mut Memory) {
        match event.kind {
            EventKind::Warning => memory.failure = Some(event.message.clone()),
            EventKind::Normal => {}
        }
        let key = (container.unwrap_or_default().to_owned(), event.reason);
        let now = Instant::now();
        match memory.told.get_mut(&key) {
            Some(told) if told.message == event.message => {
                told.at = self.repeat(pod, container, &event, told.at, now);
            }
            Some(_) | None => {
                self.announce(pod, container, &event);
                memory.told.insert(key, ReportedEvent { message: event.message, at: now });
            }
        }
    }

    /// Tells the API server once more of an event that it was told `at`, if that was long ago. Answers when it was last told.
    pub(super) fn repeat(
        &self,
        pod: &PodRef,
        container: Option<&str>,
        event: &PodEvent,
        at: Instant,
        now: Instant,
    ) -> Instant {
        if now.saturating_duration_since(at) < REPEAT {
            return at;
        }
        (self.events)(pod, container, event);
        now
    }

    /// Tells an event that happened once.
    pub(super) fn announce(&self, pod: &PodRef, container: Option<&str>, event: &PodEvent) {
        self.status_cache.timeline().event(pod, container, event, self.clock.now());
        (self.events)(pod, container, event);
        let (uid, reason, message) = (&pod.uid, event.reason, event.message.as_str());
        match event.kind {
            EventKind::Normal => tracing::info!(%pod, %uid, container, reason, "{message}"),
            EventKind::Warning => tracing::warn!(%pod, %uid, container, reason, "{message}"),
        }
    }
}

/// The status to go on from: the last one told, and what the API server knows beyond it whenever that gave the pod anew: after a
/// restart of the daemon, and when others wrote what bears on the pod's readiness.
fn previous(pod: &Arc<Pod>, memory: &mut Memory) -> Option<ApiStatus> {
    let is_heeded = memory.heeded.as_ref().is_some_and(|heeded| Arc::ptr_eq(heeded, pod));
    memory.heeded = Some(pod.clone());
    match (memory.status.as_deref(), &pod.status) {
        (Some(own), Some(api)) if !is_heeded && !is_static(pod) => Some(newest(own, api)),
        (Some(own), _) => Some(own.clone()),
        // What an earlier daemon told goes on.
        (None, given) => given.clone(),
    }
}
