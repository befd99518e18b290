//! Statuses of a pod's containers: the newest instance of each is its state, the previous one its last state, overridden by the
//! waiting reasons of the last sync (upstream `convertToAPIContainerStatuses`).

use hostlet_base::reasons;
use hostlet_pod::{
    AdmittedPod, ContainerKind, PodContainer, absolute_mount_path, recursive_read_only, whole_seconds,
};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, LinuxUser};
use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus as ApiStatus, ContainerUser, ImageVolumeStatus,
    LinuxContainerUser, VolumeMount, VolumeMountStatus, VolumeStatus,
};

use super::conditions::restarts_all;
use super::input::{LifecycleSummary, StatusInput};
use super::restart::Restarts;

/// Maximum bytes of a pod's termination messages, shared equally by its containers.
const MAX_MESSAGE_BYTES: usize = 12 << 10;
/// Exit code reported for a container with an unknown exit: as if killed.
const UNKNOWN_EXIT_CODE: i32 = 137;
/// Upstream's message for a container without a known end.
pub(super) const NOT_LOCATED: &str = "The container could not be located when the pod was terminated";
/// Upstream's message for a container that ran and was removed.
const USED_TO_RUN: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";

/// Upstream's message for a container that was removed because all containers of its pod start again.
const REMOVED_TO_RESTART: &str = "The container is removed because RestartAllContainers in place";

/// Statuses of the init containers, including sidecars, in the order of the spec.
pub(super) fn init_container_statuses(input: &StatusInput<'_>) -> Vec<ApiStatus> {
    let previous = input.previous.and_then(|previous| previous.init_container_statuses.as_deref());
    statuses(input, input.pod.init_containers().iter().map(PodContainer::init), previous)
}

/// Statuses of the main containers, sorted by name as upstream.
pub(super) fn main_container_statuses(input: &StatusInput<'_>) -> Vec<ApiStatus> {
    let previous = input.previous.and_then(|previous| previous.container_statuses.as_deref());
    let mut statuses = statuses(input, input.pod.main_containers(), previous);
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
}

/// Statuses of the ephemeral containers, sorted by name as upstream.
pub(super) fn ephemeral_container_statuses(input: &StatusInput<'_>) -> Vec<ApiStatus> {
    let previous = input.previous.and_then(|previous| previous.ephemeral_container_statuses.as_deref());
    let mut statuses = statuses(input, input.pod.ephemeral_containers(), previous);
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
}

fn statuses<'a>(
    input: &StatusInput<'_>,
    containers: impl Iterator<Item = PodContainer<'a>>,
    previous: Option<&[ApiStatus]>,
) -> Vec<ApiStatus> {
    let one = |PodContainer { kind, spec: container }: PodContainer<'_>| {
        let old = previous.unwrap_or_default().iter().find(|old| old.name == container.name);
        let one = OneContainer { input, pod: input.pod, kind, container, old };
        let mut status = one.status();
        one.fill_probes(&mut status);
        cut_messages(&mut status, input.pod.all_containers().count());
        status
    };
    containers.map(one).collect()
}

/// The user of a container's process (KEP-3619), reported only by newer runtimes.
fn user(user: &LinuxUser) -> ContainerUser {
    let groups = Some(user.supplemental_groups.clone()).filter(|groups| !groups.is_empty());
    let linux = LinuxContainerUser { uid: user.uid, gid: user.gid, supplemental_groups: groups };
    ContainerUser { linux: Some(linux) }
}

struct OneContainer<'a> {
    input: &'a StatusInput<'a>,
    pod: &'a AdmittedPod,
    kind: ContainerKind,
    container: &'a Container,
    old: Option<&'a ApiStatus>,
}

impl OneContainer<'_> {
    fn status(&self) -> ApiStatus {
        let mut instances =
            self.input.observed.containers.iter().filter(|seen| *seen.name == *self.container.name);
        let newest = instances.next();
        let mut status = match newest {
            Some(newest) => self.seen(newest, instances.next()),
            None => self.not_seen(),
        };
        self.overlay(&mut status, newest);
        status.user = newest.and_then(|newest| newest.user.as_deref()).map(user);
        let signal = newest.and_then(|newest| newest.stop_signal).filter(|_| self.input.gates.stop_signals);
        status.stop_signal = signal.map(str::to_owned);
        status.volume_mounts = self.volume_mounts(newest);
        status.allocated_resources_status = self.input.device_health.get(&self.container.name).cloned();
        status
    }

    /// The actual mounts; mounts of images with the image of the newest instance.
    fn volume_mounts(&self, newest: Option<&ContainerStatus>) -> Option<Vec<VolumeMountStatus>> {
        let images = newest.map(|newest| &newest.image_mounts).filter(|_| self.input.gates.image_volumes);
        let image = |mount: &VolumeMount| {
            let image_ref = images?.get(&absolute_mount_path(mount))?.clone();
            Some(VolumeStatus { image: Some(ImageVolumeStatus { image_ref }) })
        };
        let status = |mount: &VolumeMount| {
            let read_only = mount.read_only.filter(|read_only| *read_only);
            let is_recursive = recursive_read_only(mount, self.input.recursive_read_only).unwrap_or(false);
            let mode = if is_recursive { "Enabled" } else { "Disabled" };
            VolumeMountStatus {
                mount_path: mount.mount_path.clone(),
                name: mount.name.clone(),
                read_only,
                recursive_read_only: read_only.map(|_| mode.to_owned()),
                volume_status: image(mount),
            }
        };
        let mounts = self.container.volume_mounts.as_deref().filter(|mounts| !mounts.is_empty())?;
        Some(mounts.iter().map(status).collect())
    }

    fn seen(&self, newest: &ContainerStatus, before: Option<&ContainerStatus>) -> ApiStatus {
        let mut status = self.converted(newest);
        let allocated = self.container.resources.clone().unwrap_or_default();
        // What does not run is started with the allocated resources.
        let actuated = self.input.actuated.filter(|_| newest.state == ContainerState::Running);
        let enforced = actuated.and_then(|actuated| actuated.containers.get(&self.container.name));
        status.allocated_resources = allocated.requests.clone();
        status.resources = Some(enforced.map_or(allocated.clone(), |enforced| enforced.shown_in(&allocated)));
        if let Some(before) = before {
            status.last_state = self.converted(before).state;
        }
        status
    }

    fn converted(&self, seen: &ContainerStatus) -> ApiStatus {
        let container_id = format!("{}://{}", self.input.runtime_name, seen.id);
        let attempt = i32::try_from(seen.attempt).unwrap_or(i32::MAX);
        let restarts = match seen.state {
            // Not incremented before it starts: if it is removed, the next one has the same attempt.
            ContainerState::Created => (attempt - 1).max(0),
            ContainerState::Running | ContainerState::Exited | ContainerState::Unknown => attempt,
        };
        let was_running = self.old.is_some_and(|old| running(old).is_some());
        let mut restart_count = restarts.max(self.old.map_or(0, |old| old.restart_count));
        let state = match seen.state {
            ContainerState::Running => {
                // Earlier instances were removed, so attempts started at 0 again, but this is still a restart.
                let ended = self.old.filter(|old| terminated(old).is_some() && old.restart_count >= attempt);
                restart_count = restart_count.saturating_add(i32::from(ended.is_some()));
                let started_at = seen.started_at.map(whole_seconds);
                ApiState { running: Some(ContainerStateRunning { started_at }), ..ApiState::default() }
            }
            ContainerState::Exited => ended(self.terminated(seen, container_id.clone())),
            ContainerState::Unknown if was_running => {
                restart_count = restart_count.saturating_add(1);
                let lost = unlocated(NOT_LOCATED);
                let restarting =
                    restarts_all(self.input).then(|| reasons::RESTARTING_ALL_CONTAINERS.to_owned());
                ended(ContainerStateTerminated { reason: restarting.or(lost.reason), ..lost })
            }
            // A termination that was reported before is kept.
            ContainerState::Unknown => self
                .reported_lost(&container_id)
                .map_or_else(|| waiting(None, None), |lost| ended(lost.clone())),
            ContainerState::Created => waiting(None, None),
        };
        ApiStatus {
            name: self.container.name.clone(),
            image: if seen.image.is_empty() { self.spec_image() } else { seen.image.clone() },
            image_id: seen.image_ref.clone(),
            last_state: Some(self.last_state(&container_id)),
            container_id: Some(container_id),
            restart_count,
            state: Some(state),
            ..ApiStatus::default()
        }
    }

    /// The reported termination of a container that the runtime lost.
    fn reported_lost(&self, container_id: &str) -> Option<&ContainerStateTerminated> {
        let old = self.old.filter(|old| old.container_id.as_deref() == Some(container_id))?;
        let is_lost = |reason: &str| {
            [reasons::CONTAINER_STATUS_UNKNOWN, reasons::RESTARTING_ALL_CONTAINERS].contains(&reason)
        };
        terminated(old).filter(|ended| ended.reason.as_deref().is_some_and(is_lost))
    }

    /// The previous termination, if the runtime no longer has that instance.
    fn last_state(&self, container_id: &str) -> ApiState {
        let Some(old) = self.old else { return ApiState::default() };
        let is_another = old.container_id.as_deref() != Some(container_id);
        match terminated(old) {
            Some(state) if is_another => ended(state.clone()),
            // It terminated unobserved and was removed.
            None if is_another && old.container_id.is_some() && running(old).is_some() => {
                ended(unlocated(USED_TO_RUN))
            }
            _ => old.last_state.clone().unwrap_or_default(),
        }
    }

    fn terminated(&self, seen: &ContainerStatus, container_id: String) -> ContainerStateTerminated {
        let reason = match seen.reason.as_str() {
            "" if seen.exit_code == 0 => reasons::COMPLETED,
            "" => reasons::ERROR,
            reason => reason,
        };
        let written = self.input.termination_messages.get(&seen.id).map(String::as_str).unwrap_or_default();
        let parts: Vec<&str> =
            [seen.message.as_str(), written].into_iter().filter(|part| !part.is_empty()).collect();
        ContainerStateTerminated {
            container_id: Some(container_id),
            exit_code: seen.exit_code,
            finished_at: seen.finished_at.map(whole_seconds),
            message: (!parts.is_empty()).then(|| parts.join(": ")),
            reason: Some(reason.to_owned()),
            signal: None,
            started_at: seen.started_at.map(whole_seconds),
        }
    }

    /// The runtime has no instance: it was never created, or was removed.
    fn not_seen(&self) -> ApiStatus {
        let mut status = match self.old {
            Some(old) if terminated(old).is_some() => old.clone(),
            old => ApiStatus {
                name: self.container.name.clone(),
                image: self.spec_image(),
                last_state: Some(old.and_then(|old| old.last_state.clone()).unwrap_or_default()),
                restart_count: old.map_or(0, |old| old.restart_count),
                state: Some(self.default_state()),
                ..ApiStatus::default()
            },
        };
        let has_run = self.old.is_some_and(|old| running(old).is_some() || terminated(old).is_some());
        if has_run && self.input.lifecycle == LifecycleSummary::Active && restarts_all(self.input) {
            status.state = Some(waiting(Some(reasons::RESTARTING_ALL_CONTAINERS), Some(REMOVED_TO_RESTART)));
            let removed = ContainerStateTerminated {
                exit_code: UNKNOWN_EXIT_CODE,
                reason: Some(reasons::RESTARTING_ALL_CONTAINERS.to_owned()),
                message: Some(REMOVED_TO_RESTART.to_owned()),
                ..ContainerStateTerminated::default()
            };
            status.last_state = Some(ended(removed));
            status.restart_count = self.old.map_or(0, |old| old.restart_count).saturating_add(1);
            return status;
        }
        let has_history = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
        if self.old.is_some_and(|old| running(old).is_some()) && !has_history {
            // It ran, so it must not be reported as never started, which would make the pod Pending again.
            status.last_state = Some(ended(unlocated(USED_TO_RUN)));
            if self.input.lifecycle == LifecycleSummary::Active {
                status.restart_count = status.restart_count.saturating_add(1);
            }
        }
        status
    }

    fn default_state(&self) -> ApiState {
        let reason = if self.pod.init_containers().is_empty() {
            reasons::CONTAINER_CREATING
        } else {
            reasons::POD_INITIALIZING
        };
        waiting(Some(reason), None)
    }

    fn spec_image(&self) -> String {
        self.container.image.clone().unwrap_or_default()
    }

    /// A container to be started is waiting, for the reason of the last sync.
    fn overlay(&self, status: &mut ApiStatus, newest: Option<&ContainerStatus>) {
        if matches!(self.kind, ContainerKind::Init | ContainerKind::Sidecar) {
            if newest.is_some_and(|newest| newest.state == ContainerState::Exited && newest.exit_code == 0) {
                return;
            }
            if newest.is_none() && self.must_have_succeeded(status) {
                status.state = Some(ended(ContainerStateTerminated {
                    reason: Some(reasons::COMPLETED.to_owned()),
                    message: Some(
                        "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
                            .to_owned(),
                    ),
                    ..ContainerStateTerminated::default()
                }));
                return;
            }
        }
        if !self.will_be_started(newest) {
            return;
        }
        let state = match self.input.reasons.get(&self.container.name) {
            Some(reason) => waiting(Some(&reason.reason), Some(&reason.message)),
            None if self.comes_back(newest) => self.default_state(),
            None => return,
        };
        if terminated(status).is_some() {
            status.last_state = status.state.take();
        }
        status.state = Some(state);
    }

    /// A running container has started once its startup probe succeeded, and then is ready while its readiness probe succeeds;
    /// an init container is ready once it succeeded. Ephemeral containers are reported as neither, as upstream.
    fn fill_probes(&self, status: &mut ApiStatus) {
        if self.kind == ContainerKind::Ephemeral {
            return;
        }
        let probes = self.input.probes;
        let running = running(status).and_then(|_| self.input.observed.container(&self.container.name));
        // A new daemon that has not probed it yet continues with what was reported.
        let is_unknown = running.is_some_and(|running| !probes.0.contains_key(&running.id));
        let reported = self.old.filter(|old| is_unknown && old.container_id == status.container_id);
        let reported = reported.filter(|old| self::running(old).is_some());
        let has_started = |id| match reported.and_then(|old| old.started) {
            Some(started) if self.container.startup_probe.is_some() => started,
            Some(_) | None => probes.has_started(self.container, id),
        };
        let is_ready = |id| match reported {
            Some(old) if self.container.readiness_probe.is_some() => old.ready,
            Some(_) | None => probes.is_ready(self.container, id),
        };
        let started = running.filter(|running| has_started(&running.id));
        status.started = Some(started.is_some());
        status.ready = match self.kind {
            ContainerKind::Init => terminated(status).is_some_and(|ended| ended.exit_code == 0),
            ContainerKind::Sidecar | ContainerKind::Main | ContainerKind::Ephemeral => {
                started.is_some_and(|started| is_ready(&started.id))
            }
        };
    }

    /// Whether it was stopped to be replaced although its policy does not restart it: it must not be reported as
    /// terminated, which is final for the API server.
    fn comes_back(&self, newest: Option<&ContainerStatus>) -> bool {
        let restarts = self.restarts();
        let ended = newest.filter(|newest| newest.state == ContainerState::Exited);
        ended.is_some_and(|ended| {
            restarts.is_replaced(self.container) && !restarts.by_policy(self.container, ended.exit_code)
        })
    }

    fn restarts(&self) -> Restarts<'_> {
        Restarts { pod: self.pod, starting: self.input.starting }
    }

    /// Whether it is an init container that must have succeeded, although the runtime no longer has it: main containers were
    /// created.
    fn must_have_succeeded(&self, status: &ApiStatus) -> bool {
        let is_waiting = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        let was_created = |container: &Container| {
            self.input
                .observed
                .container(&container.name)
                .is_some_and(|seen| seen.state != ContainerState::Unknown)
        };
        // While all containers restart, it was removed to run again, and those seen were there before.
        self.kind == ContainerKind::Init
            && is_waiting
            && !restarts_all(self.input)
            && self.pod.spec().containers.iter().any(was_created)
    }

    fn will_be_started(&self, newest: Option<&ContainerStatus>) -> bool {
        self.input.lifecycle == LifecycleSummary::Active
            && !self.pod.is_deleted()
            && newest.is_none_or(|newest| match newest.state {
                ContainerState::Running => false,
                ContainerState::Created | ContainerState::Unknown => true,
                ContainerState::Exited => self.restarts().after(self.container, newest.exit_code),
            })
    }
}

fn cut_messages(status: &mut ApiStatus, containers: usize) {
    let max = MAX_MESSAGE_BYTES / containers.max(1);
    let states = [status.state.as_mut(), status.last_state.as_mut()];
    let ended = states.into_iter().flatten().filter_map(|state| state.terminated.as_mut());
    for message in ended.filter_map(|ended| ended.message.as_mut()) {
        let end = (0..=max.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
    }
}

fn running(status: &ApiStatus) -> Option<&ContainerStateRunning> {
    status.state.as_ref()?.running.as_ref()
}

fn terminated(status: &ApiStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

fn ended(terminated: ContainerStateTerminated) -> ApiState {
    ApiState { terminated: Some(terminated), ..ApiState::default() }
}

pub(super) fn unlocated(message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: UNKNOWN_EXIT_CODE,
        reason: Some(reasons::CONTAINER_STATUS_UNKNOWN.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    }
}

fn waiting(reason: Option<&str>, message: Option<&str>) -> ApiState {
    let text = |text: &str| text.to_owned();
    let waiting = ContainerStateWaiting { reason: reason.map(text), message: message.map(text) };
    ApiState { waiting: Some(waiting), ..ApiState::default() }
}

#[cfg(test)]
#[path = "containers_tests.rs"]
mod tests;
