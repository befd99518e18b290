//! What a client that watches pods has seen, and what it is sent next. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_observe::status::{DirectoryEntry, LifecycleSummary};
use hostlet_pod::pod_uid;
use hostlet_proto::pods_api::{EventType, WatchPodsEvent};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::encode;

/// What is known of a pod: if none of it changed, nothing did.
struct Seen {
    object: Arc<Pod>,
    status: Arc<PodStatus>,
    lifecycle: LifecycleSummary,
}

/// The pods as a client has seen them.
#[derive(Default)]
pub(super) struct Watched(BTreeMap<PodUid, Seen>);

impl Watched {
    /// The events since the last call, by UID: first the pods that are new or changed, then the removed ones.
    pub(super) fn events(&mut self, pods: &HashMap<PodUid, DirectoryEntry>) -> Vec<WatchPodsEvent> {
        let mut events = Vec::new();
        let sorted: BTreeMap<&PodUid, &DirectoryEntry> = pods.iter().collect();
        for (uid, entry) in sorted {
            let now = Seen {
                object: entry.object().clone(),
                status: entry.status().clone(),
                lifecycle: entry.lifecycle(),
            };
            let kind = match self.0.get(uid) {
                None => EventType::Added,
                Some(seen) if seen.is(&now) => continue,
                Some(_) => EventType::Modified,
            };
            events.push(event(kind, &entry.with_status()));
            self.0.insert(uid.clone(), now);
        }
        self.0.retain(|uid, seen| {
            let is_there = pods.contains_key(uid);
            if !is_there {
                events.push(event(EventType::Deleted, &named(&seen.object)));
            }
            is_there
        });
        events
    }
}

impl Seen {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object)
            && Arc::ptr_eq(&self.status, &other.status)
            && self.lifecycle == other.lifecycle
    }
}

/// The event after the pods that there were at first.
pub(super) fn synced() -> WatchPodsEvent {
    WatchPodsEvent { r#type: EventType::InitialSyncComplete.into(), pod: Vec::new() }
}

fn event(kind: EventType, pod: &Pod) -> WatchPodsEvent {
    WatchPodsEvent { r#type: kind.into(), pod: encode::pod(pod) }
}

/// What remains of a removed pod.
fn named(pod: &Pod) -> Pod {
    let metadata = ObjectMeta {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: Some(pod_uid(pod).to_string()),
        ..ObjectMeta::default()
    };
    Pod { metadata, ..Pod::default() }
}
