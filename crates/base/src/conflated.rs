//! A queue of per-pod messages, merged per pod: with a slow reader, memory grows only with the number of pods, and nothing is
//! dropped.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::PodUid;

/// Pods with unread messages, in order of the first one. Single reader; clones share the queue.
#[derive(Debug)]
pub struct Conflated<V> {
    inner: Arc<Inner<V>>,
}

#[derive(Debug)]
struct Inner<V> {
    queue: Mutex<Queue<V>>,
    filled: Notify,
}

#[derive(Debug)]
struct Queue<V> {
    order: VecDeque<PodUid>,
    unread: HashMap<PodUid, V>,
}

impl<V> Default for Conflated<V> {
    fn default() -> Self {
        let queue = Mutex::new(Queue { order: VecDeque::new(), unread: HashMap::new() });
        Self { inner: Arc::new(Inner { queue, filled: Notify::new() }) }
    }
}

impl<V> Clone for Conflated<V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<V: Default> Conflated<V> {
    /// Adds a message for a pod: `add` merges it into the pod's unread one.
    pub fn push(&self, uid: &PodUid, add: impl FnOnce(&mut V)) {
        {
            let mut queue = self.inner.queue.lock();
            if !queue.unread.contains_key(uid) {
                queue.order.push_back(uid.clone());
            }
            add(queue.unread.entry(uid.clone()).or_default());
        }
        self.inner.filled.notify_one();
    }

    /// The next pod with its messages. Cancel-safe: they are removed only when returned.
    pub async fn next(&self) -> (PodUid, V) {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.inner.filled.notified().await;
        }
    }

    /// The next pod with its messages, if any.
    pub fn take(&self) -> Option<(PodUid, V)> {
        let mut queue = self.inner.queue.lock();
        let uid = queue.order.pop_front()?;
        let unread = queue.unread.remove(&uid).unwrap_or_default();
        Some((uid, unread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_of_a_pod_are_merged_and_none_is_lost() {
        let queue = Conflated::<u32>::default();
        for _ in 0..10_000 {
            queue.push(&"a".into(), |count| *count += 1);
            queue.push(&"b".into(), |count| *count += 2);
        }
        assert_eq!(queue.next().await, ("a".into(), 10_000));
        assert_eq!(queue.next().await, ("b".into(), 20_000));
        assert_eq!(queue.take(), None);
        queue.push(&"a".into(), |count| *count += 1);
        assert_eq!(queue.next().await, ("a".into(), 1));
    }
}
