//! Which pods are admitted, and which still were when the daemon before this one ended. Neither can be observed: a manifest
//! may be broken by now, and a pod that the runtime has lost with the host's power shows nowhere.
//!
//! A pod has a row in the store from its admission until a source no longer names it *and* its life has come to its end. So
//! a daemon that is killed while it ends a pod leaves one that knows the pod and ends it, before any successor of the
//! same name starts.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::pod::DesiredPods;
use crate::pod::pod_uid;
use crate::pod::validation::unsupported;
use crate::source::{SourceState, StaticPod};
use crate::store::{Store, Table};
use crate::types::PodUid;

/// A row of the store.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<P> {
    source: Origin,
    pod: P,
    admitted_at: Timestamp,
}

/// The source that named a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Origin {
    /// This manifest.
    File(PathBuf),
    /// The API server.
    Api,
}

/// A pod that the daemon before this one had admitted, and whose life may not have come to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct AdoptedPod {
    origin: Origin,
    /// The pod.
    pub pod: Arc<Pod>,
    admitted_at: Timestamp,
}

impl AdoptedPod {
    /// The pod as its manifest gave it; none if it is not from a manifest.
    pub fn of_manifest(&self) -> Option<StaticPod> {
        match &self.origin {
            Origin::File(file) => Some(StaticPod {
                pod: self.pod.clone(),
                file: file.clone(),
                unsupported: unsupported(&self.pod),
            }),
            Origin::Api => None,
        }
    }

    /// The pod as the API server gave it; none if it is not from there.
    pub fn of_api(&self) -> Option<Arc<Pod>> {
        match &self.origin {
            Origin::File(_) => None,
            Origin::Api => Some(self.pod.clone()),
        }
    }
}

/// An admitted pod that its source still names.
struct Admitted {
    at: Timestamp,
    pod: Arc<Pod>,
}

/// The admitted pods. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct AdmittedPods {
    store: Store,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    admitted: HashMap<PodUid, Admitted>,
    /// When the last of them was admitted, and of those that are ending.
    last: Option<Timestamp>,
}

impl State {
    /// A time for a pod admitted now. It is later than all before, whatever the clock was set to since: the times are the
    /// order in which pods of one name run.
    fn next_time(&mut self, now: Timestamp) -> Timestamp {
        let after = |last: Timestamp| last.checked_add(SignedDuration::from_nanos(1)).unwrap_or(last);
        let at = self.last.map_or(now, |last| now.max(after(last)));
        self.last = Some(at);
        at
    }
}

impl AdmittedPods {
    /// What the store has of them: to go on with, and as it is, in order of admission.
    pub fn new(store: Store) -> (Self, Vec<AdoptedPod>) {
        let rows = store.all::<Row<Pod>>(Table::AdmittedPods).into_iter();
        let mut adopted: Vec<AdoptedPod> = rows
            .map(|(_, row)| AdoptedPod {
                origin: row.source,
                pod: Arc::new(row.pod),
                admitted_at: row.admitted_at,
            })
            .collect();
        adopted.sort_by_key(|adopted| adopted.admitted_at);
        let admitted = adopted.iter().map(|adopted| {
            let admitted = Admitted { at: adopted.admitted_at, pod: adopted.pod.clone() };
            (pod_uid(&adopted.pod), admitted)
        });
        let last = adopted.last().map(|adopted| adopted.admitted_at);
        let state = State { admitted: admitted.collect(), last };
        (Self { store, state: Arc::new(Mutex::new(state)) }, adopted)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every statement under the lock leaves the state valid.
        self.state.lock()
    }

    /// When each of them was admitted.
    pub fn times(&self) -> HashMap<PodUid, Timestamp> {
        self.lock().admitted.iter().map(|(uid, admitted)| (uid.clone(), admitted.at)).collect()
    }

    /// These pods are admitted now, and no others. Those that no manifest names are the API server's.
    pub fn note(&self, manifests: &SourceState, desired_pods: &DesiredPods, now: Timestamp) {
        let files: HashMap<PodUid, &PathBuf> =
            manifests.pods.iter().map(|pod| (pod_uid(&pod.pod), &pod.file)).collect();
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
            let source = files.get(&uid).map_or(Origin::Api, |file| Origin::File((*file).clone()));
            let row = Row { source, pod: &**pod.object(), admitted_at: at };
            self.store.put(Table::AdmittedPods, uid.as_str(), &row);
            state.admitted.insert(uid, Admitted { at, pod: pod.object().clone() });
        }
        // A source that was not read yet may still name the others.
        if desired_pods.ready {
            state.admitted.retain(|uid, _| named.contains(uid));
        }
    }

    /// Forgets what is stored of pods whose life has come to its end: those that are not in `known`. A pod that was
    /// admitted a moment ago may not be known yet.
    pub fn keep(&self, known: &HashSet<PodUid>) {
        let state = self.lock();
        let is_admitted = |uid: &str| state.admitted.contains_key(uid);
        self.store.retain(Table::AdmittedPods, |uid| known.contains(uid) || is_admitted(uid));
        self.store.retain(Table::RequestedStarts, |uid| known.contains(uid));
        self.store.retain(Table::CrashLoops, |uid| known.contains(uid));
        self.store.retain(Table::ImagePulls, |uid| known.contains(uid));
    }
}
