//! Volumes behind PersistentVolumeClaims: what the PersistentVolume of the claim is. Pure.

use std::collections::BTreeSet;

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_base::json;
use hostlet_pod::matches_node_selector;
use hostlet_pod::objects::{ClaimError, ClaimRef, ClaimState, GROUP, MIGRATED_TO, MOUNT_OPTIONS, claim_name};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, Pod, Volume};
use serde_json::Value;

use super::kind::Kind;
use crate::error::VolumeStep;
use crate::model::{Context, DesiredVolume, KindDirectory, Persistent};

/// The fields of a PersistentVolume that name no type of volume.
const NO_TYPES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// Causes why a claim or its PersistentVolume cannot be used.
const RULES: &[Rule] = &[
    rule(
        &["error processing pvc", "pvc is not bound"],
        "the claim of a volume is not bound to a PersistentVolume",
        "find out what it waits for (kubectl describe pvc): a PersistentVolume that fits, or its provisioner; without an API \
         server, a PersistentVolume whose spec.claimRef names it, in a manifest; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc", "pvc is being deleted"],
        "the claim of a volume is being deleted",
        "delete the pod, or create the claim again; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc", "but it belongs to the claim"],
        "the PersistentVolume belongs to another claim",
        "correct spec.volumeName of one of the claims, or spec.claimRef of the PersistentVolume",
    ),
    rule(
        &["error processing pvc", "pv.spec.claimref"],
        "the PersistentVolume belongs to another claim, perhaps to an earlier one of the same name",
        "correct spec.claimRef of the PersistentVolume, or remove its uid so that the claim is bound again; hostlet \
         retries automatically",
    ),
    rule(
        &["error processing pvc", "failed to fetch pv ", "not found"],
        "the PersistentVolume of a claim does not exist",
        "create it, or delete the claim and create it again; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc", "persistentvolumeclaims", "not found"],
        "the claim of a volume does not exist",
        "create it in the pod's namespace, or correct persistentVolumeClaim.claimName in spec.volumes; hostlet \
         retries automatically",
    ),
    rule(
        &["error processing pvc", "no manifest defines"],
        "no manifest defines the claim of a volume, or the PersistentVolume that the claim names",
        "add it to the directory of static pods, or correct the name; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc"],
        "the API server did not return the claim of a volume or its PersistentVolume",
        "check that this node can reach the API server and may read them; hostlet retries automatically",
    ),
    rule(
        &["(pod is not owner)"],
        "a claim has the name of the claim of an ephemeral volume, and was not made for the pod",
        "delete or rename the claim, or rename the pod or its volume: the name is <pod>-<volume>; hostlet retries automatically",
    ),
    rule(
        &["has volumemode block", "but is specified in volumemounts"],
        "the volume of a claim is a block device, and a container mounts it",
        "list it in volumeDevices of the container instead of volumeMounts, or use a claim with volumeMode: Filesystem",
    ),
    rule(
        &["has volumemode", "but is specified in volumedevices"],
        "the volume of a claim is a filesystem, and a container wants a block device",
        "list it in volumeMounts of the container instead of volumeDevices, or use a claim with volumeMode: Block",
    ),
    rule(
        &["findmapperpluginbyspec failed"],
        "the PersistentVolume has volumeMode: Block, and its type has no block devices",
        "use a PersistentVolume of the type local or csi, or one with volumeMode: Filesystem",
    ),
    rule(
        &["findpluginbyspec failed"],
        "hostlet does not mount PersistentVolumes of this type",
        "use a PersistentVolume of the type csi, local, hostPath or nfs, or run the pod on a node with another kubelet",
    ),
    rule(
        &["nodeaffinity check failed"],
        "the PersistentVolume belongs to other nodes",
        "run the pod on a node that spec.nodeAffinity of the PersistentVolume matches, or correct that",
    ),
    rule(
        &["readwriteoncepod access mode"],
        "another pod on this node uses a volume for one pod only",
        "remove the other pod, or use another access mode; hostlet retries automatically",
    ),
    rule(
        &["mount failed:", "mounting arguments:"],
        "the host's mount refused to mount a volume",
        "correct what its output says, perhaps mountOptions of the PersistentVolume; hostlet retries automatically",
    ),
];

/// The kind of volumes with a claim. What is mounted, and its directory, are those of the kind of the PersistentVolume.
pub(super) struct Claim {
    /// The kinds that PersistentVolumes may be of.
    pub(super) kinds: &'static [&'static dyn Kind],
}

impl Kind for Claim {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
    }

    fn plugin(&self) -> &'static str {
        "kubernetes.io/persistent-claim"
    }

    fn directory(&self) -> Option<KindDirectory> {
        None
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let name = claim_name(context.name(), volume)?;
        let claim = format!("{}/{name}", context.namespace());
        Some(match context.snapshot.claims.get(&name) {
            Some(ClaimState::Bound(persistent)) => {
                let source = volume.persistent_volume_claim.as_ref();
                let read_only = source.and_then(|source| source.read_only).unwrap_or(false);
                behind(&volume.name, persistent, read_only, context, self.kinds)
            }
            Some(ClaimState::Failed(error @ ClaimError::NotOwned)) => {
                let pod = format!("{}/{}", context.namespace(), context.name());
                DesiredVolume::Unprocessed(format!("PVC {claim} was not created for pod {pod} ({error})"))
            }
            Some(ClaimState::Failed(error)) => {
                DesiredVolume::Unprocessed(format!("error processing PVC {claim}: {error}"))
            }
            Some(ClaimState::Pending) | None => DesiredVolume::Unprocessed(format!(
                "error processing PVC {claim}: failed to fetch PVC from API server: it has not answered yet"
            )),
        })
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

/// The claims that a pod's volumes refer to.
pub(crate) fn claims(pod: &Pod) -> Vec<ClaimRef> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &Volume| {
        let name = claim_name(pod_name, volume)?;
        let is_own = volume.persistent_volume_claim.is_none();
        let owner = is_own.then(|| pod.metadata.uid.clone().unwrap_or_default());
        Some(ClaimRef { namespace: namespace.clone(), name, owner })
    };
    volumes.filter_map(claim).collect()
}

/// The groups that the annotations of PersistentVolumes give to the pod's processes. As upstream, what is no number gives none.
pub(crate) fn groups(context: &Context<'_>) -> BTreeSet<i64> {
    let volumes = context.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| claim_name(context.name(), volume));
    let group = |claim: String| {
        let state = context.snapshot.claims.get(&claim)?;
        let ClaimState::Bound(volume) = state else { return None };
        volume.metadata.annotations.as_ref()?.get(GROUP)?.parse().ok()
    };
    claims.filter_map(group).collect()
}

/// The desired state of the volume `name` of a pod, behind which this PersistentVolume is.
pub(super) fn behind(
    name: &str,
    volume: &PersistentVolume,
    read_only: bool,
    context: &Context<'_>,
    kinds: &[&dyn Kind],
) -> DesiredVolume {
    let none = PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&none);
    let mode = spec.volume_mode.as_deref().unwrap_or("Filesystem");
    let uses = context.uses(name);
    for (is_used, of_mode, field) in
        [(uses.is_mounted, "Filesystem", "volumeMounts"), (uses.is_device, "Block", "volumeDevices")]
    {
        if is_used && mode != of_mode {
            let text = format!("volume {name} has volumeMode {mode}, but is specified in {field}");
            return DesiredVolume::Unprocessed(text);
        }
    }
    let persistent = Persistent {
        name: volume.metadata.name.as_deref().unwrap_or_default(),
        volume: name,
        spec,
        is_block: mode == "Block",
        options: mount_options(volume, spec),
        read_only,
        is_migrated: volume.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIGRATED_TO)),
    };
    let of_kind =
        |kind: &&dyn Kind| Some((kind.has_devices(), kind.desired_persistent(&persistent, context)?));
    let Some((has_devices, desired)) = kinds.iter().find_map(of_kind) else {
        return persistent.failed(VolumeStep::FindPlugin, unsupported(spec));
    };
    if persistent.is_block && !has_devices {
        let cause = "PersistentVolumes of this type are no block devices";
        return persistent.failed(VolumeStep::FindMapper, cause);
    }
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice());
    if terms.is_none_or(|terms| matches_node_selector(terms, "", context.labels)) {
        desired
    } else {
        let step =
            if persistent.is_block { VolumeStep::DeviceNodeAffinity } else { VolumeStep::NodeAffinity };
        persistent.failed(step, "no matching NodeSelectorTerms")
    }
}

fn mount_options(volume: &PersistentVolume, spec: &PersistentVolumeSpec) -> Vec<String> {
    let annotation = volume.metadata.annotations.as_ref().and_then(|all| all.get(MOUNT_OPTIONS));
    let mut options: Vec<String> = match annotation {
        Some(options) => options.split(',').map(str::to_owned).collect(),
        None => spec.mount_options.clone().unwrap_or_default(),
    };
    options.retain(|option| !option.is_empty());
    options.sort_unstable();
    options.dedup();
    options
}

/// Names what the volume needs.
fn unsupported(spec: &PersistentVolumeSpec) -> String {
    let fields = match json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Default::default(),
    };
    let types = fields.keys().filter(|field| !NO_TYPES.contains(&field.as_str()));
    match types.cloned().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "it has no type".to_owned(),
        types => format!("hostlet does not mount PersistentVolumes of the type {types} yet"),
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
