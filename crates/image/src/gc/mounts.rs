//! The images that containers mount as volumes, which runtimes show only of one container at a time. A container is inspected once: its
//! mounts never change.

use std::collections::{HashMap, HashSet};

use hostlet_base::{ContainerId, PodUid};
use hostlet_runtime::cri::{ContainerImage, CriError, RuntimeService};

use super::error::GcError;
use super::users::PodImages;

/// The mounted images of containers, by the runtime's ID of the container.
#[derive(Debug, Default)]
pub(super) struct ImageMounts {
    of: HashMap<ContainerId, Vec<String>>,
}

impl ImageMounts {
    /// Inspects the new ones among `containers`, except those of pods without image volumes, and forgets removed ones.
    pub(super) async fn refresh(
        &mut self,
        runtime: &dyn RuntimeService,
        containers: &[ContainerImage],
        pods: &[PodImages],
    ) -> Result<(), GcError> {
        let present: HashSet<&ContainerId> =
            containers.iter().map(|container| &container.container).collect();
        self.of.retain(|id, _| present.contains(id));
        let without: HashSet<&PodUid> =
            pods.iter().filter(|pod| !pod.has_image_volumes).map(|pod| &pod.pod.uid).collect();
        for container in containers {
            let id = &container.container;
            let mounts_none = container.pod.as_ref().is_some_and(|pod| without.contains(&pod.uid));
            if mounts_none || self.of.contains_key(id) {
                continue;
            }
            match runtime.container_status(id).await {
                Ok(status) => drop(self.of.insert(id.clone(), status.image_mounts.into_values().collect())),
                // Removed in the meantime.
                Err(CriError::NotFound { .. }) => {}
                Err(source) => return Err(GcError::Mounts { container: id.clone(), source }),
            }
        }
        Ok(())
    }

    /// The images that a container mounts.
    pub(super) fn of(&self, container: &ContainerId) -> &[String] {
        self.of.get(container).map(Vec::as_slice).unwrap_or_default()
    }
}
