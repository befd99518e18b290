//! The runtime's records as the CRI writes them. The client's conversions make our types of them.

use hostlet_base::{ContainerId, SandboxId};

use super::super::{SandboxState, wire};
use super::containers::{ContainerRecord, Life};
use super::sandboxes::SandboxRecord;
use super::world::World;

/// The memory that a running container uses unless a test says otherwise, bytes.
const MEMORY_IN_USE: u64 = 1 << 20;

fn sandbox_state(state: SandboxState) -> i32 {
    match state {
        SandboxState::Ready => wire::PodSandboxState::SandboxReady as i32,
        SandboxState::NotReady => wire::PodSandboxState::SandboxNotready as i32,
    }
}

fn container_state(life: &Life) -> i32 {
    match life {
        Life::Created => wire::ContainerState::ContainerCreated as i32,
        Life::Running { .. } => wire::ContainerState::ContainerRunning as i32,
        Life::Exited { .. } => wire::ContainerState::ContainerExited as i32,
        Life::Unknown => wire::ContainerState::ContainerUnknown as i32,
    }
}

pub(super) fn sandbox(id: &SandboxId, record: &SandboxRecord) -> wire::PodSandbox {
    wire::PodSandbox {
        id: id.to_string(),
        metadata: record.config.metadata.clone(),
        state: sandbox_state(record.state),
        created_at: record.created_at,
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        runtime_handler: record.handler.clone(),
    }
}

pub(super) fn sandbox_status(id: &SandboxId, record: &SandboxRecord) -> wire::PodSandboxStatus {
    let context = record.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = context.and_then(|context| context.namespace_options.clone());
    wire::PodSandboxStatus {
        id: id.to_string(),
        metadata: record.config.metadata.clone(),
        state: sandbox_state(record.state),
        created_at: record.created_at,
        network: Some(wire::PodSandboxNetworkStatus {
            ip: record.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            additional_ips: Vec::new(),
        }),
        linux: Some(wire::LinuxPodSandboxStatus { namespaces: Some(wire::Namespace { options }) }),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        runtime_handler: record.handler.clone(),
    }
}

pub(super) fn container_stats(
    id: &ContainerId,
    record: &ContainerRecord,
    world: &World,
) -> wire::ContainerStats {
    let bytes = world.written.get(id).copied().unwrap_or_default();
    let used = world.memory.get(id).copied().unwrap_or(MEMORY_IN_USE);
    let memory = matches!(record.life, Life::Running { .. }).then_some(used);
    wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: id.to_string(),
            metadata: record.config.metadata.clone(),
            labels: record.config.labels.clone(),
            annotations: record.config.annotations.clone(),
        }),
        memory: memory.map(|bytes| wire::MemoryUsage {
            usage_bytes: Some(wire::UInt64Value { value: bytes }),
            ..wire::MemoryUsage::default()
        }),
        writable_layer: Some(wire::FilesystemUsage {
            timestamp: record.created_at,
            fs_id: Some(wire::FilesystemIdentifier { mountpoint: "/".to_owned() }),
            used_bytes: Some(wire::UInt64Value { value: bytes }),
            inodes_used: Some(wire::UInt64Value { value: 5 }),
        }),
        ..wire::ContainerStats::default()
    }
}

pub(super) fn container(id: &ContainerId, record: &ContainerRecord) -> wire::Container {
    wire::Container {
        id: id.to_string(),
        pod_sandbox_id: record.sandbox.to_string(),
        metadata: record.config.metadata.clone(),
        image: record.config.image.clone(),
        image_ref: record.image_id.clone(),
        state: container_state(&record.life),
        created_at: record.created_at,
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        image_id: record.image_id.clone(),
    }
}

impl World {
    /// A container as inspected: its image by tag and by digest, as containerd names it.
    pub(super) fn container_view(&self, id: &ContainerId, record: &ContainerRecord) -> wire::ContainerStatus {
        let mut status = wire::ContainerStatus {
            id: id.to_string(),
            metadata: record.config.metadata.clone(),
            state: container_state(&record.life),
            created_at: record.created_at,
            image: record.config.image.clone(),
            image_ref: record.image_id.clone(),
            labels: record.config.labels.clone(),
            annotations: record.config.annotations.clone(),
            mounts: record.config.mounts.clone(),
            log_path: record.log_path.clone(),
            image_id: record.image_id.clone(),
            stop_signal: match self.version.ignores_stop_signals() {
                Some(_) => 0,
                None => record.config.stop_signal,
            },
            ..wire::ContainerStatus::default()
        };
        if let Some(image) = self.images.find(&record.image_id) {
            if let (Some(spec), Some(tag)) = (status.image.as_mut(), image.repo_tags.first()) {
                spec.image.clone_from(tag);
            }
            if let Some(digest) = image.repo_digests.first() {
                status.image_ref.clone_from(digest);
            }
        }
        match &record.life {
            Life::Created | Life::Unknown => {}
            Life::Running { started_at, .. } => status.started_at = *started_at,
            Life::Exited { started_at, finished_at, code, reason, message } => {
                status.started_at = *started_at;
                status.finished_at = *finished_at;
                status.exit_code = *code;
                status.reason.clone_from(reason);
                status.message.clone_from(message);
            }
        }
        status
    }
}
