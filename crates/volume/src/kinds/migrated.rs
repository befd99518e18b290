//! Volumes of clouds in a pod's spec, which CSI drivers serve now: each is treated as the PersistentVolume of its driver. Pure.

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_pod::migration::migrated_inline;
use hostlet_pod::objects::ObjectRef;
use k8s_openapi::api::core::v1::Volume;

use super::claim::behind;
use super::csi::{DIRECTORY, secrets_of};
use super::kind::Kind;
use crate::model::{Context, DesiredVolume, KindDirectory};

/// Causes why a volume is not one of a driver.
const RULES: &[Rule] = &[rule(
    &["failed to translate"],
    "the volume of a cloud in the pod's spec does not say which volume of its CSI driver it is",
    "correct its identifier in spec.volumes, or use a claim",
)];

/// The kind of these volumes.
pub(super) struct Migrated {
    /// The kinds that PersistentVolumes may be of.
    pub(super) kinds: &'static [&'static dyn Kind],
}

impl Kind for Migrated {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.aws_elastic_block_store.is_some()
            || volume.azure_disk.is_some()
            || volume.azure_file.is_some()
            || volume.cinder.is_some()
            || volume.gce_persistent_disk.is_some()
            || volume.portworx_volume.is_some()
            || volume.vsphere_volume.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        None
    }

    fn references(&self, volume: &Volume, namespace: &str) -> Vec<ObjectRef> {
        let translated = migrated_inline(volume, namespace).ok().flatten();
        let source = translated.and_then(|volume| volume.spec).and_then(|spec| spec.csi);
        source.iter().flat_map(secrets_of).collect()
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        match migrated_inline(volume, context.namespace()) {
            Ok(translated) => {
                translated.map(|translated| behind(&volume.name, &translated, false, context, self.kinds))
            }
            Err(error) => Some(DesiredVolume::Unprocessed(error.to_string())),
        }
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::testing::Pod;

    #[test]
    fn a_volume_of_a_cloud_is_one_of_its_driver() {
        let of = |source: Value| Pod::new(json!({})).desired_volume(source);
        match of(json!({"awsElasticBlockStore": {"volumeID": "vol-0123", "fsType": "ext4"}})) {
            DesiredVolume::Driver(volume) => {
                assert_eq!(volume.id.to_string(), "ebs.csi.aws.com^vol-0123");
                let request = volume.request.unwrap();
                assert!(request.is_attached && !request.is_ephemeral && !request.read_only);
                assert!(volume.is_migrated && request.is_migrated, "so that it is counted as upstream does");
            }
            other => panic!("{other:?}"),
        }
        match of(json!({"awsElasticBlockStore": {"volumeID": "aws://a/b/c/d"}})) {
            DesiredVolume::Unprocessed(cause) => assert!(cause.starts_with("failed to translate"), "{cause}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_secret_of_a_file_share_is_followed() {
        let volume = json!({"name": "v", "azureFile": {"secretName": "account", "shareName": "share"}});
        let volume = serde_json::from_value(volume).unwrap();
        let secrets = Migrated { kinds: &[] }.references(&volume, "ns");
        assert_eq!(secrets, [ObjectRef::secret("account", "ns")]);
    }
}
