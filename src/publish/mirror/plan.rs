//! Which mirrors to make and to remove. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::pod::AdmittedPod;
use crate::source::api::Mirror;
use crate::types::{CONFIG_HASH_ANNOTATION, CONFIG_MIRROR_ANNOTATION, PodUid};

/// The Node that mirrors belong to: they go with it.
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

/// What to do about the mirror of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Make this object.
    Create(Box<Pod>),
    /// Delete the object of this UID at once.
    Delete(String),
    /// Leave it until the static pod that it shows has ended.
    Wait,
}

/// What to do so that exactly the static pods have mirrors. A mirror of another version of its pod is removed first; the
/// new one is made when it is gone. A mirror is removed once the pod that it shows has ended: until then it says what still
/// runs here, and the scheduler counts it. `alive` are the pods that have not. `are_all_known` says whether every manifest was
/// read: before that, a mirror without a pod is not known to be left over.
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
            Some(mirror) if is_going(mirror) => {
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

/// Somebody deleted it: no kubelet would ever finish that, as nothing ends with it.
fn is_going(mirror: &Mirror) -> bool {
    mirror.pod.metadata.deletion_timestamp.is_some()
}

/// The object that shows a static pod.
fn mirror_of(pod: &Pod, owner: &Owner) -> Pod {
    let mut mirror = pod.clone();
    // The server gives it a UID of its own and its first status.
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
