//! Whether a claim and a volume of the API server are bound to each other. Pure.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use hostlet_pod::migration::migrated;
use hostlet_pod::objects::{ClaimError, reduced_volume};

/// The finalizer that keeps a claim while a pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Whether a claim was made for the pod with this UID, which then controls it (upstream `VolumeIsForPod`).
pub(super) fn made_for(claim: &PersistentVolumeClaim, pod: &str) -> Result<(), ClaimError> {
    let mut controllers = claim.metadata.owner_references.iter().flatten();
    let is_owner = controllers.any(|owner| owner.controller == Some(true) && owner.uid == pod);
    if is_owner { Ok(()) } else { Err(ClaimError::NotOwned) }
}

/// The name of the volume that a claim is bound to.
pub(super) fn volume_of(claim: &PersistentVolumeClaim) -> Result<&str, ClaimError> {
    let meta = &claim.metadata;
    let is_protected = meta.finalizers.iter().flatten().any(|finalizer| finalizer == PROTECTION);
    if meta.deletion_timestamp.is_some() && !is_protected {
        return Err(ClaimError::Deleted);
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        return Err(ClaimError::NotBound);
    }
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if name.is_empty() { Err(ClaimError::NoVolumeName) } else { Ok(name) }
}

/// What a mount needs of a volume, if it is bound to the claim with this UID; a cloud's volume as one of its CSI driver.
pub(super) fn claimed_by(volume: PersistentVolume, claim_uid: &str) -> Result<PersistentVolume, ClaimError> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some(reference) = reference else { return Err(ClaimError::NotClaimed(name)) };
    let found = reference.uid.as_deref().unwrap_or_default();
    if found != claim_uid {
        return Err(ClaimError::OtherClaim { name, found: found.to_owned(), expected: claim_uid.to_owned() });
    }
    // Before its labels are dropped.
    let volume = migrated(volume).map_err(ClaimError::Migration)?;
    Ok(reduced_volume(volume))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use hostlet_pod::objects::MOUNT_OPTIONS;

    fn claim(meta: Value, spec: Value, phase: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn a_bound_claim_names_its_volume_and_others_say_why_not() {
        let named = json!({"volumeName": "pv-1"});
        assert_eq!(volume_of(&claim(json!({}), named.clone(), "Bound")), Ok("pv-1"));
        let error = |meta, spec, phase| volume_of(&claim(meta, spec, phase)).unwrap_err().to_string();
        assert_eq!(error(json!({}), named.clone(), "Pending"), "PVC is not bound");
        assert_eq!(error(json!({}), named.clone(), "Lost"), "PVC is not bound");
        assert_eq!(error(json!({}), json!({}), "Bound"), "PVC has empty pvc.Spec.VolumeName");
        let deleted = json!({"deletionTimestamp": "2026-11-25T00:00:00Z"});
        assert_eq!(error(deleted.clone(), named.clone(), "Bound"), "PVC is being deleted");
        // A pod that uses it delays the deletion.
        let mut protected = deleted;
        protected["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
        assert_eq!(volume_of(&claim(protected, named, "Bound")), Ok("pv-1"));
    }

    #[test]
    fn a_claim_of_an_ephemeral_volume_must_belong_to_its_pod() {
        let owner = |uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": controller});
        let of =
            |owners: Value| made_for(&claim(json!({"ownerReferences": owners}), json!({}), "Bound"), "u1");
        assert_eq!(of(json!([owner("u0", false), owner("u1", true)])), Ok(()));
        for other in [json!([]), json!([owner("u1", false)]), json!([owner("u0", true)])] {
            assert_eq!(of(other.clone()), Err(ClaimError::NotOwned), "{other}");
        }
    }

    #[test]
    fn a_volume_must_belong_to_the_claim() {
        let volume = |claim_ref: Value| -> PersistentVolume {
            let spec = json!({"local": {"path": "/mnt"}, "claimRef": claim_ref});
            let annotations = json!({MOUNT_OPTIONS: "noatime", "other": "x"});
            let meta = json!({"name": "pv-1", "resourceVersion": "7", "annotations": annotations});
            serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}))
                .unwrap()
        };
        let kept = claimed_by(volume(json!({"uid": "u1"})), "u1").unwrap();
        assert_eq!((kept.status, kept.metadata.resource_version), (None, None));
        assert_eq!(kept.metadata.annotations.unwrap().keys().collect::<Vec<_>>(), [MOUNT_OPTIONS]);
        assert!(kept.spec.unwrap().local.is_some());
        let error = |claim_ref| claimed_by(volume(claim_ref), "u1").unwrap_err().to_string();
        let of_cloud = |kind: &str, source: Value| -> PersistentVolume {
            let spec = json!({kind: source, "claimRef": {"uid": "u1"}});
            let labels = json!({"topology.kubernetes.io/zone": "z"});
            serde_json::from_value(json!({"metadata": {"name": "pv-1", "labels": labels}, "spec": spec}))
                .unwrap()
        };
        let kept = claimed_by(of_cloud("gcePersistentDisk", json!({"pdName": "d"})), "u1").unwrap();
        let handle = kept.spec.unwrap().csi.unwrap().volume_handle;
        assert_eq!(handle, "projects/UNSPECIFIED/zones/z/disks/d", "with the zone of its label");
        let share = of_cloud("azureFile", json!({"secretName": "s", "shareName": "s"}));
        let expected = "failed to translate in-tree pv to CSI: could not find a secret namespace in PersistentVolumeSource or ClaimRef";
        assert_eq!(claimed_by(share, "u1").unwrap_err().to_string(), expected);
        let expected = "found PV object pv-1 but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim";
        assert_eq!(error(Value::Null), expected);
        let expected = "found PV object pv-1 but its pv.Spec.ClaimRef.UID u0 does not point to claim.UID u1";
        assert_eq!(error(json!({"uid": "u0"})), expected);
    }
}
