//! The pod and container of a request: what runs, as PLEG last saw it. No request lists the runtime.

use std::sync::Arc;

use hostlet_base::{ContainerId, PodRef, SandboxId};
use hostlet_observe::pleg::{PlegHandle, PodStatus};
use hostlet_observe::status::PodDirectory;
use hostlet_pod::pod_ref;
use hostlet_runtime::cri::{ContainerState, SandboxState};
use k8s_openapi::api::core::v1::Pod;

use super::error::RequestError;

/// The pods of this node, and what the runtime has of them.
#[derive(Clone)]
pub(super) struct Targets {
    pub(super) pods: PodDirectory,
    pub(super) pleg: PlegHandle,
}

/// A pod of this node.
#[derive(Debug)]
pub(super) struct TargetPod {
    pub(super) reference: PodRef,
    /// Its containers of every kind, and whether each has a terminal.
    containers: Vec<(String, bool)>,
}

impl TargetPod {
    fn new(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let main = spec.into_iter().flat_map(|spec| &spec.containers);
        let main = main.chain(spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten()));
        let ephemeral = spec.into_iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        let containers = main
            .map(|container| (container.name.clone(), container.tty))
            .chain(ephemeral.map(|container| (container.name.clone(), container.tty)))
            .map(|(name, tty)| (name, tty.unwrap_or_default()));
        Self { reference: pod_ref(pod), containers: containers.collect() }
    }

    /// Whether a container of its spec has a terminal.
    pub(super) fn has_terminal(&self, container: &str) -> Option<bool> {
        self.containers.iter().find(|(name, _)| name == container).map(|(_, tty)| *tty)
    }
}

impl Targets {
    /// Finds a pod, also a rejected one.
    pub(super) fn pod(&self, namespace: &str, name: &str) -> Result<TargetPod, RequestError> {
        let found = self.pods.find(namespace, name).ok_or(RequestError::NoPod)?;
        Ok(TargetPod::new(found.object()))
    }

    fn observed(&self, pod: &PodRef) -> Result<Arc<PodStatus>, RequestError> {
        self.pleg.cache().get(pod).map_err(RequestError::Runtime)
    }

    /// The running instance of a container.
    pub(super) fn container(&self, pod: &PodRef, name: &str) -> Result<Option<ContainerId>, RequestError> {
        let observed = self.observed(pod)?;
        let mut named = observed.containers.iter().filter(|container| &*container.name == name);
        Ok(named.find(|found| found.state == ContainerState::Running).map(|found| found.id.clone()))
    }

    /// The ready sandbox of a pod.
    pub(super) fn sandbox(&self, pod: &PodRef) -> Result<Option<SandboxId>, RequestError> {
        let observed = self.observed(pod)?;
        let ready = observed.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready);
        Ok(ready.map(|sandbox| sandbox.id.clone()))
    }
}
