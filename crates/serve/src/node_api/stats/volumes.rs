//! What the specs of pods say of the volumes in a summary. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hostlet_base::PodUid;
use hostlet_pod::objects::claim_name;
use hostlet_pod::{AdmittedPod, DesiredPods};
use hostlet_volume::local_volume_dir;

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
            if let Some(claim) = claim_name(&pod.reference.name, volume) {
                facts.claims.insert(name, claim);
            } else if local_volume_dir(Path::new("/"), &pod.reference.uid, volume).is_some() {
                facts.local.insert(name);
            }
        }
        facts
    };
    desired.pods.iter().map(|pod| (pod.reference.uid.clone(), of(pod))).collect()
}
