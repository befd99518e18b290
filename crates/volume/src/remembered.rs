//! What is remembered of a pod's claims, in its directory: with it a pod keeps its volumes whatever becomes of the claim, and
//! starts after a reboot without the API server. Blocking.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hostlet_base::{PodUid, json};
use hostlet_host::{pods_dir, replace_file};
use hostlet_pod::objects::{ObjectRef, ObjectReferences, VolumeNeeds};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::Value;

use super::actual::{entries, failed};
use super::error::HostError;
use super::kinds::csi::secrets_of;
use super::layout::{POD_MODE, PodLayout};

/// Mode of a file: a volume may name what only root should know.
const MODE: u32 = 0o600;

/// The volume that a claim of the pod was bound to, if that is remembered. A damaged file is as good as none.
pub(super) fn recall(layout: &PodLayout, claim: &str) -> Option<PersistentVolume> {
    let path = file(layout, claim)?;
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read which volume a claim is bound to");
            return None;
        }
    };
    let volume = serde_json::from_slice::<Value>(&text).ok().and_then(|value| json::from_value(&value).ok());
    if volume.is_none() {
        tracing::warn!(path = %path.display(), "damaged: it should say which volume a claim is bound to");
    }
    volume
}

/// Remembers the volume that a claim of the pod is bound to.
pub(super) fn remember(layout: &PodLayout, claim: &str, volume: &PersistentVolume) -> Result<(), HostError> {
    let Some(path) = file(layout, claim) else { return Ok(()) };
    let dir = layout.claims();
    let made = DirBuilder::new().recursive(true).mode(POD_MODE).create(&dir);
    made.map_err(failed("make directory", &dir))?;
    let written = serde_json::to_vec(volume).map_err(io::Error::from);
    written.and_then(|text| replace_file(&path, &text, MODE)).map_err(failed("write", &path))
}

/// What is needed for the volumes that the claims of all pods below the daemon's `root` were bound to, by pod: their Secrets.
pub(super) fn recall_needs(root: &Path) -> VolumeNeeds {
    let Ok(pods) = entries(&pods_dir(root)) else { return VolumeNeeds::new() };
    let of_pod = |pod: &OsString| {
        let uid = PodUid::from(pod.to_str()?);
        let layout = PodLayout::new(root, &uid)?;
        let claims = entries(&layout.claims()).ok()?;
        let claims = claims.iter().filter_map(|file| file.to_str()?.strip_suffix(".json"));
        let volumes = claims.filter_map(|claim| recall(&layout, claim)?.spec?.csi);
        let objects: BTreeSet<ObjectRef> =
            volumes.flat_map(|source| secrets_of(&source).collect::<Vec<_>>()).collect();
        (!objects.is_empty()).then(|| (uid, ObjectReferences { objects, ..ObjectReferences::default() }))
    };
    pods.iter().filter_map(of_pod).collect()
}

/// The file of a claim; `None` if its name is no name of a file.
fn file(layout: &PodLayout, claim: &str) -> Option<PathBuf> {
    let is_name = Path::new(claim).file_name().is_some_and(|name| name == claim);
    is_name.then(|| layout.claims().join(format!("{claim}.json")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use crate::testing::{Host, UID};

    #[test]
    fn a_volume_is_remembered_and_a_damaged_file_is_as_good_as_none() {
        let host = Host::new();
        let layout = PodLayout::new(host.root.path(), &UID.into()).unwrap();
        assert_eq!(recall(&layout, "data"), None);
        let volume = json!({"metadata": {"name": "pv-1"}, "spec": {"local": {"path": "/mnt"}, "capacity": {"storage": "1Gi"}}});
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        remember(&layout, "data", &volume).unwrap();
        assert_eq!(recall(&layout, "data"), Some(volume.clone()));
        let path = host.at("plugins/kubernetes.io~persistent-volume-claim/data.json");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for text in ["", "{", "[]", "{\"spec\": 7}"] {
            fs::write(&path, text).unwrap();
            assert_eq!(recall(&layout, "data"), None, "{text}");
        }
        let secret = json!({"name": "s", "namespace": "drivers"});
        let source = json!({"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": secret});
        let of_driver: PersistentVolume = serde_json::from_value(json!({"spec": {"csi": source}})).unwrap();
        remember(&layout, "drive", &of_driver).unwrap();
        let objects = BTreeSet::from([ObjectRef::secret("s", "drivers")]);
        let expected = (PodUid::from(UID), ObjectReferences { objects, ..ObjectReferences::default() });
        assert_eq!(recall_needs(host.root.path()), VolumeNeeds::from([expected]));
        for name in ["../x", "/etc/x", "a/b", ".."] {
            remember(&layout, name, &volume).unwrap();
            assert_eq!(recall(&layout, name), None, "{name}");
        }
    }
}
