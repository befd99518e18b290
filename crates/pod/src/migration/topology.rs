//! Where a migrated volume can be used: zones in the labels or the node affinity of a volume, as its driver names them. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

const VSPHERE_ZONE: &str = "topology.csi.vmware.com/zone";
const VSPHERE_REGION: &str = "topology.csi.vmware.com/region";

/// Separates the zones of a volume in its label.
pub(super) const MULTI_ZONE: &str = "__";

/// Replaces zones in the node affinity by the driver's key, or else adds those of the label to it (upstream
/// `translateTopologyFromInTreeToCSI`).
pub(super) fn translate(metadata: &ObjectMeta, spec: &mut PersistentVolumeSpec, key: &str) {
    let keys = keys(metadata, spec);
    if has_values(spec, keys.zone) {
        replace(spec, keys.zone, key);
    } else if let Some(label) = label(metadata, keys.zone) {
        add(spec, key, label.split(MULTI_ZONE));
    }
    // Nodes have only the newer label.
    if keys.region == BETA_REGION && has_values(spec, BETA_REGION) {
        replace(spec, BETA_REGION, REGION);
    }
}

/// The same for vSphere, whose driver also knows regions.
pub(super) fn translate_vsphere(metadata: &ObjectMeta, spec: &mut PersistentVolumeSpec) {
    let keys = keys(metadata, spec);
    for (old, new) in [(keys.zone, VSPHERE_ZONE), (keys.region, VSPHERE_REGION)] {
        if has_values(spec, old) {
            replace(spec, old, new);
        } else if let Some(label) = label(metadata, old) {
            add(spec, new, std::iter::once(label));
        }
    }
}

/// The keys of Kubernetes that a volume uses.
struct Keys {
    zone: &'static str,
    region: &'static str,
}

/// The newer keys if the node affinity has the newer zone, else the older ones if it has the older zone, else the same by labels.
fn keys(metadata: &ObjectMeta, spec: &PersistentVolumeSpec) -> Keys {
    let new = Keys { zone: ZONE, region: REGION };
    let old = Keys { zone: BETA_ZONE, region: BETA_REGION };
    let has = |key: &str| requirements(spec).any(|requirement| requirement.key == key);
    let is_labeled = |key: &str| metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
    let is_old = !has(ZONE) && (has(BETA_ZONE) || (!is_labeled(ZONE) && is_labeled(BETA_ZONE)));
    if is_old { old } else { new }
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn terms(affinity: Option<&VolumeNodeAffinity>) -> &[NodeSelectorTerm] {
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.map_or(&[], |required| &required.node_selector_terms)
}

fn requirements(spec: &PersistentVolumeSpec) -> impl Iterator<Item = &NodeSelectorRequirement> {
    terms(spec.node_affinity.as_ref()).iter().flat_map(|term| term.match_expressions.iter().flatten())
}

fn has_values(spec: &PersistentVolumeSpec, key: &str) -> bool {
    requirements(spec)
        .filter(|requirement| requirement.key == key)
        .any(|requirement| requirement.values.as_ref().is_some_and(|values| !values.is_empty()))
}

fn replace(spec: &mut PersistentVolumeSpec, old: &str, new: &str) {
    let required = spec.node_affinity.as_mut().and_then(|affinity| affinity.required.as_mut());
    let terms = required.into_iter().flat_map(|required| &mut required.node_selector_terms);
    let requirements = terms.flat_map(|term| term.match_expressions.iter_mut().flatten());
    for requirement in requirements.filter(|requirement| requirement.key == old) {
        new.clone_into(&mut requirement.key);
    }
}

/// Adds a requirement to each term. Without any value there is none.
fn add<'a>(spec: &mut PersistentVolumeSpec, key: &str, values: impl Iterator<Item = &'a str>) {
    let values: BTreeSet<&str> = values.map(str::trim).filter(|value| !value.is_empty()).collect();
    if values.is_empty() {
        return;
    }
    let requirement = NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values.into_iter().map(str::to_owned).collect()),
    };
    let required = spec.node_affinity.get_or_insert_default().required.get_or_insert_default();
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_expressions.get_or_insert_default().push(requirement.clone());
    }
}
