//! The observed state of every pod, with waits for an observation newer than a given time. Written by the relist only.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodRef, PodUid};
use hostlet_runtime::cri::{CallSubject, CriError};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::PodStatus;

/// What was last observed of a pod: its status, or why it could not be inspected.
pub type Observed = Result<Arc<PodStatus>, CriError>;

/// The per-pod cache. Cheap to clone; all clones share its state.
#[derive(Clone, Default)]
pub struct Cache {
    state: Arc<Mutex<State>>,
    is_filled: Arc<watch::Sender<bool>>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<PodUid, Entry>,
    /// Pods known to have changed since their entry was written: the global time does not cover them.
    stale: HashSet<PodUid>,
    /// The global time: up to this moment, the entry of every pod that is not stale is current (or the pod is absent).
    all_as_of: Option<Instant>,
    waiters: Vec<Waiter>,
}

struct Entry {
    observed: Observed,
    /// When the observation began.
    as_of: Instant,
    failing: Option<Failing>,
}

/// A pod that cannot be inspected.
struct Failing {
    since: Instant,
    /// The pod as it was listed last.
    listed: Option<Arc<PodStatus>>,
}

/// After this long without a successful inspection, the listing of a pod is used instead.
const UNREADABLE: Duration = Duration::from_secs(60);

struct Waiter {
    pod: PodRef,
    newer_than: Option<Instant>,
    reply: oneshot::Sender<Observed>,
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid after each statement below, so a panic elsewhere while it is locked does no harm.
        self.state.lock()
    }

    /// The pod as last observed; an empty status if the runtime has nothing of it or has not been listed yet.
    pub fn get(&self, pod: &PodRef) -> Observed {
        self.lock().get(pod)
    }

    /// The pods that have sandboxes or containers in the runtime and whose last inspection succeeded.
    pub fn pods(&self) -> Vec<PodRef> {
        let state = self.lock();
        state.entries.values().filter_map(|e| e.observed.as_ref().ok().map(|s| s.pod.clone())).collect()
    }

    /// The pod's listing, if its inspection has failed for a minute: which containers and sandboxes exist and whether they
    /// run, and nothing else.
    pub fn listed(&self, pod: &PodUid) -> Option<Arc<PodStatus>> {
        self.lock().entries.get(pod)?.listed()
    }

    /// The listings of the pods whose inspection has failed for a minute.
    pub fn unreadable(&self) -> Vec<Arc<PodStatus>> {
        self.lock().entries.values().filter_map(Entry::listed).collect()
    }

    /// What is known of each pod that the runtime has something of: its last status, or its listing if it cannot be inspected.
    pub fn last_known(&self) -> Vec<Arc<PodStatus>> {
        let state = self.lock();
        let known = |entry: &Entry| match &entry.observed {
            Ok(status) => Some(status.clone()),
            Err(_) => entry.failing.as_ref().and_then(|failing| failing.listed.clone()),
        };
        state.entries.values().filter_map(known).collect()
    }

    /// Whether the runtime has containers of the pod, as far as is known.
    pub fn has_containers(&self, uid: &PodUid) -> bool {
        let state = self.lock();
        let Some(entry) = state.entries.get(uid) else { return false };
        let listed = entry.failing.as_ref().and_then(|failing| failing.listed.as_ref());
        let status = entry.observed.as_ref().ok().or(listed);
        status.is_some_and(|status| !status.containers.is_empty())
    }

    /// Whether the runtime may have something of the pod: it was listed, even if its inspection is outstanding or failed.
    pub fn may_have(&self, uid: &PodUid) -> bool {
        let state = self.lock();
        state.entries.contains_key(uid) || state.stale.contains(uid)
    }

    /// The pod that owns the object of a call to the runtime, if it has been observed.
    pub fn pod_of(&self, subject: &CallSubject) -> Option<PodRef> {
        let owns = |status: &PodStatus| match subject {
            CallSubject::Sandbox(id) => status.sandboxes.iter().any(|s| s.id == *id),
            CallSubject::Container(id) => status.containers.iter().any(|c| c.id == *id),
            CallSubject::Pod(pod) => status.pod == *pod,
            CallSubject::Node | CallSubject::Image(_) => false,
        };
        match subject {
            CallSubject::Pod(pod) => Some(pod.clone()),
            CallSubject::Sandbox(_)
            | CallSubject::Container(_)
            | CallSubject::Node
            | CallSubject::Image(_) => {
                let state = self.lock();
                let observed = state.entries.values().filter_map(|e| e.observed.as_ref().ok());
                observed.filter(|status| owns(status)).map(|status| status.pod.clone()).next()
            }
        }
    }

    /// Whether the runtime has been listed at least once.
    pub fn is_filled(&self) -> bool {
        self.lock().all_as_of.is_some()
    }

    /// Waits until the runtime has been listed at least once, forever if it never responds. Cancel-safe.
    pub async fn filled(&self) {
        // The sender lives in the cache, of which we hold a clone.
        let _ = self.is_filled.subscribe().wait_for(|is_filled| *is_filled).await;
    }

    /// Whether the pod was observed after `time`; for `None`, whether the runtime was listed at all.
    pub fn is_newer(&self, pod: &PodRef, time: Option<Instant>) -> bool {
        self.lock().is_newer(pod, time)
    }

    /// The pod as observed after `time`; with `None`, as observed by any listing. Waits for such an observation, forever if
    /// the runtime never responds: callers that must not wait that long use it in a `select!`.
    pub async fn newer_than(&self, pod: &PodRef, time: Option<Instant>) -> Observed {
        let reply = {
            let mut state = self.lock();
            if state.is_newer(pod, time) {
                return state.get(pod);
            }
            state.waiters.retain(|w| !w.reply.is_closed());
            let (reply, receiver) = oneshot::channel();
            state.waiters.push(Waiter { pod: pod.clone(), newer_than: time, reply });
            receiver
        };
        // The sender lives in the cache, of which we hold a clone, and is dropped only after it has answered.
        match reply.await {
            Ok(observed) => observed,
            Err(_) => self.get(pod),
        }
    }

    /// Records what a relist that began at `as_of` observed of a pod.
    pub(super) fn set(&self, uid: &PodUid, observed: Observed, as_of: Instant) {
        let mut state = self.lock();
        state.entries.insert(uid.clone(), Entry { observed, as_of, failing: None });
        state.stale.remove(uid);
        state.answer_waiters();
    }

    /// Records that the inspection of a pod by a relist that began at `as_of` failed, with the pod's listing.
    pub(super) fn set_failed(
        &self,
        uid: &PodUid,
        error: CriError,
        listed: Option<PodStatus>,
        as_of: Instant,
    ) {
        let mut state = self.lock();
        let before = state.entries.remove(uid).and_then(|entry| entry.failing);
        let since = before.as_ref().map_or(as_of, |failing| failing.since);
        let listed = listed.map(Arc::new).or_else(|| before.and_then(|failing| failing.listed));
        let failing = Some(Failing { since, listed });
        state.entries.insert(uid.clone(), Entry { observed: Err(error), as_of, failing });
        state.stale.remove(uid);
        state.answer_waiters();
    }

    /// Removes a pod of which a relist that began at `as_of` found nothing. Its waiters are answered with an empty status.
    pub(super) fn remove(&self, uid: &PodUid, as_of: Instant) {
        let mut state = self.lock();
        state.entries.remove(uid);
        state.stale.remove(uid);
        let (answered, waiting) = std::mem::take(&mut state.waiters)
            .into_iter()
            .partition(|w: &Waiter| w.pod.uid == *uid && w.newer_than.is_none_or(|t| as_of > t));
        state.waiters = waiting;
        for waiter in answered {
            // The waiter may have been cancelled.
            let _ = waiter.reply.send(Ok(Arc::new(PodStatus::empty(waiter.pod))));
        }
    }

    /// Marks the cache as current as of `as_of`, when a full relist began, except for the pods in `stale`.
    pub(super) fn commit(&self, as_of: Instant, stale: HashSet<PodUid>) {
        let mut state = self.lock();
        state.all_as_of = state.all_as_of.max(Some(as_of));
        state.stale = stale;
        state.answer_waiters();
        drop(state);
        self.is_filled.send_replace(true);
    }
}

impl Entry {
    fn listed(&self) -> Option<Arc<PodStatus>> {
        let failing = self.failing.as_ref().filter(|failing| failing.since.elapsed() >= UNREADABLE)?;
        failing.listed.clone()
    }
}

impl State {
    fn get(&self, pod: &PodRef) -> Observed {
        match self.entries.get(&pod.uid) {
            Some(entry) => entry.observed.clone(),
            None => Ok(Arc::new(PodStatus::empty(pod.clone()))),
        }
    }

    fn is_newer(&self, pod: &PodRef, time: Option<Instant>) -> bool {
        let newer = |as_of: Instant| time.is_none_or(|t| as_of > t);
        self.entries.get(&pod.uid).is_some_and(|e| newer(e.as_of))
            || (!self.stale.contains(&pod.uid) && self.all_as_of.is_some_and(newer))
    }

    fn answer_waiters(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiters);
        waiting.retain(|w| !w.reply.is_closed());
        for waiter in waiting {
            if self.is_newer(&waiter.pod, waiter.newer_than) {
                // The waiter may have been cancelled.
                let _ = waiter.reply.send(self.get(&waiter.pod));
            } else {
                self.waiters.push(waiter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> PodRef {
        PodRef::new("ns", uid, uid)
    }

    fn status(uid: &str) -> Observed {
        Ok(Arc::new(PodStatus::empty(pod(uid))))
    }

    async fn is_pending(future: impl Future<Output = Observed>) -> bool {
        tokio::time::timeout(Duration::from_secs(3600), future).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiter_waits_for_the_first_listing() {
        let cache = Cache::default();
        assert!(is_pending(cache.newer_than(&pod("a"), None)).await);
        cache.commit(Instant::now(), HashSet::new());
        assert!(cache.newer_than(&pod("a"), None).await.unwrap().containers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_listing_fills_the_cache() {
        let cache = Cache::default();
        cache.set(&"a".into(), status("a"), Instant::now());
        let patience = Duration::from_secs(3600);
        assert!(tokio::time::timeout(patience, cache.filled()).await.is_err());
        cache.commit(Instant::now(), HashSet::new());
        cache.filled().await;
        cache.filled().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_global_time_covers_unchanged_pods_but_not_stale_ones() {
        let cache = Cache::default();
        let start = Instant::now();
        cache.set(&"a".into(), status("a"), start);
        tokio::time::advance(Duration::from_secs(1)).await;
        let requested_at = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        cache.commit(Instant::now(), HashSet::from(["a".into()]));
        assert!(is_pending(cache.newer_than(&pod("a"), Some(requested_at))).await);
        assert!(cache.newer_than(&pod("b"), Some(requested_at)).await.is_ok());
        cache.set(&"a".into(), status("a"), Instant::now());
        assert!(cache.newer_than(&pod("a"), Some(requested_at)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_is_answered_only_by_the_write_it_waits_for() {
        let cache = Cache::default();
        cache.commit(Instant::now(), HashSet::new());
        let requested_at = Instant::now();
        let a = pod("a");
        let wait = cache.newer_than(&a, Some(requested_at));
        tokio::pin!(wait);
        tokio::select! { biased; _ = &mut wait => panic!("too early"), () = std::future::ready(()) => {} }
        cache.set(&"a".into(), status("a"), requested_at);
        tokio::select! { biased; _ = &mut wait => panic!("an observation that began no later must not answer"), () = std::future::ready(()) => {} }
        tokio::time::advance(Duration::from_millis(1)).await;
        cache.set(&"a".into(), status("a"), Instant::now());
        assert!(wait.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_of_a_removed_pod_get_an_empty_status() {
        let cache = Cache::default();
        let requested_at = Instant::now();
        let a = pod("a");
        let wait = cache.newer_than(&a, Some(requested_at));
        tokio::pin!(wait);
        tokio::select! { biased; _ = &mut wait => panic!("too early"), () = std::future::ready(()) => {} }
        tokio::time::advance(Duration::from_millis(1)).await;
        cache.remove(&"a".into(), Instant::now());
        assert!(wait.await.unwrap().containers.is_empty());
        assert!(cache.pods().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_waiters_are_removed() {
        let cache = Cache::default();
        for _ in 0..100 {
            assert!(is_pending(cache.newer_than(&pod("a"), Some(Instant::now()))).await);
        }
        assert!(cache.lock().waiters.len() <= 1);
    }
}
