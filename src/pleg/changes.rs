//! The queue of changed pods: conflated per pod, so that a slow reader costs memory per pod and never loses a change.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{LifecycleEvent, ObjectId};
use crate::types::PodUid;

/// What happened to a pod since its changes were last read; the latest event of each of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodChange {
    /// The pod.
    pub uid: PodUid,
    /// The latest event of each sandbox and container that changed.
    pub events: BTreeMap<ObjectId, LifecycleEvent>,
}

/// Changed pods, in the order of their first unread change. One reader.
#[derive(Clone, Default)]
pub struct ChangeQueue {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Default)]
struct Queue {
    order: VecDeque<PodUid>,
    events: HashMap<PodUid, BTreeMap<ObjectId, LifecycleEvent>>,
}

impl ChangeQueue {
    /// Adds events of a pod.
    pub(super) fn push(&self, uid: &PodUid, events: Vec<(ObjectId, LifecycleEvent)>) {
        if events.is_empty() {
            return;
        }
        {
            let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let known = queue.events.contains_key(uid);
            queue.events.entry(uid.clone()).or_default().extend(events);
            if !known {
                queue.order.push_back(uid.clone());
            }
        }
        self.inner.filled.notify_one();
    }

    /// The next changed pod. Cancel-safe: a change is taken only when it is returned.
    pub async fn next(&self) -> PodChange {
        loop {
            if let Some(change) = self.take() {
                return change;
            }
            self.inner.filled.notified().await;
        }
    }

    fn take(&self) -> Option<PodChange> {
        let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = queue.order.pop_front()?;
        let events = queue.events.remove(&uid).unwrap_or_default();
        Some(PodChange { uid, events })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ContainerId;

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
        assert!(queue.take().is_none());
    }
}
