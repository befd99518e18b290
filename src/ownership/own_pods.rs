//! The record of hostlet's own pods. A pod has a row before anything of it is made on this host, until nothing has been left of it
//! for a while. What belongs to a pod without a row is somebody else's: it is neither removed nor killed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::store::{Store, Table};
use crate::types::{PodRef, PodUid};

/// How long a pod of which nothing is left stays in the record: a runtime that was killed in a call may show something of it
/// minutes later.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// A row in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: String,
    name: String,
}

/// The record. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct OwnPods {
    store: Store,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    own: HashSet<PodUid>,
    /// Those whose row may not be on the disk yet.
    unwritten: HashSet<PodUid>,
    /// Since when nothing is left of a pod.
    absent: HashMap<PodUid, Instant>,
}

impl OwnPods {
    /// The record in the store. Admitted pods belong to it, also those of a version of hostlet that did not keep the record.
    pub fn new(store: Store) -> Self {
        let recorded = recorded_pods(&store);
        for pod in recorded.values() {
            put(&store, pod);
        }
        let state = State { own: recorded.into_keys().collect(), ..State::default() };
        Self { store, state: Arc::new(Mutex::new(state)) }
    }

    /// Records a pod. Returns once the record would survive a crash: only then may something of the pod be made.
    pub async fn record(&self, pod: &PodRef) {
        {
            let mut state = self.state.lock();
            state.absent.remove(&pod.uid);
            if state.own.insert(pod.uid.clone()) {
                put(&self.store, pod);
                state.unwritten.insert(pod.uid.clone());
            }
            if !state.unwritten.contains(&pod.uid) {
                return;
            }
        }
        self.store.written().await;
        self.state.lock().unwritten.remove(&pod.uid);
    }

    /// Whether this pod is hostlet's.
    pub fn has(&self, uid: &PodUid) -> bool {
        self.state.lock().own.contains(uid)
    }

    /// All of hostlet's pods.
    pub fn all(&self) -> Vec<PodUid> {
        self.state.lock().own.iter().cloned().collect()
    }

    /// Forgets the pods that have not been among the `present` ones for long. Those are all that a source names, that have a
    /// lifecycle, or of which the runtime or the host has something.
    pub fn retain(&self, present: &HashSet<PodUid>, now: Instant) {
        let mut state = self.state.lock();
        let State { own, unwritten, absent } = &mut *state;
        absent.retain(|uid, _| !present.contains(uid));
        let before = own.len();
        own.retain(|uid| {
            present.contains(uid) || now.duration_since(*absent.entry(uid.clone()).or_insert(now)) < KEPT
        });
        if own.len() < before {
            absent.retain(|uid, _| own.contains(uid));
            unwritten.retain(|uid| own.contains(uid));
            self.store.retain(Table::OwnPods, |uid| own.contains(&PodUid::from(uid)));
        }
    }
}

fn put(store: &Store, pod: &PodRef) {
    let row = Row { namespace: pod.namespace.to_string(), name: pod.name.to_string() };
    store.put(Table::OwnPods, pod.uid.as_str(), &row);
}

/// The pods that the store proves to be hostlet's. A row that cannot be read proves it, too.
pub fn recorded_pods(store: &Store) -> BTreeMap<PodUid, PodRef> {
    let mut recorded = BTreeMap::new();
    let admitted: BTreeMap<String, Value> = store.all(Table::AdmittedPods).into_iter().collect();
    for uid in store.keys(Table::AdmittedPods) {
        let metadata = admitted.get(&uid).map(|row| &row["pod"]["metadata"]);
        let text = |name: &str| metadata.and_then(|m| m[name].as_str()).unwrap_or("unknown");
        recorded.insert(PodUid::from(uid.as_str()), PodRef::new(text("namespace"), text("name"), &uid));
    }
    let own: BTreeMap<String, Row> = store.all(Table::OwnPods).into_iter().collect();
    for uid in store.keys(Table::OwnPods) {
        let (namespace, name) =
            own.get(&uid).map_or(("unknown", "unknown"), |row| (&row.namespace, &row.name));
        recorded.entry(PodUid::from(uid.as_str())).or_insert_with(|| PodRef::new(namespace, name, &uid));
    }
    recorded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> PodRef {
        PodRef::new("ns", name, &format!("uid-of-{name}"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_forgotten_only_after_nothing_was_left_of_it_for_long() {
        let store = Store::default();
        let own = OwnPods::new(store.clone());
        let (web, db) = (pod("web"), pod("db"));
        own.record(&web).await;
        own.record(&db).await;
        assert!(own.has(&web.uid) && !own.has(&"of-others".into()));
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let present: HashSet<PodUid> = [db.uid.clone()].into();
        own.retain(&present, start);
        own.retain(&present, start + 10 * minute);
        // Something of it showed up again.
        own.retain(&[web.uid.clone(), db.uid.clone()].into(), start + 14 * minute);
        own.retain(&present, start + 16 * minute);
        own.retain(&present, start + 30 * minute);
        assert!(own.has(&web.uid));
        own.retain(&present, start + 31 * minute);
        assert!(!own.has(&web.uid) && own.has(&db.uid));
        assert_eq!(store.keys(Table::OwnPods), ["uid-of-db"]);
        own.record(&web).await;
        assert!(OwnPods::new(store.copy()).has(&web.uid), "recorded again");
    }

    #[test]
    fn pods_that_an_earlier_version_admitted_are_in_the_record() {
        let store = Store::default();
        let metadata = json!({"namespace": "ns", "name": "web"});
        store.put(Table::AdmittedPods, "uid-of-web", &json!({"pod": {"metadata": metadata}}));
        store.put(Table::AdmittedPods, "unreadable", &json!(1));
        let own = OwnPods::new(store.clone());
        assert!(own.has(&"uid-of-web".into()) && own.has(&"unreadable".into()));
        // They stay there when they are no longer admitted.
        store.retain(Table::AdmittedPods, |_| false);
        let recorded = recorded_pods(&store);
        assert_eq!(recorded[&PodUid::from("uid-of-web")].to_string(), "ns/web");
        assert_eq!(recorded[&PodUid::from("unreadable")].to_string(), "unknown/unknown");
    }
}
