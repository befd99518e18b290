//! Compares two listings of a pod and derives its lifecycle events. Pure.

use std::collections::BTreeMap;

use hostlet_base::{ContainerId, SandboxId};
use hostlet_runtime::cri::{Container, ContainerState, Sandbox, SandboxState};

/// A sandbox or a container: the relist treats them alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A pod's sandbox, by the runtime's ID.
    Sandbox(SandboxId),
    /// A container in a sandbox, by the runtime's ID.
    Container(ContainerId),
}

/// What happened to a sandbox or container between two listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleEvent {
    /// It runs.
    Started,
    /// It has exited, whether or not it was seen running.
    Died,
    /// It no longer exists.
    Removed,
    /// It changed to a state that is neither running nor exited, e.g. created.
    Changed,
}

/// State of an object for the comparison. Unlike upstream's generic PLEG it distinguishes created from unknown: a container
/// that the runtime lost track of may run, and must not stay in the cache as never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectState {
    Created,
    Running,
    Exited,
    Unknown,
}

/// One pod in one listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listing {
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) containers: Vec<Container>,
}

impl Listing {
    pub(super) fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// The states to compare, by object.
    pub(super) fn states(&self) -> States {
        let sandboxes = self.sandboxes.iter().map(|s| {
            let state = match s.state {
                SandboxState::Ready => ObjectState::Running,
                SandboxState::NotReady => ObjectState::Exited,
            };
            (ObjectId::Sandbox(s.id.clone()), state)
        });
        let containers = self.containers.iter().map(|c| {
            let state = match c.state {
                ContainerState::Running => ObjectState::Running,
                ContainerState::Exited => ObjectState::Exited,
                ContainerState::Created => ObjectState::Created,
                ContainerState::Unknown => ObjectState::Unknown,
            };
            (ObjectId::Container(c.id.clone()), state)
        });
        sandboxes.chain(containers).collect()
    }
}

pub(super) type States = BTreeMap<ObjectId, ObjectState>;

/// The events between two listings of a pod, ordered by object identifier.
pub(super) fn events(old: &States, new: &States) -> Vec<(ObjectId, LifecycleEvent)> {
    let mut events = Vec::new();
    for (id, state) in new {
        if old.get(id) == Some(state) {
            continue;
        }
        let event = match state {
            ObjectState::Running => LifecycleEvent::Started,
            ObjectState::Exited => LifecycleEvent::Died,
            ObjectState::Created | ObjectState::Unknown => LifecycleEvent::Changed,
        };
        events.push((id.clone(), event));
    }
    for (id, state) in old {
        if new.contains_key(id) {
            continue;
        }
        match state {
            // Its exit was reported before.
            ObjectState::Exited => {}
            ObjectState::Created | ObjectState::Running | ObjectState::Unknown => {
                events.push((id.clone(), LifecycleEvent::Died));
            }
        }
        events.push((id.clone(), LifecycleEvent::Removed));
    }
    events
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId::Container(ContainerId::from(n.to_string()))
    }

    fn state() -> impl Strategy<Value = ObjectState> {
        use ObjectState::{Created, Exited, Running, Unknown};
        prop_oneof![Just(Created), Just(Running), Just(Exited), Just(Unknown)]
    }

    fn states() -> impl Strategy<Value = States> {
        prop::collection::btree_map((0u8..6).prop_map(id), state(), 0..6)
    }

    #[test]
    fn each_transition_has_its_events() {
        use LifecycleEvent::{Changed, Died, Removed, Started};
        use ObjectState::{Created, Exited, Running, Unknown};
        let cases: [(Option<ObjectState>, Option<ObjectState>, &[LifecycleEvent]); 12] = [
            (None, Some(Created), &[Changed]),
            (Some(Created), Some(Unknown), &[Changed]),
            (Some(Created), None, &[Died, Removed]),
            (None, Some(Running), &[Started]),
            (None, Some(Exited), &[Died]),
            (None, Some(Unknown), &[Changed]),
            (Some(Running), Some(Exited), &[Died]),
            (Some(Running), Some(Running), &[]),
            (Some(Unknown), Some(Running), &[Started]),
            (Some(Running), None, &[Died, Removed]),
            (Some(Exited), None, &[Removed]),
            (Some(Unknown), None, &[Died, Removed]),
        ];
        for (old, new, expected) in cases {
            let old: States = old.map(|s| (id(1), s)).into_iter().collect();
            let new: States = new.map(|s| (id(1), s)).into_iter().collect();
            let kinds: Vec<_> = events(&old, &new).into_iter().map(|(_, e)| e).collect();
            assert_eq!(kinds, expected, "{old:?} -> {new:?}");
        }
    }

    proptest! {
        #[test]
        fn no_change_no_events(s in states()) {
            prop_assert!(events(&s, &s).is_empty());
        }

        #[test]
        fn every_difference_is_reported_once(old in states(), new in states()) {
            let reported = events(&old, &new);
            for n in 0..6 {
                let changed = old.get(&id(n)) != new.get(&id(n));
                prop_assert_eq!(changed, reported.iter().any(|(i, _)| *i == id(n)));
            }
            let deaths = reported.iter().filter(|(_, e)| *e == LifecycleEvent::Died).count();
            let mut ids: Vec<_> = reported.iter().filter(|(_, e)| *e == LifecycleEvent::Died).map(|(i, _)| i).collect();
            ids.dedup();
            prop_assert_eq!(deaths, ids.len());
        }
    }
}
