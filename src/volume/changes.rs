//! The queue of pods about whose volumes there is news for their workers: what was missing is there, or what was there
//! cannot be kept up to date. Conflated per pod, so that its size is bounded by the pods.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::types::PodUid;

/// Pods with news, in the order of their first unread news. One reader.
#[derive(Clone, Default)]
pub(super) struct Changed {
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
    waiting: HashSet<PodUid>,
}

impl Changed {
    pub(super) fn push(&self, uid: &PodUid) {
        {
            let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.waiting.insert(uid.clone()) {
                queue.order.push_back(uid.clone());
            }
        }
        self.inner.filled.notify_one();
    }

    /// The next pod. Cancel-safe: it is taken only when it is returned.
    pub(super) async fn next(&self) -> PodUid {
        loop {
            if let Some(uid) = self.take() {
                return uid;
            }
            self.inner.filled.notified().await;
        }
    }

    fn take(&self) -> Option<PodUid> {
        let mut queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = queue.order.pop_front()?;
        queue.waiting.remove(&uid);
        Some(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn news_of_one_pod_are_conflated_and_none_is_lost() {
        let changed = Changed::default();
        for _ in 0..10_000 {
            changed.push(&"a".into());
            changed.push(&"b".into());
        }
        assert_eq!((changed.next().await, changed.next().await), ("a".into(), "b".into()));
        assert_eq!(changed.take(), None);
        changed.push(&"a".into());
        assert_eq!(changed.next().await, "a".into());
    }
}
