//! The desired state of each volume of a pod, by its kind, from its spec and the known objects and claims it refers to. Pure.

use hostlet_pod::objects::ObjectRef;
use k8s_openapi::api::core::v1::{Pod, Volume};

use super::error::ContentError;
use super::kinds::registry::kind_of;
use super::model::{Context, DesiredVolume};

/// The desired state of `volume`.
pub(super) fn desired(volume: &Volume, context: &Context<'_>) -> DesiredVolume {
    let desired = kind_of(volume).and_then(|kind| kind.desired(volume, context));
    desired.unwrap_or_else(|| {
        let unknown = ContentError::Unsupported(format!("the type of volume {:?}", volume.name));
        DesiredVolume::invalid(&volume.name, &unknown)
    })
}

/// The objects that a pod's volumes refer to.
pub(super) fn references(pod: &Pod) -> Vec<ObjectRef> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let references = |volume| kind_of(volume).map(|kind| kind.references(volume, namespace));
    volumes.filter_map(references).flatten().collect()
}
