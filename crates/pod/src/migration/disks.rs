//! Disks of AWS, Google and OpenStack. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, CSIPersistentVolumeSource, GCEPersistentDiskVolumeSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::topology::{BETA_ZONE, MULTI_ZONE, ZONE};
use super::{MigrationError, READ_ONLY_MANY, READ_WRITE_ONCE, source};

const EBS: &str = "ebs.csi.aws.com";
pub(super) const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";

pub(super) const GCE: &str = "pd.csi.storage.gke.io";
pub(super) const GCE_ZONE: &str = "topology.gke.io/zone";

const CINDER: &str = "cinder.csi.openstack.org";
pub(super) const CINDER_ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// A project or zone that the driver finds out by itself.
const UNSPECIFIED: &str = "UNSPECIFIED";

pub(super) fn ebs(
    disk: AWSElasticBlockStoreVolumeSource,
) -> Result<CSIPersistentVolumeSource, MigrationError> {
    let id = ebs_volume(&disk.volume_id)?;
    let partition = disk.partition.unwrap_or_default().to_string();
    Ok(source(EBS, id, disk.fs_type, disk.read_only, [("partition", partition)]))
}

/// AWS's identifier in one of the forms `vol-…`, `aws:///vol-…` and `aws://ZONE/vol-…`.
fn ebs_volume(id: &str) -> Result<String, MigrationError> {
    let Some(url) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let volume = url.split_once('/').map_or("", |(_, path)| path.trim_matches('/'));
    if volume.starts_with("vol-") && !volume.contains('/') {
        Ok(volume.to_owned())
    } else {
        Err(MigrationError::EbsVolume(id.to_owned()))
    }
}

/// The zones of the disk are in the labels of its volume.
pub(super) fn gce(
    metadata: &ObjectMeta,
    disk: GCEPersistentDiskVolumeSource,
) -> Result<CSIPersistentVolumeSource, MigrationError> {
    let label = |key: &str| metadata.labels.as_ref()?.get(key).filter(|zones| !zones.is_empty());
    let zones: Vec<&str> = match label(BETA_ZONE).or_else(|| label(ZONE)) {
        Some(zones) => zones.split(MULTI_ZONE).collect(),
        None => Vec::new(),
    };
    let place = match zones[..] {
        [] => format!("zones/{UNSPECIFIED}"),
        [zone] => format!("zones/{zone}"),
        _ => format!("regions/{}", gce_region(&zones)?),
    };
    let handle = format!("projects/{UNSPECIFIED}/{place}/disks/{}", disk.pd_name);
    let partition = disk.partition.filter(|partition| *partition != 0);
    let partition = partition.map_or_else(String::new, |partition| partition.to_string());
    Ok(source(GCE, handle, disk.fs_type, disk.read_only, [("partition", partition)]))
}

/// The region of zones, which have the form `LOCALE-REGION-ZONE`.
fn gce_region(zones: &[&str]) -> Result<String, MigrationError> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts[..] else {
            let text = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: ";
            return Err(MigrationError::Region(format!("{text}{zone}")));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    match regions.pop_first() {
        Some(region) if regions.is_empty() => Ok(region),
        first => {
            let all: Vec<String> =
                first.into_iter().chain(regions).map(|region| format!("{region}:{{}}")).collect();
            let text = format!("multiple or no regions gotten from zones, got: map[{}]", all.join(" "));
            Err(MigrationError::Region(text))
        }
    }
}

/// Modes that the driver takes: it attaches a disk for one of them, and the in-tree type did not look at them.
pub(super) fn gce_access_modes(modes: &[String]) -> Vec<String> {
    let has = |wanted: &str| modes.iter().any(|mode| mode == wanted);
    let is_read_only = has(READ_ONLY_MANY) && !has(READ_WRITE_ONCE) && !has("ReadWriteMany");
    vec![if is_read_only { READ_ONLY_MANY } else { READ_WRITE_ONCE }.to_owned()]
}

pub(super) fn cinder(
    volume: String,
    fs_type: Option<String>,
    read_only: Option<bool>,
) -> CSIPersistentVolumeSource {
    source(CINDER, volume, fs_type, read_only, [])
}
