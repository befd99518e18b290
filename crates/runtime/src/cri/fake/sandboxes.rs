//! Lifecycle of sandboxes. Pure.

use std::net::IpAddr;

use hostlet_base::{ContainerId, PodUid, SandboxId};
use tokio::time::Instant;

use super::super::{CriError, Operation, SandboxState, wire};
use super::world::World;

/// A sandbox of the runtime.
#[derive(Clone, Debug)]
pub(super) struct SandboxRecord {
    pub(super) config: wire::PodSandboxConfig,
    pub(super) handler: String,
    pub(super) pod: PodUid,
    pub(super) state: SandboxState,
    /// Nanoseconds since the epoch.
    pub(super) created_at: i64,
    /// `None` with the host's network, and after the network was torn down.
    pub(super) ip: Option<IpAddr>,
}

/// The name containerd reserves for a sandbox.
pub(super) fn sandbox_name(config: &wire::PodSandboxConfig) -> String {
    let metadata = config.metadata.clone().unwrap_or_default();
    format!("{}_{}_{}_{}", metadata.name, metadata.namespace, metadata.uid, metadata.attempt)
}

fn host_network(config: &wire::PodSandboxConfig) -> bool {
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = context.and_then(|context| context.namespace_options.as_ref());
    options.is_some_and(|options| options.network == wire::NamespaceMode::Node as i32)
}

impl World {
    /// Creates and starts the sandbox `id`.
    pub(super) fn run_sandbox(
        &mut self,
        id: SandboxId,
        config: wire::PodSandboxConfig,
        handler: String,
        now: Instant,
    ) -> Result<SandboxId, CriError> {
        let name = sandbox_name(&config);
        self.reserve(&name, id.as_str()).map_err(|taken| CriError::Failed {
            operation: Operation::RunSandbox,
            message: format!("failed to reserve sandbox name \"{name}\": {taken}"),
        })?;
        let pod: PodUid = config.metadata.clone().unwrap_or_default().uid.into();
        let ip = (!host_network(&config)).then(|| self.allocator.address());
        let record = SandboxRecord {
            handler,
            pod: pod.clone(),
            state: SandboxState::Ready,
            created_at: self.clock.creation(now),
            ip,
            config,
        };
        self.sandboxes.insert(id.clone(), record);
        self.changed(&pod, id.as_str());
        Ok(id)
    }

    /// Kills all containers in the sandbox and tears down its network.
    pub(super) fn stop_sandbox(&mut self, id: &SandboxId, now: Instant) {
        for container in self.containers_of(id) {
            self.kill(&container, now);
        }
        if let Some(record) = self.sandboxes.get_mut(id) {
            if record.state == SandboxState::NotReady && record.ip.is_none() {
                return;
            }
            record.state = SandboxState::NotReady;
            record.ip = None;
            let pod = record.pod.clone();
            self.changed(&pod, id.as_str());
        }
    }

    /// Stops the sandbox if necessary, and removes it with its containers.
    pub(super) fn remove_sandbox(&mut self, id: &SandboxId, now: Instant) {
        self.stop_sandbox(id, now);
        for container in self.containers_of(id) {
            self.remove_container(&container, now);
        }
        if let Some(record) = self.forget_sandbox(id) {
            self.changed(&record.pod, id.as_str());
        }
    }

    /// Kills the sandbox's own process. Its network and containers remain until it is stopped.
    pub(super) fn kill_sandbox(&mut self, id: &SandboxId) {
        if let Some(record) = self.sandboxes.get_mut(id) {
            record.state = SandboxState::NotReady;
            let pod = record.pod.clone();
            self.changed(&pod, id.as_str());
        }
    }

    pub(super) fn forget_sandbox(&mut self, id: &SandboxId) -> Option<SandboxRecord> {
        self.release_names(id.as_str());
        self.sandboxes.remove(id)
    }

    pub(super) fn containers_of(&self, id: &SandboxId) -> Vec<ContainerId> {
        let inside = self.containers.iter().filter(|(_, record)| record.sandbox == *id);
        inside.map(|(container, _)| container.clone()).collect()
    }
}
