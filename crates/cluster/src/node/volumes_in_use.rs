//! Which volumes the Node says are in use (`status.volumesInUse`), so that the attach-detach controller detaches none of them. Knows
//! nothing of the volumes.

use std::collections::BTreeSet;

use hostlet_base::watching::{self, publish};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;

/// The volumes that must not be detached, by their unique names, and which of them the API server is known to have. Clones share both.
#[derive(Clone, Debug)]
pub struct VolumesInUse {
    desired: watch::Receiver<BTreeSet<String>>,
    reported: watch::Sender<BTreeSet<String>>,
}

impl VolumesInUse {
    /// `desired` has the volumes of earlier daemons from the beginning.
    pub fn new(desired: watch::Receiver<BTreeSet<String>>) -> Self {
        Self { desired, reported: watch::Sender::default() }
    }

    /// A node that uses no volumes.
    pub fn none() -> Self {
        Self::new(watch::Sender::default().subscribe())
    }

    /// The volumes in use that the API server has, and that no status on its way removes. A volume that is desired and here stays here
    /// while it is desired.
    pub fn reported(&self) -> watch::Receiver<BTreeSet<String>> {
        self.reported.subscribe()
    }

    /// The desired volumes, sorted.
    pub(super) fn desired(&self) -> Vec<String> {
        self.desired.borrow().iter().cloned().collect()
    }

    /// The desired volumes, sorted, for a status that is sent now. All others stop to count as reported: the status removes them even if
    /// its response is lost.
    pub(super) fn begin(&self) -> Vec<String> {
        // Locked until the others are removed: a volume that becomes desired after that finds itself unreported.
        let desired = self.desired.borrow();
        self.reported.send_if_modified(|reported| {
            let before = reported.len();
            reported.retain(|volume| desired.contains(volume));
            reported.len() != before
        });
        desired.iter().cloned().collect()
    }

    /// Records that the API server has this Node.
    pub(crate) fn confirm(&self, node: &Node) {
        let volumes = node.status.as_ref().and_then(|status| status.volumes_in_use.as_ref());
        publish(&self.reported, volumes.into_iter().flatten().cloned().collect());
    }

    /// Records that the API server has no Node.
    pub(super) fn clear(&self) {
        publish(&self.reported, BTreeSet::new());
    }

    /// Waits for a change of the desired volumes. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        watching::changed(&mut self.desired).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(volumes: &[&str]) -> Node {
        serde_json::from_value(json!({"status": {"volumesInUse": volumes}})).unwrap()
    }

    fn set(volumes: &[&str]) -> BTreeSet<String> {
        volumes.iter().map(|volume| (*volume).to_owned()).collect()
    }

    #[test]
    fn a_volume_that_a_status_removes_is_unreported_from_its_beginning() {
        let (desired, view) = watch::channel(set(&["a", "b"]));
        let volumes = VolumesInUse::new(view);
        let reported = volumes.reported();
        volumes.confirm(&node(&["a", "b"]));
        assert_eq!(*reported.borrow(), set(&["a", "b"]), "an earlier daemon's");

        desired.send_replace(set(&["c", "a"]));
        assert_eq!(volumes.desired(), ["a", "c"]);
        assert_eq!(*reported.borrow(), set(&["a", "b"]), "a description sends nothing");
        volumes.begin();
        assert_eq!(*reported.borrow(), set(&["a"]));
        // Used again while the status that removes it is on its way.
        desired.send_replace(set(&["a", "b", "c"]));
        volumes.confirm(&node(&["a", "c"]));
        assert_eq!(*reported.borrow(), set(&["a", "c"]));
        volumes.clear();
        assert_eq!(*reported.borrow(), set(&[]));
    }
}
