//! Which volumes take space on the node's own disk, and where they are. Pure.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Volume;

use super::layout::{Kind, PodLayout};
use hostlet_base::PodUid;

/// The directory of a volume whose content is on the node's disk and ends with its pod: an emptyDir on disk, or a ConfigMap (upstream
/// `IsLocalEphemeralVolume`). `None` for other volumes.
pub fn local_volume_dir(root: &Path, pod: &PodUid, volume: &Volume) -> Option<PathBuf> {
    let on_disk = |medium: Option<&str>| medium.unwrap_or_default().is_empty();
    let kind = match (&volume.empty_dir, &volume.config_map) {
        (Some(directory), _) if on_disk(directory.medium.as_deref()) => Kind::EmptyDir,
        (None, Some(_)) => Kind::ConfigMap,
        (_, _) => return None,
    };
    Some(PodLayout::new(root, pod)?.volume(kind, &volume.name))
}

/// The directory of an emptyDir, whatever its medium.
pub fn empty_dir_path(root: &Path, pod: &PodUid, name: &str) -> Option<PathBuf> {
    Some(PodLayout::new(root, pod)?.volume(Kind::EmptyDir, name))
}

/// The directory of a volume whose content the daemon makes, whatever it is on; `None` for other volumes.
pub fn own_volume_dir(root: &Path, pod: &PodUid, volume: &Volume) -> Option<PathBuf> {
    let kinds = [
        (volume.empty_dir.is_some(), Kind::EmptyDir),
        (volume.config_map.is_some(), Kind::ConfigMap),
        (volume.secret.is_some(), Kind::Secret),
        (volume.downward_api.is_some(), Kind::DownwardApi),
        (volume.projected.is_some(), Kind::Projected),
    ];
    let (_, kind) = kinds.into_iter().find(|(is_of_kind, _)| *is_of_kind)?;
    Some(PodLayout::new(root, pod)?.volume(kind, &volume.name))
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
