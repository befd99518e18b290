//! Records which pods are admitted, across restarts of the daemon. The sources and the runtime do not suffice: a manifest may
//! have become unreadable, and the runtime may have lost a pod in a power failure.
//!
//! The pod is recorded with the resources that are allocated to it, which are those of its spec unless a resize is pending.
//!
//! A pod has a row in the store from its admission until no source names it *and* its lifecycle has finished. If the daemon
//! is killed while a pod terminates, the next one therefore knows the pod and finishes its termination before a successor
//! of the same name starts. The row says so once no source names the pod: if one names it again, that is a new pod, which may be
//! rejected.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_pod::pod_uid;
use hostlet_pod::validation::unsupported;
use hostlet_pod::{AdmissionId, AdmittedPod, DesiredPods, ManifestOrigin, ResizeState};
use hostlet_store::{Store, Table};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::source::{SourceState, StaticPod};

/// A row in the store.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<P> {
    source: Origin,
    pod: P,
    admitted_at: Timestamp,
    /// No source names it anymore, and only its termination is left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_dropped: bool,
}

/// The source that named a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Origin {
    /// The manifest at this path.
    File(PathBuf),
    /// The answer of this URL, which is without its password.
    Url(String),
    /// The API server.
    Api,
}

/// A pod that the previous daemon admitted and whose lifecycle may not have finished.
#[derive(Clone, Debug, PartialEq)]
pub struct AdoptedPod {
    origin: Origin,
    /// The pod as it was admitted, which its source may have changed since.
    pub pod: Arc<Pod>,
    admitted_at: Timestamp,
    /// No source named it anymore.
    is_dropped: bool,
}

impl AdoptedPod {
    /// The pod as a static pod; `None` if no manifest named it when the previous daemon ended.
    pub fn of_manifest(&self) -> Option<StaticPod> {
        let origin = match self.naming_origin()? {
            Origin::File(file) => ManifestOrigin::File(file.clone()),
            Origin::Url(url) => ManifestOrigin::Url(url.clone()),
            Origin::Api => return None,
        };
        Some(StaticPod { pod: self.pod.clone(), origin, unsupported: unsupported(&self.pod) })
    }

    /// The pod if the API server named it when the previous daemon ended.
    pub fn of_api(&self) -> Option<Arc<Pod>> {
        match self.naming_origin()? {
            Origin::File(_) | Origin::Url(_) => None,
            Origin::Api => Some(self.pod.clone()),
        }
    }

    /// The pod as an admitted one, until this daemon admits it.
    pub fn admitted(&self) -> Arc<AdmittedPod> {
        let admission = match self.is_dropped {
            true => AdmissionId::Dropped,
            false => AdmissionId::Adopted,
        };
        AdmittedPod::resized(self.pod.clone(), ResizeState::default(), admission)
    }

    fn naming_origin(&self) -> Option<&Origin> {
        (!self.is_dropped).then_some(&self.origin)
    }
}

/// An admitted pod that a source still names.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    /// When it was admitted.
    pub(super) at: Timestamp,
    /// The pod, with the resources that are allocated to it.
    pub(super) pod: Arc<Pod>,
    origin: Origin,
}

#[cfg(test)]
impl Admitted {
    /// A pod of the API server.
    pub(super) fn of_api(at: Timestamp, pod: Arc<Pod>) -> Self {
        Self { at, pod, origin: Origin::Api }
    }
}

/// The admitted pods. Cheap to clone; clones share their state.
#[derive(Clone)]
pub(crate) struct AdmittedPods {
    store: Store,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    admitted: HashMap<PodUid, Admitted>,
    /// The latest time of admission, terminating pods included.
    last: Option<Timestamp>,
}

impl State {
    /// The admission time of a pod admitted now. Strictly later than all before it, even if the clock was set back: pods of
    /// the same name run in this order.
    fn next_time(&mut self, now: Timestamp) -> Timestamp {
        let after = |last: Timestamp| last.checked_add(SignedDuration::from_nanos(1)).unwrap_or(last);
        let at = self.last.map_or(now, |last| now.max(after(last)));
        self.last = Some(at);
        at
    }
}

impl AdmittedPods {
    /// Loads the store. Returns the state to continue with, and the stored pods in order of admission.
    pub(crate) fn new(store: Store) -> (Self, Vec<AdoptedPod>) {
        let rows = store.all::<Row<Pod>>(Table::AdmittedPods).into_iter();
        let mut adopted: Vec<AdoptedPod> = rows
            .map(|(_, row)| AdoptedPod {
                origin: row.source,
                pod: Arc::new(row.pod),
                admitted_at: row.admitted_at,
                is_dropped: row.is_dropped,
            })
            .collect();
        adopted.sort_by_key(|adopted| adopted.admitted_at);
        let admitted = adopted.iter().filter(|adopted| !adopted.is_dropped).map(|adopted| {
            let (at, origin) = (adopted.admitted_at, adopted.origin.clone());
            let admitted = Admitted { at, pod: adopted.pod.clone(), origin };
            (pod_uid(&adopted.pod), admitted)
        });
        let last = adopted.last().map(|adopted| adopted.admitted_at);
        let state = State { admitted: admitted.collect(), last };
        (Self { store, state: Arc::new(Mutex::new(state)) }, adopted)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// All of them.
    pub(super) fn all(&self) -> HashMap<PodUid, Admitted> {
        self.lock().admitted.clone()
    }

    /// Records the pods that are admitted now. Those without a manifest are the API server's.
    pub(crate) fn record(&self, manifests: &SourceState, desired_pods: &DesiredPods, now: Timestamp) {
        let origins: HashMap<PodUid, &ManifestOrigin> =
            manifests.pods.iter().map(|pod| (pod_uid(&pod.pod), &pod.origin)).collect();
        let mut state = self.lock();
        let mut named = HashSet::new();
        for pod in &desired_pods.pods {
            let uid = pod.reference.uid.clone();
            named.insert(uid.clone());
            let known = state.admitted.get(&uid);
            if known.is_some_and(|known| Arc::ptr_eq(&known.pod, pod.object())) {
                continue;
            }
            let at = match known {
                Some(known) => known.at,
                None => state.next_time(now),
            };
            let origin = match origins.get(&uid) {
                Some(ManifestOrigin::File(file)) => Origin::File(file.clone()),
                Some(ManifestOrigin::Url(url)) => Origin::Url(url.clone()),
                None => Origin::Api,
            };
            let admitted = Admitted { at, pod: pod.object().clone(), origin };
            self.put(&uid, &admitted, false);
            state.admitted.insert(uid, admitted);
        }
        // A source that is not ready yet may still name the others.
        if desired_pods.ready {
            let dropped = state.admitted.extract_if(|uid, _| !named.contains(uid));
            dropped.for_each(|(uid, admitted)| self.put(&uid, &admitted, true));
        }
    }

    fn put(&self, uid: &PodUid, admitted: &Admitted, is_dropped: bool) {
        let Admitted { at, pod, origin } = admitted;
        let row = Row { source: origin.clone(), pod: &**pod, admitted_at: *at, is_dropped };
        self.store.put(Table::AdmittedPods, uid.as_str(), &row);
    }

    /// Deletes the rows of pods whose lifecycle has finished: those not in `known`. A pod admitted a moment ago may not be in
    /// `known` yet and keeps its row.
    pub(crate) fn retain(&self, known: &HashSet<PodUid>) {
        let state = self.lock();
        let is_admitted = |uid: &str| state.admitted.contains_key(uid);
        self.store.retain(Table::AdmittedPods, |uid| known.contains(uid) || is_admitted(uid));
        self.store.retain(Table::RequestedStarts, |uid| known.contains(uid));
        self.store.retain(Table::PreStops, |uid| known.contains(uid));
        self.store.retain(Table::ActiveSince, |uid| known.contains(uid));
        self.store.retain(Table::Restarts, |uid| known.contains(uid));
        self.store.retain(Table::ProbeResults, |uid| known.contains(uid));
        self.store.retain(Table::FinalEnds, |uid| known.contains(uid));
        self.store.retain(Table::CrashLoops, |uid| known.contains(uid));
        self.store.retain(Table::Actuated, |uid| known.contains(uid));
        self.store.retain(Table::ImagePulls, |uid| known.contains(uid));
    }
}
