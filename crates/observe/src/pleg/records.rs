//! What was last reported of each pod, and which pods are being inspected. Pure bookkeeping: decides what to inspect and
//! which events follow; queries and publishes nothing itself.

use std::collections::{BTreeMap, HashSet};

use hostlet_base::{PodRef, PodUid};
use tokio::time::Instant;

use super::diff::{self, LifecycleEvent, Listing, ObjectId, States};
use super::inspect::Everything;

/// What to do about a pod after a listing.
#[derive(Debug, PartialEq)]
pub(super) enum Todo {
    /// It changed, or its last inspection failed: inspect what was listed.
    Inspect(PodRef, Listing),
    /// The runtime has nothing of it anymore.
    Forget(PodUid, Vec<(ObjectId, LifecycleEvent)>),
}

/// Whether a pod is being inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InspectionState {
    Idle,
    /// An inspection is under way.
    Busy,
    /// One is under way, and the pod may have changed since it began.
    BusyThenAgain,
}

struct Record {
    pod: PodRef,
    /// The states that were last reported.
    states: States,
    /// When the listing behind `states` began; `None` before the first.
    as_of: Option<Instant>,
    /// The last inspection failed.
    failed: bool,
    inspection: InspectionState,
}

#[derive(Default)]
pub(super) struct Records {
    pods: BTreeMap<PodUid, Record>,
    /// The listing in which nothing differed from the records, none of which was touched since.
    in_agreement: Option<Everything>,
}

impl Records {
    /// Processes a full listing that began at `as_of`.
    pub(super) fn listed_all(&mut self, everything: Everything, as_of: Instant) -> Vec<Todo> {
        if self.in_agreement.as_ref().is_some_and(|last| last.is(&everything)) {
            return Vec::new();
        }
        let mut todo = Vec::new();
        let mut are_all_current = true;
        let mut found = everything.by_pod();
        for (pod, _) in found.values() {
            self.record(pod).pod.clone_from(pod);
        }
        let uids: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in uids {
            let Some(record) = self.pods.get_mut(&uid) else { continue };
            // A newer listing of this pod alone has been processed, or is under way.
            if record.inspection != InspectionState::Idle || record.as_of.is_some_and(|seen| seen >= as_of) {
                are_all_current = false;
                continue;
            }
            let listing = found.remove(&uid).map(|(_, listing)| listing).unwrap_or_default();
            if listing.is_empty() {
                todo.push(self.forget(&uid));
            } else if record.failed || record.states != listing.states() {
                record.inspection = InspectionState::Busy;
                todo.push(Todo::Inspect(record.pod.clone(), listing));
            }
        }
        self.in_agreement = (todo.is_empty() && are_all_current).then_some(everything);
        todo
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &PodRef> {
        self.pods.values().map(|record| &record.pod)
    }

    /// Processes a hint that the pod may have changed. Returns whether to list and inspect it now.
    pub(super) fn hinted(&mut self, pod: &PodRef) -> bool {
        let record = self.record(pod);
        match record.inspection {
            InspectionState::Idle => {
                record.inspection = InspectionState::Busy;
                true
            }
            InspectionState::Busy | InspectionState::BusyThenAgain => {
                record.inspection = InspectionState::BusyThenAgain;
                false
            }
        }
    }

    /// Processes a successful inspection that began at `as_of` (`None` if the pod no longer exists).
    pub(super) fn inspected(&mut self, pod: &PodRef, listing: &Listing, as_of: Instant) -> Inspected {
        let record = self.record(pod);
        let again = record.inspection == InspectionState::BusyThenAgain;
        record.inspection = InspectionState::Idle;
        record.failed = false;
        let states = listing.states();
        let events = diff::events(&record.states, &states);
        let is_removed = states.is_empty();
        record.states = states;
        record.as_of = Some(as_of);
        if is_removed && !again {
            self.pods.remove(&pod.uid);
        }
        Inspected { events, again }
    }

    /// Processes a failed inspection. The reported states stay, so that the change is reported once an inspection succeeds.
    /// Returns whether to inspect again now.
    pub(super) fn failed(&mut self, pod: &PodRef) -> bool {
        let record = self.record(pod);
        let again = record.inspection == InspectionState::BusyThenAgain;
        record.inspection = InspectionState::Idle;
        record.failed = true;
        again
    }

    /// The pods being inspected: their cache entries are known to be stale.
    pub(super) fn busy(&self) -> HashSet<PodUid> {
        self.pods
            .iter()
            .filter(|(_, r)| r.inspection != InspectionState::Idle)
            .map(|(uid, _)| uid.clone())
            .collect()
    }

    /// The pod that owns the sandbox or container of this identifier.
    pub(super) fn owner(&self, object: &str) -> Option<&PodRef> {
        let is_it = |id: &ObjectId| match id {
            ObjectId::Sandbox(id) => id.as_str() == object,
            ObjectId::Container(id) => id.as_str() == object,
        };
        self.pods.values().find(|r| r.states.keys().any(is_it)).map(|r| &r.pod)
    }

    /// The pod of this UID, if it was listed or hinted at.
    pub(super) fn pod(&self, uid: &PodUid) -> Option<&PodRef> {
        self.pods.get(uid).map(|r| &r.pod)
    }

    fn record(&mut self, pod: &PodRef) -> &mut Record {
        self.in_agreement = None;
        self.pods.entry(pod.uid.clone()).or_insert_with(|| Record {
            pod: pod.clone(),
            states: States::new(),
            as_of: None,
            failed: false,
            inspection: InspectionState::Idle,
        })
    }

    fn forget(&mut self, uid: &PodUid) -> Todo {
        let states = self.pods.remove(uid).map(|r| r.states).unwrap_or_default();
        Todo::Forget(uid.clone(), diff::events(&states, &States::new()))
    }
}

/// The consequences of a successful inspection.
#[derive(Debug, PartialEq)]
pub(super) struct Inspected {
    pub(super) events: Vec<(ObjectId, LifecycleEvent)>,
    /// The pod may have changed since the inspection began.
    pub(super) again: bool,
}
