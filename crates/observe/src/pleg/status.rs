//! The state of one pod in the runtime, as last observed.

use std::net::IpAddr;

use hostlet_base::PodRef;
use hostlet_runtime::cri::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};

/// All sandboxes and containers of one pod, inspected in one relist.
#[derive(Clone, Debug, PartialEq)]
pub struct PodStatus {
    /// The pod, as its sandboxes and containers name it.
    pub pod: PodRef,
    /// Addresses, primary first; from earlier observations once the pod's network is torn down.
    pub ips: Vec<IpAddr>,
    /// Sandboxes, newest first: by attempt, ties by creation time.
    pub sandboxes: Vec<SandboxStatus>,
    /// Containers of all sandboxes, newest first: by attempt, ties by creation time.
    pub containers: Vec<ContainerStatus>,
}

impl PodStatus {
    /// The status of a pod without sandboxes or containers.
    pub fn empty(pod: PodRef) -> Self {
        Self { pod, ips: Vec::new(), sandboxes: Vec::new(), containers: Vec::new() }
    }

    /// The newest container of this name.
    pub fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers.iter().find(|c| &*c.name == name)
    }

    /// The newest sandbox.
    pub fn sandbox(&self) -> Option<&SandboxStatus> {
        self.sandboxes.first()
    }

    /// Whether something of the pod may still run: a running or unknown container, or a ready sandbox.
    pub fn may_run(&self) -> bool {
        self.sandboxes.iter().any(|s| s.state == SandboxState::Ready)
            || self.containers.iter().any(|c| match c.state {
                ContainerState::Running | ContainerState::Unknown => true,
                ContainerState::Created | ContainerState::Exited => false,
            })
    }
}
