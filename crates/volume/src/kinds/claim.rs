//! Volumes behind PersistentVolumeClaims: what the PersistentVolume of the claim is. Pure.

use std::collections::BTreeSet;

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_base::json;
use hostlet_pod::matches_node_selector;
use hostlet_pod::objects::{ClaimRef, ClaimState, GROUP, MOUNT_OPTIONS};
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec, Pod, Volume,
};
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
        &["has volumemode", "but is specified in"],
        "the volume of a claim is a block device, and hostlet mounts volumes as filesystems only",
        "use a claim with volumeMode: Filesystem",
    ),
    rule(
        &["findpluginbyspec failed", "csi driver"],
        "the PersistentVolume needs a volume driver, and hostlet does not run volume drivers yet",
        "use a PersistentVolume of the type local, hostPath or nfs, or run the pod on a node with another kubelet",
    ),
    rule(
        &["findpluginbyspec failed"],
        "hostlet does not mount PersistentVolumes of this type yet",
        "use a PersistentVolume of the type local, hostPath or nfs, or run the pod on a node with another kubelet",
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
        volume.persistent_volume_claim.is_some()
    }

    fn plugin(&self) -> &'static str {
        "kubernetes.io/persistent-claim"
    }

    fn directory(&self) -> Option<KindDirectory> {
        None
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.persistent_volume_claim.as_ref()?;
        let claim = format!("{}/{}", context.namespace(), source.claim_name);
        Some(match context.snapshot.claims.get(&source.claim_name) {
            Some(ClaimState::Bound(persistent)) => {
                behind(&volume.name, persistent, source.read_only.unwrap_or(false), context, self.kinds)
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
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let claim = |name: &String| ClaimRef { namespace: namespace.clone(), name: name.clone() };
    sources.map(|source| claim(&source.claim_name)).collect()
}

/// The groups that the annotations of PersistentVolumes give to the pod's processes. As upstream, what is no number gives none.
pub(crate) fn groups(context: &Context<'_>) -> BTreeSet<i64> {
    let volumes = context.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let group = |claim: &PersistentVolumeClaimVolumeSource| {
        let state = context.snapshot.claims.get(&claim.claim_name)?;
        let ClaimState::Bound(volume) = state else { return None };
        volume.metadata.annotations.as_ref()?.get(GROUP)?.parse().ok()
    };
    claims.filter_map(group).collect()
}

fn behind(
    name: &str,
    volume: &PersistentVolume,
    read_only: bool,
    context: &Context<'_>,
    kinds: &[&dyn Kind],
) -> DesiredVolume {
    let none = PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&none);
    let mode = spec.volume_mode.as_deref().unwrap_or("Filesystem");
    if mode != "Filesystem" {
        let text = format!("volume {name} has volumeMode {mode}, but is specified in volumeMounts");
        return DesiredVolume::Unprocessed(text);
    }
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let persistent = Persistent { name, spec, options: mount_options(volume, spec), read_only };
    let desired = kinds.iter().find_map(|kind| kind.desired_persistent(&persistent, context));
    let Some(desired) = desired else {
        return persistent.failed(VolumeStep::FindPlugin, unsupported(spec));
    };
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice());
    if terms.is_none_or(|terms| matches_node_selector(terms, "", context.labels)) {
        desired
    } else {
        persistent.failed(VolumeStep::NodeAffinity, "no matching NodeSelectorTerms")
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
    if let Some(csi) = &spec.csi {
        return format!(
            "it needs the CSI driver {}, and hostlet does not run volume drivers yet",
            csi.driver
        );
    }
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
