//! Volumes behind PersistentVolumeClaims: those of the types hostPath, local and nfs. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    LocalVolumeSource, PersistentVolume, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec,
};
use serde_json::Value;

use super::{host_path, nfs};
use crate::desired::{Context, DesiredVolume};
use crate::error::{VolumeProblem, VolumeStep};
use crate::external::External;
use crate::layout::Kind;
use hostlet_base::json;
use hostlet_host::GroupChange;
use hostlet_pod::matches_node_selector;
use hostlet_pod::objects::{ClaimState, GROUP, MOUNT_OPTIONS};

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

/// The desired state of the volume `name` of the pod, behind the claim that `source` names.
pub(crate) fn desired(
    name: &str,
    source: &PersistentVolumeClaimVolumeSource,
    context: &Context<'_>,
) -> DesiredVolume {
    let claim = format!("{}/{}", context.namespace(), source.claim_name);
    match context.snapshot.claims.get(&source.claim_name) {
        Some(ClaimState::Bound(volume)) => behind(name, volume, source.read_only.unwrap_or(false), context),
        Some(ClaimState::Failed(error)) => {
            DesiredVolume::Unprocessed(format!("error processing PVC {claim}: {error}"))
        }
        Some(ClaimState::Pending) | None => DesiredVolume::Unprocessed(format!(
            "error processing PVC {claim}: failed to fetch PVC from API server: it has not answered yet"
        )),
    }
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

fn behind(name: &str, volume: &PersistentVolume, read_only: bool, context: &Context<'_>) -> DesiredVolume {
    let none = PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&none);
    let pv = volume.metadata.name.as_deref().unwrap_or_default();
    let mode = spec.volume_mode.as_deref().unwrap_or("Filesystem");
    if mode != "Filesystem" {
        let text = format!("volume {name} has volumeMode {mode}, but is specified in volumeMounts");
        return DesiredVolume::Unprocessed(text);
    }
    let failed = |step, cause: String| {
        DesiredVolume::Invalid(VolumeProblem::Volume { step, volume: pv.to_owned(), cause })
    };
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice());
    let is_here = terms.is_none_or(|terms| matches_node_selector(terms, "", context.labels));
    let is_known = spec.host_path.is_some() || spec.local.is_some() || spec.nfs.is_some();
    if is_known && !is_here {
        return failed(VolumeStep::NodeAffinity, "no matching NodeSelectorTerms".to_owned());
    }
    let external = External {
        kind: Kind::Nfs,
        name: pv.to_owned(),
        source: String::new(),
        unit: Default::default(),
        options: mount_options(volume, spec),
        read_only,
        group: None,
        is_exclusive: spec.access_modes.as_deref() == Some(&["ReadWriteOncePod".to_owned()]),
    };
    if let Some(source) = &spec.host_path {
        if !external.options.is_empty() {
            let cause = "mount options are not supported for this volume type";
            return failed(VolumeStep::MountOptions, cause.to_owned());
        }
        return match host_path::PathType::from_api(source.type_.as_deref()) {
            Ok(path_type) => DesiredVolume::Host { path: source.path.clone().into(), path_type, read_only },
            Err(error) => failed(VolumeStep::SetUp, error.to_string()),
        };
    }
    if let Some(source) = &spec.local {
        return local(external, source, context);
    }
    if let Some(source) = &spec.nfs {
        return DesiredVolume::External(nfs::external(external, source));
    }
    failed(VolumeStep::FindPlugin, unsupported(spec))
}

fn local(external: External, source: &LocalVolumeSource, context: &Context<'_>) -> DesiredVolume {
    if source.path.split('/').any(|part| part == "..") {
        let cause = format!("invalid path: {} must not contain '..'", source.path);
        return DesiredVolume::Invalid(VolumeProblem::Volume {
            step: VolumeStep::SetUp,
            volume: external.name,
            cause,
        });
    }
    // Upstream takes a relative path as one from the root.
    let path = if source.path.starts_with('/') { source.path.clone() } else { format!("/{}", source.path) };
    let group = context.group();
    DesiredVolume::External(External {
        kind: Kind::LocalVolume,
        unit: path.clone().into(),
        source: path,
        group: group.map(|group| (group, group_change(context))),
        ..external
    })
}

fn group_change(context: &Context<'_>) -> GroupChange {
    let security = context.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    match security.and_then(|security| security.fs_group_change_policy.as_deref()) {
        Some("OnRootMismatch") => GroupChange::OnRootMismatch,
        Some(_) | None => GroupChange::Always,
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
