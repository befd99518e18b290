//! Which mirror pods to create and delete. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use hostlet_base::{CONFIG_HASH_ANNOTATION, CONFIG_MIRROR_ANNOTATION, PodUid};
use hostlet_pod::{AdmittedPod, Mirror};

/// The Node, which owns the mirror pods: they are garbage-collected with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// `metadata.name`.
    name: String,
    /// `metadata.uid`.
    uid: String,
}

impl Owner {
    pub(super) fn of(node: &Node) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { name: text(&node.metadata.name), uid: text(&node.metadata.uid) }
    }
}

/// Namespace and name.
pub(super) type Name = (String, String);

/// An action on the mirror pod of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Create this object.
    Create(Box<Pod>),
    /// Delete the object of this UID without grace period.
    Delete(String),
    /// Keep it until its static pod has terminated.
    Wait,
}

/// Plans the actions after which exactly the static pods have mirror pods. A mirror of an outdated version is deleted before the
/// new one is created, and only once its static pod has terminated: until then it shows what still runs, and the scheduler
/// counts it. `alive` are the pods that have not terminated. Unless `are_all_known` (every manifest was read), mirrors without a
/// pod are kept.
pub(super) fn plan(
    statics: &[Arc<AdmittedPod>],
    mirrors: &BTreeMap<Name, Arc<Mirror>>,
    owner: &Owner,
    alive: &HashSet<PodUid>,
    are_all_known: bool,
) -> BTreeMap<Name, Action> {
    let remove = |mirror: &Mirror| {
        let is_alive = alive.contains(&PodUid::from(mirror.mirrored()));
        if is_alive { Action::Wait } else { delete(mirror) }
    };
    let mut actions = BTreeMap::new();
    let mut mirrored = HashSet::new();
    for pod in statics {
        let name = name_of(pod);
        mirrored.insert(name.clone());
        match mirrors.get(&name) {
            None => {
                actions.insert(name, Action::Create(Box::new(mirror_of(pod, owner))));
            }
            Some(mirror) if mirror.mirrored() != hash(pod) => {
                actions.insert(name, remove(mirror));
            }
            Some(mirror) if is_deleting(mirror) => {
                actions.insert(name, delete(mirror));
            }
            Some(_) => {}
        }
    }
    if are_all_known {
        let left = mirrors.iter().filter(|(name, _)| !mirrored.contains(*name));
        actions.extend(left.map(|(name, mirror)| (name.clone(), remove(mirror))));
    }
    actions
}

fn delete(mirror: &Mirror) -> Action {
    Action::Delete(mirror.pod.metadata.uid.clone().unwrap_or_default())
}

/// Whether it is marked for deletion. The deletion would never complete by itself, because no pod terminates with it.
fn is_deleting(mirror: &Mirror) -> bool {
    mirror.pod.metadata.deletion_timestamp.is_some()
}

/// The mirror pod of a static pod.
fn mirror_of(pod: &Pod, owner: &Owner) -> Pod {
    let mut mirror = pod.clone();
    // The server assigns a UID and the initial status.
    mirror.metadata.uid = None;
    mirror.status = None;
    let annotations = mirror.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_MIRROR_ANNOTATION.to_owned(), hash(pod).to_owned());
    mirror.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    mirror
}

fn hash(pod: &Pod) -> &str {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(CONFIG_HASH_ANNOTATION)).map_or("", String::as_str)
}

pub(super) fn name_of(pod: &Pod) -> Name {
    (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default())
}
