//! The CSINode: which CSI drivers serve this node, under which name and in which places, and how many volumes of each fit. The rules are
//! upstream's (`nodeinfomanager`). Pure.

use std::collections::BTreeSet;

use hostlet_csi::{NodeInfo, NodeInfos};
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The annotation that names the in-tree volume types whose volumes a CSI driver serves.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// These types, sorted.
const MIGRATED: [&str; 7] = [
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
];

/// What a CSINode has to say.
pub(super) struct DesiredCsiNode<'a> {
    /// The Node that owns it.
    pub(super) node: &'a str,
    pub(super) uid: &'a str,
    /// The drivers that are registered. Others that it has stay: they may register yet.
    pub(super) drivers: &'a NodeInfos,
    /// Those that are not registered any more.
    pub(super) removed: &'a BTreeSet<String>,
}

/// The next request.
#[derive(Debug, PartialEq)]
pub(super) enum CsiNodeStep {
    Nothing,
    Create(Box<CSINode>),
    /// With the version that was found.
    Replace(Box<CSINode>),
    /// It belongs to an earlier Node of this name.
    Delete {
        uid: Option<String>,
    },
}

/// What brings the CSINode that was found closer to the desired one.
pub(super) fn next_step(found: Option<&CSINode>, desired: &DesiredCsiNode<'_>) -> CsiNodeStep {
    let Some(found) = found else {
        let mut new = empty(desired);
        update(&mut new, desired);
        return CsiNodeStep::Create(Box::new(new));
    };
    let owners = found.metadata.owner_references.iter().flatten();
    let mut of_node = owners.filter(|owner| owner.kind == "Node" && owner.name == desired.node);
    if !of_node.any(|owner| owner.uid == desired.uid) {
        return CsiNodeStep::Delete { uid: found.metadata.uid.clone() };
    }
    let mut new = found.clone();
    update(&mut new, desired);
    if new == *found { CsiNodeStep::Nothing } else { CsiNodeStep::Replace(Box::new(new)) }
}

fn empty(desired: &DesiredCsiNode<'_>) -> CSINode {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: desired.node.to_owned(),
        uid: desired.uid.to_owned(),
        ..OwnerReference::default()
    };
    CSINode {
        metadata: ObjectMeta {
            name: Some(desired.node.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: CSINodeSpec::default(),
        status: None,
    }
}

fn update(node: &mut CSINode, desired: &DesiredCsiNode<'_>) {
    let annotations = node.metadata.annotations.get_or_insert_default();
    let reported = annotations.get(MIGRATED_PLUGINS).map(|text| text.split(',').collect::<BTreeSet<_>>());
    if reported != Some(BTreeSet::from(MIGRATED)) {
        annotations.insert(MIGRATED_PLUGINS.to_owned(), MIGRATED.join(","));
    }
    let drivers = &mut node.spec.drivers;
    drivers.retain(|driver| !desired.removed.contains(&driver.name));
    for (name, info) in desired.drivers {
        let new = entry(name, info);
        if !drivers.iter().any(|driver| is_same(driver, &new)) {
            drivers.retain(|driver| driver.name != *name);
            drivers.push(new);
        }
    }
}

fn entry(name: &str, info: &NodeInfo) -> CSINodeDriver {
    // A limit that the field cannot hold is no limit in practice, and neither is one below 1.
    let count =
        info.max_volumes.filter(|count| *count > 0).map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    let keys: Vec<String> = info.topology.keys().cloned().collect();
    CSINodeDriver {
        allocatable: count.map(|count| VolumeNodeResources { count: Some(count) }),
        name: name.to_owned(),
        node_id: info.node_id.clone(),
        topology_keys: (!keys.is_empty()).then_some(keys),
    }
}

/// Whether two entries say the same, whatever the order of their keys.
fn is_same(one: &CSINodeDriver, other: &CSINodeDriver) -> bool {
    let keys = |driver: &CSINodeDriver| -> BTreeSet<String> {
        driver.topology_keys.iter().flatten().cloned().collect()
    };
    let count = |driver: &CSINodeDriver| driver.allocatable.as_ref().and_then(|resources| resources.count);
    one.name == other.name
        && one.node_id == other.node_id
        && keys(one) == keys(other)
        && count(one) == count(other)
}

#[cfg(test)]
#[path = "csi_node_tests.rs"]
mod tests;
