//! Identities of volumes, and the names that follow from them. Pure.

use std::fmt;

use hostlet_base::PodUid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A volume, as its driver knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeId {
    /// The name of the driver.
    pub driver: String,
    /// The driver's identifier of the volume.
    pub handle: String,
}

impl VolumeId {
    /// The name by which `status.volumesInUse` and `status.volumesAttached` of a Node know the volume (upstream
    /// `GetUniqueVolumeNameFromSpec`).
    pub fn unique_name(&self) -> String {
        format!("kubernetes.io/csi/{}^{}", self.driver, self.handle)
    }

    /// The name of the VolumeAttachment that attaches it to a node (upstream `getAttachmentName`).
    pub fn attachment_name(&self, node: &str) -> String {
        let Self { driver, handle } = self;
        format!("csi-{}", sha256(&format!("{handle}{driver}{node}")))
    }

    /// The name of its directory among those of its driver (upstream `makeDeviceMountPath`).
    pub(crate) fn directory_name(&self) -> String {
        sha256(&self.handle)
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}^{}", self.driver, self.handle)
    }
}

/// The identifier of a volume that only lives in one pod (upstream `makeVolumeHandle`). `volume` is its name in the pod's spec.
pub fn ephemeral_handle(pod: &PodUid, volume: &str) -> String {
    format!("csi-{}", sha256(&format!("{pod}{volume}")))
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_equal_the_stock_kubelets() {
        // `printf vol-1csi.example.comnode-1 | sha256sum`, and so on.
        let id = VolumeId { driver: "csi.example.com".to_owned(), handle: "vol-1".to_owned() };
        assert_eq!(id.unique_name(), "kubernetes.io/csi/csi.example.com^vol-1");
        assert_eq!(
            id.attachment_name("node-1"),
            "csi-b74c7fc125891ffa0d0f2e0d645733e3fae7fba3066e76500a771ea08be9da28"
        );
        assert_eq!(id.directory_name(), "d2e8363faaac7ae76def3b14091d8eb5755f6b92e9531627aeec833a8731cc49");
        assert_eq!(
            ephemeral_handle(&"uid-1".into(), "scratch"),
            "csi-a919eb5a57ed1bf8c61a802fc713b36e9bfa4fbf009dfb5f4206d253a3a3dc32"
        );
    }
}
