//! Which volumes of pods are measured for the summary, and what their specs say of them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Volume;

use hostlet_base::PodUid;
use hostlet_observe::stats::{PodPlaces, VolumePlace};
use hostlet_pod::{AdmittedPod, DesiredPods};
use hostlet_volume::{local_volume_dir, own_volume_dir};

/// The volumes that the daemon makes for pods that have not ended, each measured at this pace.
pub(super) fn places(desired: &DesiredPods, root: &Path, pace: Duration) -> BTreeMap<PodUid, PodPlaces> {
    let of = |pod: &AdmittedPod| {
        let uid = &pod.reference.uid;
        let place = |volume: &Volume| {
            let path = own_volume_dir(root, uid, volume)?;
            Some((volume.name.clone(), VolumePlace { path, enough: u64::MAX, pace }))
        };
        let volumes = pod.spec().volumes.iter().flatten().filter_map(place).collect();
        PodPlaces { pod: pod.reference.clone(), volumes, external: BTreeMap::new(), containers: None }
    };
    let alive = desired.pods.iter().filter(|pod| !pod.has_ended());
    alive.map(|pod| (pod.reference.uid.clone(), of(pod))).collect()
}

/// What a pod's spec says of its volumes.
#[derive(Debug, Default)]
pub(super) struct VolumeFacts {
    /// Those that count as its local storage: on disk, and needed by this pod only (upstream's `IsLocalEphemeralVolume`).
    pub(super) local: BTreeSet<String>,
    /// The names of the claims of the others, by volume.
    pub(super) claims: BTreeMap<String, String>,
}

/// What the specs of all pods say.
pub(super) fn facts(desired: &DesiredPods) -> BTreeMap<PodUid, VolumeFacts> {
    let of = |pod: &AdmittedPod| {
        let mut facts = VolumeFacts::default();
        for volume in pod.spec().volumes.iter().flatten() {
            let name = volume.name.clone();
            if let Some(source) = &volume.persistent_volume_claim {
                facts.claims.insert(name, source.claim_name.clone());
            } else if local_volume_dir(Path::new("/"), &pod.reference.uid, volume).is_some() {
                facts.local.insert(name);
            }
        }
        facts
    };
    desired.pods.iter().map(|pod| (pod.reference.uid.clone(), of(pod))).collect()
}
