//! The registry of the kinds of volumes: a new kind is a file and a line here. Pure.

use hostlet_base::causes::Rule;
use k8s_openapi::api::core::v1::Volume;

use super::kind::Kind;
use crate::model::KindDirectory;

/// All kinds. What explains an error is searched in this order.
pub(crate) static KINDS: [&dyn Kind; 11] = [
    &super::nfs::Nfs,
    &super::csi::Csi,
    &super::local_volume::LocalVolume,
    &super::claim::Claim { kinds: &KINDS },
    &super::migrated::Migrated { kinds: &KINDS },
    &super::host_path::HostPath,
    &super::config_map::ConfigMap,
    &super::secret::Secret,
    &super::projected::Projected,
    &super::downward_api::DownwardApi,
    &super::empty_dir::EmptyDir,
];

/// The kind of a pod's volume.
pub(crate) fn kind_of(volume: &Volume) -> Option<&'static dyn Kind> {
    KINDS.into_iter().find(|kind| kind.is_kind_of(volume))
}

/// The directories of all kinds that have one.
pub(crate) fn directories() -> impl Iterator<Item = KindDirectory> {
    KINDS.into_iter().filter_map(Kind::directory)
}

/// The directories of the kinds that have block devices.
pub(crate) fn device_directories() -> impl Iterator<Item = KindDirectory> {
    KINDS.into_iter().filter(|kind| kind.has_devices()).filter_map(Kind::directory)
}

/// What explains the errors of volumes by their kinds, in order of precedence.
pub fn cause_rules() -> impl Iterator<Item = &'static [Rule]> {
    KINDS.into_iter().flat_map(|kind| kind.rules().iter().copied())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hostlet_pod::validation::unsupported::VOLUMES;

    /// The fields with which Kubernetes' API says what a volume is.
    const FIELDS: [&str; 30] = [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "persistentVolumeClaim",
        "photonPersistentDisk",
        "portworxVolume",
        "projected",
        "quobyte",
        "rbd",
        "scaleIO",
        "secret",
        "storageos",
        "vsphereVolume",
    ];

    #[test]
    fn validation_admits_the_volumes_that_are_of_a_kind() {
        for field in FIELDS {
            let volume: Volume = serde_json::from_value(json!({"name": "v", field: {}})).unwrap();
            // Images are mounted by the runtime.
            let is_known = kind_of(&volume).is_some() || field == "image";
            assert_eq!(VOLUMES.contains(&field), is_known, "{field}");
        }
        assert!(VOLUMES.iter().all(|field| FIELDS.contains(field)));
    }

    #[test]
    fn each_kind_has_its_own_directory() {
        let names: std::collections::BTreeSet<String> = directories().map(KindDirectory::name).collect();
        assert_eq!(names.len(), directories().count());
    }
}
