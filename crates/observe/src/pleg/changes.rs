//! The queue of changed pods: conflated per pod, so that a slow reader costs bounded memory and never loses a change.

use std::collections::BTreeMap;

use hostlet_base::{Conflated, PodUid};

use super::{LifecycleEvent, ObjectId};

/// What happened to a pod since its changes were last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodChange {
    /// UID of the pod that changed.
    pub uid: PodUid,
    /// The latest event of each sandbox and container that changed.
    pub events: BTreeMap<ObjectId, LifecycleEvent>,
}

/// The changed pods, in the order of their first unread change. Has one reader.
#[derive(Clone, Default)]
pub struct ChangeQueue {
    pods: Conflated<BTreeMap<ObjectId, LifecycleEvent>>,
}

impl ChangeQueue {
    /// Adds events of a pod.
    pub(super) fn push(&self, uid: &PodUid, events: Vec<(ObjectId, LifecycleEvent)>) {
        if !events.is_empty() {
            self.pods.push(uid, |unread| unread.extend(events));
        }
    }

    /// Waits for the next changed pod. Cancel-safe: a change is removed only when it is returned.
    pub async fn next(&self) -> PodChange {
        let (uid, events) = self.pods.next().await;
        PodChange { uid, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::ContainerId;

    fn event(id: &str, event: LifecycleEvent) -> (ObjectId, LifecycleEvent) {
        (ObjectId::Container(ContainerId::from(id)), event)
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_one_pod_are_conflated_and_none_is_lost() {
        let queue = ChangeQueue::default();
        for _ in 0..10_000 {
            queue.push(&"a".into(), vec![event("1", LifecycleEvent::Started)]);
            queue.push(&"b".into(), vec![event("2", LifecycleEvent::Started)]);
            queue.push(
                &"a".into(),
                vec![event("1", LifecycleEvent::Died), event("3", LifecycleEvent::Started)],
            );
        }
        let first = queue.next().await;
        assert_eq!(first.uid, "a".into());
        assert_eq!(
            first.events,
            BTreeMap::from([event("1", LifecycleEvent::Died), event("3", LifecycleEvent::Started)])
        );
        assert_eq!(queue.next().await.uid, "b".into());
        assert!(queue.pods.take().is_none());
    }
}
