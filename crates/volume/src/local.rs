//! Which volumes take space on the node's own disk, and where they are. Pure.

use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use k8s_openapi::api::core::v1::Volume;

use super::kinds::empty_dir;
use super::kinds::registry::kind_of;
use super::layout::PodLayout;

/// The directory of a volume whose content is on the node's disk and ends with its pod: an emptyDir on disk, or a ConfigMap (upstream
/// `IsLocalEphemeralVolume`). `None` for other volumes.
pub fn local_volume_dir(root: &Path, pod: &PodUid, volume: &Volume) -> Option<PathBuf> {
    let kind = kind_of(volume).filter(|kind| kind.is_local_ephemeral(volume))?;
    Some(PodLayout::new(root, pod)?.volume(kind.directory()?, &volume.name))
}

/// The directory of an emptyDir, whatever its medium.
pub fn empty_dir_path(root: &Path, pod: &PodUid, name: &str) -> Option<PathBuf> {
    Some(PodLayout::new(root, pod)?.volume(empty_dir::DIRECTORY, name))
}

/// The directory of a volume whose content the daemon makes, whatever it is on; `None` for other volumes.
pub fn own_volume_dir(root: &Path, pod: &PodUid, volume: &Volume) -> Option<PathBuf> {
    let directory = kind_of(volume)?.directory().filter(|directory| !directory.is_external())?;
    Some(PodLayout::new(root, pod)?.volume(directory, &volume.name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_volumes_on_disk_have_a_place() {
        let dir = |source: Value| {
            let mut volume = json!({"name": "v"});
            volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
            let volume = serde_json::from_value(volume).unwrap();
            local_volume_dir(Path::new("/root"), &"u".into(), &volume)
        };
        let at = |kind: &str| Some(PathBuf::from(format!("/root/pods/u/volumes/{kind}/v")));
        assert_eq!(dir(json!({"emptyDir": {}})), at("kubernetes.io~empty-dir"));
        assert_eq!(dir(json!({"emptyDir": {"medium": ""}})), at("kubernetes.io~empty-dir"));
        assert_eq!(dir(json!({"configMap": {"name": "c"}})), at("kubernetes.io~configmap"));
        for other in [
            json!({"emptyDir": {"medium": "Memory"}}),
            json!({"secret": {"secretName": "s"}}),
            json!({"hostPath": {"path": "/x"}}),
            json!({"projected": {"sources": []}}),
        ] {
            assert_eq!(dir(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn what_the_daemon_makes_has_a_place_also_in_memory() {
        let dir = |source: Value| {
            let mut volume = json!({"name": "v"});
            volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
            own_volume_dir(Path::new("/root"), &"u".into(), &serde_json::from_value(volume).unwrap())
        };
        let at = |kind: &str| Some(PathBuf::from(format!("/root/pods/u/volumes/kubernetes.io~{kind}/v")));
        assert_eq!(dir(json!({"emptyDir": {"medium": "Memory"}})), at("empty-dir"));
        assert_eq!(dir(json!({"configMap": {"name": "c"}})), at("configmap"));
        assert_eq!(dir(json!({"secret": {"secretName": "s"}})), at("secret"));
        assert_eq!(dir(json!({"downwardAPI": {"items": []}})), at("downward-api"));
        assert_eq!(dir(json!({"projected": {"sources": []}})), at("projected"));
        assert_eq!(dir(json!({"hostPath": {"path": "/x"}})), None);
        assert_eq!(dir(json!({"nfs": {"server": "s", "path": "/"}})), None);
    }
}
