//! Lifecycle of containers. Pure.

use std::path::Path;
use std::time::Duration;

use hostlet_base::{ContainerId, PodUid, SandboxId};
use tokio::time::Instant;

use super::super::{CriError, Operation, SandboxState, wire};
use super::clock::later;
use super::history::What;
use super::script::{OnTerm, Run, Script};
use super::world::World;

/// Exit code of a killed process.
const KILLED: i32 = 128 + 9;

/// A container of the runtime.
#[derive(Clone, Debug)]
pub(super) struct ContainerRecord {
    pub(super) config: wire::ContainerConfig,
    pub(super) sandbox: SandboxId,
    pub(super) pod: PodUid,
    pub(super) log_path: String,
    pub(super) image_id: String,
    /// Nanoseconds since the epoch.
    pub(super) created_at: i64,
    pub(super) life: Life,
}

/// State of a container. Times in nanoseconds since the epoch; 0 is never, as in the CRI.
#[derive(Clone, Debug)]
pub(super) enum Life {
    Created,
    Running {
        started_at: i64,
        /// When it will exit by itself, and its exit code.
        end: Option<(Instant, i32)>,
    },
    Exited {
        started_at: i64,
        finished_at: i64,
        code: i32,
        reason: String,
        message: String,
    },
    /// The runtime lost track of it.
    Unknown,
}

/// Progress of a stop.
pub(super) enum Stopping {
    /// Stopped or removed.
    Done,
    /// Killed at this time unless it exits before.
    KillAt(Instant),
}

impl World {
    /// The name containerd reserves for a container.
    pub(super) fn container_name(&self, sandbox: &SandboxId, config: &wire::ContainerConfig) -> String {
        let container = config.metadata.clone().unwrap_or_default();
        let pod = self.sandboxes.get(sandbox).and_then(|record| record.config.metadata.clone());
        let pod = pod.unwrap_or_default();
        format!("{}_{}_{}_{}_{}", container.name, pod.name, pod.namespace, pod.uid, container.attempt)
    }

    /// Creates the container `id`.
    pub(super) fn create_container(
        &mut self,
        id: ContainerId,
        sandbox: &SandboxId,
        config: wire::ContainerConfig,
        now: Instant,
    ) -> Result<ContainerId, CriError> {
        let operation = Operation::CreateContainer;
        let Some(record) = self.sandboxes.get(sandbox) else {
            let message = format!("failed to find sandbox id \"{sandbox}\": not found");
            return Err(CriError::NotFound { operation, message });
        };
        if record.state == SandboxState::NotReady {
            let message = format!(
                "failed to get sandbox container task: no running task found: task {sandbox} not found: not found"
            );
            return Err(CriError::NotFound { operation, message });
        }
        let pod = record.pod.clone();
        let log_path = log_path(&record.config.log_directory, &config.log_path);
        let name = self.container_name(sandbox, &config);
        self.reserve(&name, id.as_str()).map_err(|taken| CriError::Failed {
            operation,
            message: format!("failed to reserve container name \"{name}\": {taken}"),
        })?;
        let image = config.image.clone().unwrap_or_default().image;
        let Some(image_id) = self.images.find(&image).map(|image| image.id.clone()) else {
            self.release_names(id.as_str());
            let message = format!("failed to resolve image \"{image}\": not found");
            return Err(CriError::NotFound { operation, message });
        };
        let created_at = self.clock.creation(now);
        let record = ContainerRecord {
            sandbox: sandbox.clone(),
            pod: pod.clone(),
            log_path,
            image_id,
            created_at,
            life: Life::Created,
            config,
        };
        self.containers.insert(id.clone(), record);
        self.changed(&pod, id.as_str());
        Ok(id)
    }

    /// Changes the resources of a container that was created or runs; of its configuration, as containerd keeps them.
    pub(super) fn update_container(
        &mut self,
        id: &ContainerId,
        resources: wire::LinuxContainerResources,
    ) -> Result<(), CriError> {
        let operation = Operation::UpdateContainer;
        let Some(record) = self.containers.get_mut(id) else { return Err(no_container(operation, id)) };
        if !matches!(record.life, Life::Created | Life::Running { .. }) {
            let message = format!("container \"{id}\" is in {} state", state_name(&record.life));
            return Err(CriError::Failed { operation, message });
        }
        record.config.linux.get_or_insert_default().resources = Some(resources);
        self.touch();
        Ok(())
    }

    /// The log to open for a running container.
    pub(super) fn log_of_running(&self, id: &ContainerId) -> Result<String, CriError> {
        let operation = Operation::ReopenLog;
        let Some(record) = self.containers.get(id) else { return Err(no_container(operation, id)) };
        match record.life {
            Life::Running { .. } => Ok(record.log_path.clone()),
            Life::Created | Life::Exited { .. } | Life::Unknown => {
                Err(CriError::Failed { operation, message: "container is not running".to_owned() })
            }
        }
    }

    /// Writes a file with the ID in place of the state.
    pub(super) fn checkpoint_container(&self, id: &ContainerId, file: &Path) -> Result<(), CriError> {
        let operation = Operation::CheckpointContainer;
        let Some(record) = self.containers.get(id) else { return Err(no_container(operation, id)) };
        if !matches!(record.life, Life::Running { .. }) {
            let message = format!("container \"{id}\" is in {} state", state_name(&record.life));
            return Err(CriError::Failed { operation, message });
        }
        let written = std::fs::write(file, id.as_str());
        written.map_err(|error| CriError::Failed { operation, message: error.to_string() })
    }

    /// Starts a created container, which then follows its script.
    pub(super) fn start_container(&mut self, id: &ContainerId, now: Instant) -> Result<(), CriError> {
        let operation = Operation::StartContainer;
        let Some(record) = self.containers.get(id) else {
            return Err(no_container(operation, id));
        };
        if !matches!(record.life, Life::Created) {
            let message = format!("container \"{id}\" is in {} state", state_name(&record.life));
            return Err(CriError::Failed { operation, message });
        }
        let sandbox = self.sandboxes.get(&record.sandbox);
        if !sandbox.is_some_and(|sandbox| sandbox.state == SandboxState::Ready) {
            let message = format!("sandbox container \"{}\" is not running", record.sandbox);
            return Err(CriError::Failed { operation, message });
        }
        let name = record.config.metadata.clone().unwrap_or_default().name;
        let script = self.scripts.get(&name);
        let earlier = self.starts.entry((record.pod.clone(), name)).or_default();
        let run = script.map_or(Run::Forever, |script| script.run(*earlier));
        *earlier += 1;
        let started_at = self.clock.at(now);
        match run {
            Run::Forever => self.begin(id, now, started_at, None),
            Run::Exits { after, code } => self.begin(id, now, started_at, Some((later(now, after), code))),
            Run::StartError(message) => {
                self.end(id, now, 128, "StartError", &message);
                return Err(CriError::Failed { operation, message });
            }
        }
        Ok(())
    }

    fn begin(&mut self, id: &ContainerId, now: Instant, started_at: i64, end: Option<(Instant, i32)>) {
        self.note(id, now, What::Started);
        if let Some(record) = self.containers.get_mut(id) {
            record.life = Life::Running { started_at, end };
            let pod = record.pod.clone();
            self.exits.extend(end.map(|(at, _)| (at, id.clone())));
            self.changed(&pod, id.as_str());
        }
    }

    /// Signals a container's process, or kills it without a grace period.
    pub(super) fn terminate(&mut self, id: &ContainerId, grace: Duration, now: Instant) -> Stopping {
        let Some(record) = self.containers.get_mut(id) else {
            return Stopping::Done;
        };
        let Life::Running { end, .. } = &mut record.life else {
            return Stopping::Done;
        };
        if grace.is_zero() {
            self.kill(id, now);
            return Stopping::Done;
        }
        let name = &record.config.metadata.clone().unwrap_or_default().name;
        let reaction = self.scripts.get(name).cloned().unwrap_or_else(Script::forever).reaction();
        if let OnTerm::Exits { after, code } = reaction {
            let at = later(now, after);
            if end.is_none_or(|(earlier, _)| at < earlier) {
                *end = Some((at, code));
                self.exits.insert((at, id.clone()));
                self.touch();
            }
        }
        self.settle(now);
        Stopping::KillAt(later(now, grace))
    }

    /// Whether a stop is complete; kills the process after its grace period.
    pub(super) fn stopped(&mut self, id: &ContainerId, kill_at: Instant, now: Instant) -> bool {
        if now >= kill_at {
            self.kill(id, now);
        }
        !self.is_running(id)
    }

    /// Kills a container's process, if it runs.
    pub(super) fn kill(&mut self, id: &ContainerId, now: Instant) {
        self.exit(id, now, KILLED, "Error");
    }

    /// Exits a process at its scheduled time, unless rescheduled.
    pub(super) fn end_by_itself(&mut self, id: &ContainerId, at: Instant) {
        let Some(record) = self.containers.get(id) else {
            return;
        };
        if let Life::Running { end: Some((due, code)), .. } = record.life
            && due == at
        {
            self.exit(id, at, code, reason(code));
        }
    }

    /// Exits a running process.
    pub(super) fn exit(&mut self, id: &ContainerId, at: Instant, code: i32, reason: &str) {
        if self.is_running(id) {
            self.end(id, at, code, reason, "");
            self.note(id, at, What::Ended { code });
        }
    }

    fn is_running(&self, id: &ContainerId) -> bool {
        self.containers.get(id).is_some_and(|record| matches!(record.life, Life::Running { .. }))
    }

    fn end(&mut self, id: &ContainerId, at: Instant, code: i32, reason: &str, message: &str) {
        let now = self.clock.at(at);
        if let Some(record) = self.containers.get_mut(id) {
            let started_at = match record.life {
                Life::Running { started_at, .. } | Life::Exited { started_at, .. } => started_at,
                Life::Created | Life::Unknown => 0,
            };
            record.life = Life::Exited {
                started_at,
                finished_at: now,
                code,
                reason: reason.to_owned(),
                message: message.to_owned(),
            };
            let pod = record.pod.clone();
            self.changed(&pod, id.as_str());
        }
    }

    /// Kills and removes a container.
    pub(super) fn remove_container(&mut self, id: &ContainerId, now: Instant) {
        self.kill(id, now);
        if let Some(record) = self.forget_container(id) {
            self.changed(&record.pod, id.as_str());
        }
    }

    pub(super) fn forget_container(&mut self, id: &ContainerId) -> Option<ContainerRecord> {
        self.note(id, self.now(), What::Removed);
        self.release_names(id.as_str());
        self.containers.remove(id)
    }
}

pub(super) fn no_container(operation: Operation, id: &ContainerId) -> CriError {
    let message = format!("an error occurred when try to find container \"{id}\": not found");
    CriError::NotFound { operation, message }
}

/// containerd's reason for an exit.
pub(super) fn reason(code: i32) -> &'static str {
    if code == 0 { "Completed" } else { "Error" }
}

fn state_name(life: &Life) -> &'static str {
    match life {
        Life::Created => "CONTAINER_CREATED",
        Life::Running { .. } => "CONTAINER_RUNNING",
        Life::Exited { .. } => "CONTAINER_EXITED",
        Life::Unknown => "CONTAINER_UNKNOWN",
    }
}

fn log_path(directory: &str, path: &str) -> String {
    if directory.is_empty() || path.is_empty() { String::new() } else { format!("{directory}/{path}") }
}
