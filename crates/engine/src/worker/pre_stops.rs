//! Which preStop hooks have begun. A hook runs once for each instance of a container: one that was cut short, because its pod's
//! grace period was shortened or the daemon died, is not run again. Stored before the hook runs. Runs no hook itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use hostlet_base::{ContainerId, PodUid};
use hostlet_store::{Store, Table};

/// The preStop hooks of one pod.
#[derive(Clone, Copy)]
pub(super) struct PreStops<'a> {
    pub(super) store: &'a Store,
    pub(super) pod: &'a PodUid,
}

/// A hook that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BegunHook {
    container: String,
    at: Timestamp,
}

impl PreStops<'_> {
    /// Records that the hook of this instance begins now. Returns once that would survive the daemon; if it has begun before,
    /// returns when.
    pub(super) async fn begin(self, id: &ContainerId, now: Timestamp) -> Option<Timestamp> {
        let mut begun: Vec<BegunHook> =
            self.store.get(Table::PreStops, self.pod.as_str()).unwrap_or_default();
        if let Some(before) = begun.iter().find(|hook| hook.container == id.as_str()) {
            return Some(before.at);
        }
        begun.push(BegunHook { container: id.to_string(), at: now });
        // A pod whose containers are replaced again and again needs only the latest.
        let outdated = begun.len().saturating_sub(MOST);
        begun.drain(..outdated);
        self.store.put(Table::PreStops, self.pod.as_str(), &begun);
        self.store.written().await;
        None
    }
}

/// Hooks kept per pod: more than a pod has containers that stop at the same time.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;

    #[tokio::test]
    async fn a_hook_begins_once_for_each_instance() {
        let (store, pod) = (Store::default(), PodUid::from("u"));
        let hooks = PreStops { store: &store, pod: &pod };
        assert_eq!(hooks.begin(&"a".into(), at(10)).await, None);
        assert_eq!(hooks.begin(&"b".into(), at(11)).await, None);
        assert_eq!(hooks.begin(&"a".into(), at(12)).await, Some(at(10)));
        // The next daemon knows, too.
        let store = store.copy();
        assert_eq!(PreStops { store: &store, pod: &pod }.begin(&"b".into(), at(13)).await, Some(at(11)));
        assert_eq!(PreStops { store: &store, pod: &"other".into() }.begin(&"a".into(), at(14)).await, None);
        for n in 0..200 {
            hooks.begin(&format!("n{n}").as_str().into(), at(20)).await;
        }
        let kept: Vec<BegunHook> = store.get(Table::PreStops, "u").unwrap();
        assert!(kept.len() <= MOST);
    }
}
