//! Valid fields that hostlet does not support: a pod that uses one is rejected with a reason, instead of running differently
//! than its author intended.
//!
//! Fields that only concern the scheduler (pod affinity, topology spread constraints, preferred node affinity,
//! `schedulerName`, `preemptionPolicy`, `schedulingGroup`), who asks for evictions (`evictionResponders`) or another operating
//! system (`windowsOptions`) are accepted. `nodeSelector`, required node affinity and tolerations are checked in `admission`.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

use super::volumes::sources;
use super::{FieldError, FieldPath, list, text};

/// All unsupported fields that `pod` uses. It must be valid and have its defaults.
pub fn unsupported(pod: &Pod) -> Vec<FieldError> {
    let mut found = Found(Vec::new());
    let Some(spec) = &pod.spec else { return found.0 };
    let path = FieldPath::root("spec");
    check_pod(spec, &path, &mut found);
    let lists = [("initContainers", list(&spec.init_containers)), ("containers", &spec.containers)];
    for (field, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            let path = path.child(field).index(index);
            check_container(container, &path, &mut found);
        }
    }
    found.0
}

struct Found(Vec<FieldError>);

impl Found {
    fn add(&mut self, set: bool, path: &FieldPath, sentence: &str) {
        if set {
            self.0.push(FieldError::not_served(path, sentence));
        }
    }
}

fn check_pod(spec: &PodSpec, path: &FieldPath, found: &mut Found) {
    found.add(
        !list(&spec.scheduling_gates).is_empty(),
        &path.child("schedulingGates"),
        "a pod with a node name is not scheduled, so scheduling gates have no effect",
    );
    for (index, volume) in list(&spec.volumes).iter().enumerate() {
        check_volume(volume, &path.child("volumes").index(index), found);
    }
}

/// The medium of volumes in huge pages of a size, which follows.
const HUGE_PAGES_OF_SIZE: &str = "HugePages-";

/// The supported kinds of volumes by their fields: those of the registry of crate `volume`, and images, which the runtime mounts.
pub const VOLUMES: [&str; 18] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "gcePersistentDisk",
    "hostPath",
    "image",
    "nfs",
    "persistentVolumeClaim",
    "portworxVolume",
    "projected",
    "secret",
    "vsphereVolume",
];

fn check_volume(volume: &Volume, path: &FieldPath, found: &mut Found) {
    for kind in sources(volume).iter().filter(|kind| !VOLUMES.contains(&kind.as_str())) {
        found.add(true, &path.child(kind), &format!("volumes of type {kind} are not mounted"));
    }
    if let Some(directory) = &volume.empty_dir {
        let path = path.child("emptyDir");
        let medium = text(&directory.medium);
        let is_served =
            matches!(medium, "" | "Memory" | "HugePages") || medium.starts_with(HUGE_PAGES_OF_SIZE);
        let media = "the media are Memory, HugePages and HugePages-<size>";
        found.add(!is_served, &path.child("medium"), media);
    }
}

fn check_container(container: &Container, path: &FieldPath, found: &mut Found) {
    for (index, mount) in list(&container.volume_mounts).iter().enumerate() {
        let set = !list(&mount.bind_mount_options).is_empty();
        let path = path.child("volumeMounts").index(index).child("bindMountOptions");
        found.add(set, &path, "no released container runtime supports mount options");
    }
}

/// All unsupported fields of an ephemeral container. It may be added to a pod that was admitted long ago.
pub fn unsupported_ephemeral(container: &Container) -> Vec<FieldError> {
    let mut found = Found(Vec::new());
    let path = FieldPath::root("spec").child("ephemeralContainers").key(&container.name);
    check_container(container, &path, &mut found);
    found.0
}
