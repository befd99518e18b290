//! The handle of what pods were granted: those who configure a container ask it. Grants nothing.

use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_devices::{Devices, PodStage, PreStartError};
use hostlet_pod::pod_uid;
use hostlet_resources::ContainerGrant;
use k8s_openapi::api::core::v1::{Pod, ResourceStatus};

use super::numa::NumaGrants;

/// What pods were granted. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Grants {
    pub(super) devices: Devices,
    pub(super) numa: NumaGrants,
}

impl Grants {
    pub(crate) fn new(devices: Devices, numa: NumaGrants) -> Self {
        Self { devices, numa }
    }

    /// Whether anything is granted on this node.
    pub(crate) fn grant_anything(&self) -> bool {
        self.numa.settings().are_static() || !self.devices.resources().borrow().is_empty()
    }

    /// CPUs and memory.
    pub(crate) fn numa(&self) -> &NumaGrants {
        &self.numa
    }

    /// What a container is given for its next start. Has device plugins prepare its devices.
    ///
    /// # Errors
    /// Its devices cannot be used now.
    pub(crate) async fn of(
        &self,
        pod: &Arc<Pod>,
        container: &str,
        stage: PodStage,
    ) -> Result<ContainerGrant, PreStartError> {
        let uid = &pod_uid(pod);
        self.numa.recovered().await;
        self.numa.starts(pod, container);
        self.devices.pre_start(uid, container, stage).await?;
        let devices = self.devices.grant(uid, container).unwrap_or_default();
        Ok(ContainerGrant {
            cpus: self.numa.cpus(pod, container),
            memory_nodes: self.numa.memory_nodes(uid, container),
            ..devices
        })
    }

    /// The health of a container's devices, as its status has it.
    pub(crate) fn device_health(&self, uid: &PodUid, container: &str) -> Vec<ResourceStatus> {
        self.devices.health(uid, container)
    }

    /// The next pod of whose devices one changed its health. Has one reader. Cancel-safe.
    pub(crate) async fn health_changed(&self) -> PodUid {
        self.devices.health_changes().next().await.0
    }

    /// Whether the pod as a whole needs no CPU quota: it would throttle containers that have their CPUs for themselves.
    pub(crate) fn is_cpu_unlimited(&self, pod: &Pod) -> bool {
        self.numa.is_cpu_unlimited(pod)
    }
}
