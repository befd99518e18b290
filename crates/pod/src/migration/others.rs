//! Volumes of vSphere and Portworx. Pure.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, PortworxVolumeSource, SecretReference, VsphereVirtualDiskVolumeSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::source;

const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

/// Annotations of a volume with the secret that the driver gets in all its calls.
const SECRET_NAME: &str = "openstorage.io/auth-secret-name";
const SECRET_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";

pub(super) fn vsphere(disk: VsphereVirtualDiskVolumeSource) -> CSIPersistentVolumeSource {
    let policy = disk.storage_policy_name.filter(|policy| !policy.is_empty());
    let attributes = policy.map(|policy| ("storagepolicyname", policy));
    source(VSPHERE, disk.volume_path, disk.fs_type, None, attributes)
}

/// Whether the volume is read-only is lost, as upstream.
pub(super) fn portworx(metadata: &ObjectMeta, volume: PortworxVolumeSource) -> CSIPersistentVolumeSource {
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
    let secret = annotation(SECRET_NAME).zip(annotation(SECRET_NAMESPACE));
    let secret =
        secret.map(|(name, namespace)| SecretReference { name: Some(name), namespace: Some(namespace) });
    CSIPersistentVolumeSource {
        controller_publish_secret_ref: secret.clone(),
        node_stage_secret_ref: secret.clone(),
        node_publish_secret_ref: secret.clone(),
        controller_expand_secret_ref: secret.clone(),
        node_expand_secret_ref: secret,
        ..source(PORTWORX, volume.volume_id, volume.fs_type, None, [])
    }
}
