//! Volume types of clouds that Kubernetes once mounted itself (in-tree), and that a CSI driver serves now: their translation to volumes of
//! that driver, as k8s.io/csi-translation-lib does it, with its texts. Pure.
//!
//! It reads labels and annotations, so that it has to come before [`reduced_volume`](crate::objects::reduced_volume).

mod azure;
mod disks;
mod others;
#[cfg(test)]
mod tests;
mod topology;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::objects::MIGRATED_TO;

/// Why a volume cannot be translated. The wording is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// The identifier of an EBS volume is malformed.
    #[error("failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({0})")]
    EbsVolume(String),
    /// The region of a regional GCE disk does not follow from its zones.
    #[error("failed to get region from zones: {0}")]
    Region(String),
    /// An Azure disk is not a managed one.
    #[error("kind({0}) is not supported in csi migration")]
    AzureDiskKind(String),
    /// Nothing says in which namespace the secret of an Azure file share is.
    #[error("could not find a secret namespace in PersistentVolumeSource or ClaimRef")]
    SecretNamespace,
}

/// The volume as one of a CSI driver, with the annotation [`MIGRATED_TO`], if its type is migrated; otherwise unchanged.
///
/// # Errors
/// It cannot be translated: whoever made it has to correct it.
pub fn migrated(mut volume: PersistentVolume) -> Result<PersistentVolume, MigrationError> {
    let Some(mut spec) = volume.spec.take() else { return Ok(volume) };
    let metadata = &volume.metadata;
    let source = if let Some(source) = spec.aws_elastic_block_store.take() {
        let source = disks::ebs(source)?;
        topology::translate(metadata, &mut spec, disks::EBS_ZONE);
        source
    } else if let Some(source) = spec.gce_persistent_disk.take() {
        let source = disks::gce(metadata, source)?;
        topology::translate(metadata, &mut spec, disks::GCE_ZONE);
        spec.access_modes = spec.access_modes.as_deref().map(disks::gce_access_modes);
        source
    } else if let Some(source) = spec.cinder.take() {
        let source = disks::cinder(source.volume_id, source.fs_type, source.read_only);
        topology::translate(metadata, &mut spec, disks::CINDER_ZONE);
        source
    } else if let Some(source) = spec.azure_disk.take() {
        azure::disk(source)?
    } else if let Some(source) = spec.azure_file.take() {
        azure::file(metadata, spec.claim_ref.as_ref(), source)?
    } else if let Some(source) = spec.vsphere_volume.take() {
        topology::translate_vsphere(metadata, &mut spec);
        others::vsphere(source)
    } else if let Some(source) = spec.portworx_volume.take() {
        others::portworx(metadata, source)
    } else {
        volume.spec = Some(spec);
        return Ok(volume);
    };
    volume.metadata.annotations.get_or_insert_default().insert(MIGRATED_TO.to_owned(), source.driver.clone());
    spec.csi = Some(source);
    volume.spec = Some(spec);
    Ok(volume)
}

/// The PersistentVolume that a volume in a pod's spec stands for, if its type is migrated.
///
/// # Errors
/// It cannot be translated: the pod has to be corrected.
pub fn migrated_inline(
    volume: &Volume,
    pod_namespace: &str,
) -> Result<Option<PersistentVolume>, MigrationError> {
    let inline = if let Some(source) = &volume.aws_elastic_block_store {
        let source = disks::ebs(source.clone())?;
        Inline { name: unique_name(&source), access_mode: READ_WRITE_ONCE, source }
    } else if let Some(disk) = &volume.gce_persistent_disk {
        let access_mode = one_or_many(disk.read_only);
        let name = format!("{}-{}", disks::GCE, disk.pd_name);
        Inline { name, access_mode, source: disks::gce(&ObjectMeta::default(), disk.clone())? }
    } else if let Some(source) = &volume.cinder {
        let source = disks::cinder(source.volume_id.clone(), source.fs_type.clone(), source.read_only);
        Inline { name: unique_name(&source), access_mode: READ_WRITE_ONCE, source }
    } else if let Some(disk) = &volume.azure_disk {
        let mut disk = disk.clone();
        // Unlike that of a PersistentVolume.
        disk.caching_mode = disk.caching_mode.filter(|mode| !mode.is_empty());
        let source = azure::disk(disk)?;
        Inline { name: source.volume_handle.clone(), access_mode: READ_WRITE_ONCE, source }
    } else if let Some(source) = &volume.azure_file {
        let source = azure::inline_file(&volume.name, pod_namespace, source.clone());
        Inline { name: source.volume_handle.clone(), access_mode: "ReadWriteMany", source }
    } else if let Some(source) = &volume.vsphere_volume {
        let source = others::vsphere(source.clone());
        Inline { name: unique_name(&source), access_mode: READ_WRITE_ONCE, source }
    } else if let Some(portworx) = &volume.portworx_volume {
        let source = others::portworx(&ObjectMeta::default(), portworx.clone());
        Inline { name: unique_name(&source), access_mode: one_or_many(portworx.read_only), source }
    } else {
        return Ok(None);
    };
    Ok(Some(inline.into_volume()))
}

const READ_WRITE_ONCE: &str = "ReadWriteOnce";
const READ_ONLY_MANY: &str = "ReadOnlyMany";

/// A volume of a pod's spec, translated.
struct Inline {
    /// Unique per volume of the driver.
    name: String,
    access_mode: &'static str,
    source: CSIPersistentVolumeSource,
}

impl Inline {
    fn into_volume(self) -> PersistentVolume {
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(self.name),
                annotations: Some([(MIGRATED_TO.to_owned(), self.source.driver.clone())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                csi: Some(self.source),
                access_modes: Some(vec![self.access_mode.to_owned()]),
                volume_mode: Some("Filesystem".to_owned()),
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }
}

fn unique_name(source: &CSIPersistentVolumeSource) -> String {
    format!("{}-{}", source.driver, source.volume_handle)
}

fn one_or_many(read_only: Option<bool>) -> &'static str {
    if read_only == Some(true) { READ_ONLY_MANY } else { READ_WRITE_ONCE }
}

/// A source with what all of them have. The API omits empty texts and false.
fn source(
    driver: &str,
    handle: String,
    fs_type: Option<String>,
    read_only: Option<bool>,
    attributes: impl IntoIterator<Item = (&'static str, String)>,
) -> CSIPersistentVolumeSource {
    let attributes: BTreeMap<String, String> =
        attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    CSIPersistentVolumeSource {
        driver: driver.to_owned(),
        volume_handle: handle,
        fs_type: fs_type.filter(|fs_type| !fs_type.is_empty()),
        read_only: read_only.filter(|read_only| *read_only),
        volume_attributes: (!attributes.is_empty()).then_some(attributes),
        ..CSIPersistentVolumeSource::default()
    }
}
