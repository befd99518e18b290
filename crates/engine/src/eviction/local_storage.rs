//! Has the storage of pods with limits measured, and evicts those that exceed one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_observe::stats::{PodStorage, StorageStats};
use hostlet_pod::{AdmittedPod, is_critical};
use tokio_util::sync::CancellationToken;

use super::evictor::Evictor;
use super::limits::StorageLimits;
use super::plan::breach;

struct LimitedPod {
    pod: Arc<AdmittedPod>,
    limits: StorageLimits,
}

/// Reviews pods with limits.
pub(super) struct LocalStorage {
    evictor: Evictor,
    storage: StorageStats,
    /// The daemon's directory.
    root_dir: PathBuf,
    pods: BTreeMap<PodUid, LimitedPod>,
    /// The critical pods beyond a limit, which was logged.
    spared: BTreeSet<PodUid>,
}

impl LocalStorage {
    pub(super) fn new(evictor: Evictor, storage: StorageStats, root_dir: PathBuf) -> Self {
        Self { evictor, storage, root_dir, pods: BTreeMap::new(), spared: BTreeSet::new() }
    }

    /// Runs until cancelled.
    pub(super) async fn run(mut self, cancel: &CancellationToken) {
        let mut storage = self.storage.storage();
        self.follow();
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // These are cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.evictor.desired_pods.changed() => self.follow(),
                Ok(()) = storage.changed() => {
                    let storage = storage.borrow_and_update().clone();
                    self.review(&storage);
                }
            }
        }
    }

    /// Adopts the desired pods: has those with limits measured.
    fn follow(&mut self) {
        let desired = self.evictor.desired_pods.borrow_and_update().clone();
        let is_killed = |uid: &PodUid| desired.kills.contains_key(uid);
        let known = std::mem::take(&mut self.pods);
        let alive = desired.pods.iter().filter(|pod| !pod.has_ended() && !is_killed(&pod.reference.uid));
        let limited = alive.filter_map(|pod| {
            let uid = pod.reference.uid.clone();
            let limits = match known.get(&uid) {
                Some(known) if Arc::ptr_eq(&known.pod, pod) => known.limits.clone(),
                Some(_) | None => StorageLimits::of(pod)?,
            };
            Some((uid, LimitedPod { pod: pod.clone(), limits }))
        });
        self.pods = limited.collect();
        self.spared.retain(|uid| self.pods.contains_key(uid));
        let root = &self.root_dir;
        let places =
            self.pods.iter().map(|(uid, limited)| (uid.clone(), limited.limits.places(&limited.pod, root)));
        self.storage.measure(places.collect());
    }

    /// Evicts the pods that exceed a limit.
    fn review(&mut self, storage: &BTreeMap<PodUid, PodStorage>) {
        for (uid, limited) in &self.pods {
            let Some(breach) = storage.get(uid).and_then(|storage| breach(&limited.limits, storage)) else {
                self.spared.remove(uid);
                continue;
            };
            if !self.evictor.may_evict(uid) {
                continue;
            }
            if is_critical(&limited.pod) {
                if self.spared.insert(uid.clone()) {
                    let pod = &limited.pod.reference;
                    let message = breach.message.trim_end();
                    tracing::warn!(%pod, uid = %pod.uid, message, "a pod exceeds a limit, and is not evicted because it is critical");
                }
                continue;
            }
            self.evictor.evict(&limited.pod, &breach.reason());
        }
    }
}
