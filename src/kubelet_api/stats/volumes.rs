//! Which volumes of pods are measured for the summary, and which of them count as a pod's local storage. Pure.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Volume;

use crate::pod::{AdmittedPod, DesiredPods};
use crate::stats::{PodPlaces, VolumePlace};
use crate::types::PodUid;
use crate::volume::{local_volume_dir, own_volume_dir};

/// The volumes of all pods that have not ended, each measured at this pace.
pub(super) fn places(desired: &DesiredPods, root: &Path, pace: Duration) -> BTreeMap<PodUid, PodPlaces> {
    let of = |pod: &AdmittedPod| {
        let uid = &pod.reference.uid;
        let place = |volume: &Volume| {
            let path = own_volume_dir(root, uid, volume)?;
            Some((volume.name.clone(), VolumePlace { path, enough: u64::MAX, pace }))
        };
        let volumes = pod.spec().volumes.iter().flatten().filter_map(place).collect();
        PodPlaces { pod: pod.reference.clone(), volumes, containers: None }
    };
    let alive = desired.pods.iter().filter(|pod| !pod.has_ended());
    alive.map(|pod| (pod.reference.uid.clone(), of(pod))).collect()
}

/// The volumes of each pod that count as its local storage: those on disk that only the pod needs (upstream's
/// `IsLocalEphemeralVolume`).
pub(super) fn local(desired: &DesiredPods) -> BTreeMap<PodUid, Vec<String>> {
    let of = |pod: &AdmittedPod| {
        let is_local =
            |volume: &&Volume| local_volume_dir(Path::new("/"), &pod.reference.uid, volume).is_some();
        let volumes = pod.spec().volumes.iter().flatten().filter(is_local);
        volumes.map(|volume| volume.name.clone()).collect()
    };
    desired.pods.iter().map(|pod| (pod.reference.uid.clone(), of(pod))).collect()
}
