//! Telling of a pod: its status on the board, its events in the log. Nothing is repeated while nothing changes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::plan::{Plan, SandboxPlan};
use super::syncer::Services;
use super::{Memory, StatusOverride};
use crate::cri::{ContainerState, ContainerStatus};
use crate::log::termination_message;
use crate::pleg::PodStatus;
use crate::pod::Told;
use crate::pod::status::{Lifecycle, StatusInput, generate};
use crate::pod::timeline::Step;
use crate::sys::file_work;
use crate::types::{EventKind, PodEvent, PodRef};

/// How far a pod's life has come, and what of its work bears on its status.
pub(super) enum Progress<'a> {
    /// Its containers may be started; with the plan of this step.
    Syncing(&'a Plan),
    /// It is being stopped, to end with this status.
    Terminating(Option<&'a StatusOverride>),
    /// It is stopped, and ends with this status.
    Terminated(Option<&'a StatusOverride>),
}

impl Services {
    /// Tells the pod's status as it follows from what is observed.
    pub(super) async fn tell(
        &self,
        pod: &Arc<Pod>,
        observed: &PodStatus,
        progress: Progress<'_>,
        memory: &mut Memory,
    ) {
        self.read_termination_messages(observed, memory).await;
        let (lifecycle, status_override, needed_sandbox) = match progress {
            Progress::Syncing(plan) => (Lifecycle::Active, None, needed_sandbox(plan)),
            Progress::Terminating(status) => (Lifecycle::Terminating, status, None),
            Progress::Terminated(status) => (Lifecycle::Terminated, status, None),
        };
        let sandbox_error = needed_sandbox.map(|reason| memory.sandbox_error.as_deref().unwrap_or(reason));
        let status = generate(&StatusInput {
            pod,
            observed,
            reasons: &memory.waiting,
            termination_messages: &memory.termination_messages,
            sandbox_error,
            lifecycle,
            status_override,
            // What an earlier daemon told goes on.
            previous: memory.status.as_deref().or(pod.status.as_ref()),
            now: self.clock.now(),
            runtime_name: &self.host.runtime_name,
            host_ips: &self.host.node_ips.now(),
        });
        // A pod that ran to its end is stopped too, but nobody would call it terminating.
        let is_stopping = lifecycle != Lifecycle::Active
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
        self.board.tell(Told { pod, status, terminating_since, lifecycle, has_given_back: false });
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
        self.board.timeline().mark(pod, Step::Ended, detail, self.clock.now());
    }

    /// Tells an event, unless it is the same as the last one of its reason: work is tried again and again.
    pub(super) fn event(&self, pod: &PodRef, container: Option<&str>, event: PodEvent, memory: &mut Memory) {
        match event.kind {
            EventKind::Warning => memory.failure = Some(event.message.clone()),
            EventKind::Normal => {}
        }
        let key = (container.unwrap_or_default().to_owned(), event.reason);
        if memory.told.get(&key) == Some(&event.message) {
            return;
        }
        self.announce(pod, container, &event);
        memory.told.insert(key, event.message);
    }

    /// Tells an event that happened once.
    pub(super) fn announce(&self, pod: &PodRef, container: Option<&str>, event: &PodEvent) {
        self.board.timeline().event(pod, container, event, self.clock.now());
        (self.events)(pod, container, event);
        let (uid, reason, message) = (&pod.uid, event.reason, event.message.as_str());
        match event.kind {
            EventKind::Normal => tracing::info!(%pod, %uid, container, reason, "{message}"),
            EventKind::Warning => tracing::warn!(%pod, %uid, container, reason, "{message}"),
        }
    }
}

/// Why the pod has no sandbox that will do, if that is so.
fn needed_sandbox(plan: &Plan) -> Option<&'static str> {
    match &plan.sandbox {
        SandboxPlan::Create { reason, .. } => Some(reason),
        SandboxPlan::Keep(_) | SandboxPlan::Stop => None,
    }
}
