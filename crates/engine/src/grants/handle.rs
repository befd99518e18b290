//! The handle of what pods were granted: those who configure a container ask it. Grants nothing.

use hostlet_base::PodUid;
use hostlet_devices::{Devices, PodStage, PreStartError};
use hostlet_resources::ContainerGrant;

use super::numa::NumaGrants;
use super::states::ExclusiveResources;

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

    /// What is granted on this node.
    pub(crate) fn exclusive(&self) -> ExclusiveResources {
        let devices = self.devices.resources().borrow().clone();
        ExclusiveResources { devices, numa: self.numa.settings().are_static() }
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
        uid: &PodUid,
        container: &str,
        stage: PodStage,
    ) -> Result<ContainerGrant, PreStartError> {
        self.numa.recovered().await;
        self.devices.pre_start(uid, container, stage).await?;
        let devices = self.devices.grant(uid, container).unwrap_or_default();
        Ok(ContainerGrant {
            cpus: self.numa.cpus(uid, container),
            memory_nodes: self.numa.memory_nodes(uid, container),
            ..devices
        })
    }

    /// Whether a container of the pod has CPUs for itself, which need no quota.
    pub(crate) fn has_exclusive_cpus(&self, uid: &PodUid) -> bool {
        self.numa.has_exclusive_cpus(uid)
    }
}
