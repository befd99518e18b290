//! The registry of the kinds of volumes: a new kind is a file and a line here. Pure.

use k8s_openapi::api::core::v1::Volume;

use super::claim::Claim;
use super::config_map::ConfigMap;
use super::downward_api::DownwardApi;
use super::empty_dir::EmptyDir;
use super::host_path::HostPath;
use super::kind::Kind;
use super::local_volume::LocalVolume;
use super::nfs::Nfs;
use super::projected::Projected;
use super::secret::Secret;
use crate::model::KindDirectory;

/// All kinds.
pub(crate) static KINDS: [&dyn Kind; 9] = [
    &EmptyDir,
    &ConfigMap,
    &Secret,
    &DownwardApi,
    &Projected,
    &HostPath,
    &Nfs,
    &LocalVolume,
    &Claim { kinds: &KINDS },
];

/// The kind of a pod's volume.
pub(crate) fn kind_of(volume: &Volume) -> Option<&'static dyn Kind> {
    KINDS.into_iter().find(|kind| kind.is_kind_of(volume))
}

/// The directories of all kinds that have one.
pub(crate) fn directories() -> impl Iterator<Item = KindDirectory> {
    KINDS.into_iter().filter_map(Kind::directory)
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
