//! Restarts of containers that a user requested. A request names the instance that is to be replaced, so that it is carried out
//! once, however often it is planned, and it is stored, so that a restart that was cut short goes on in the next daemon. Stops and
//! starts nothing itself: the pod's plan does.

use std::collections::BTreeSet;

use hostlet_base::{Conflated, ContainerId, PodUid};
use hostlet_observe::pleg::PodStatus;
use hostlet_store::{Store, Table};

/// The requested restarts of all pods. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct RestartRequests {
    store: Store,
    news: Conflated<()>,
}

impl RestartRequests {
    /// The requests in the store.
    pub fn new(store: Store) -> Self {
        Self { store, news: Conflated::default() }
    }

    /// Requests that these containers of a pod are replaced by new instances. Returns once the request would survive the daemon.
    pub async fn request(&self, pod: &PodUid, containers: &[ContainerId]) {
        let mut ids = self.stored(pod);
        ids.extend(containers.iter().map(ToString::to_string));
        self.store.put(Table::Restarts, pod.as_str(), &ids);
        self.store.written().await;
        self.news.push(pod, |_| {});
    }

    /// The containers of the observed pod that are still to be replaced. The others were, and are forgotten.
    pub fn due(&self, observed: &PodStatus) -> BTreeSet<ContainerId> {
        let uid = &observed.pod.uid;
        let stored = self.stored(uid);
        let is_newest = |id: &str| {
            let seen = observed.containers.iter().find(|container| container.id.as_str() == id);
            seen.is_some_and(|seen| observed.container(&seen.name).is_some_and(|newest| newest.id == seen.id))
        };
        let due: BTreeSet<&String> = stored.iter().filter(|id| is_newest(id)).collect();
        if due.len() < stored.len() {
            match due.is_empty() {
                true => self.store.remove(Table::Restarts, uid.as_str()),
                false => self.store.put(Table::Restarts, uid.as_str(), &due),
            }
        }
        due.into_iter().map(|id| ContainerId::from(id.as_str())).collect()
    }

    /// Whether a user requested that this container is replaced.
    pub(super) fn is_requested(&self, pod: &PodUid, container: &ContainerId) -> bool {
        self.stored(pod).contains(container.as_str())
    }

    /// The next pod with a new request. Has one reader. Cancel-safe.
    pub(super) async fn news(&self) -> PodUid {
        self.news.next().await.0
    }

    fn stored(&self, pod: &PodUid) -> BTreeSet<String> {
        self.store.get(Table::Restarts, pod.as_str()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::PodRef;
    use hostlet_pod::testing::{container, exited};
    use hostlet_runtime::cri::{ContainerState, ContainerStatus};

    fn observed(containers: Vec<ContainerStatus>) -> PodStatus {
        PodStatus { containers, ..PodStatus::empty(PodRef::new("default", "p", "u")) }
    }

    #[tokio::test]
    async fn a_request_is_kept_until_the_instance_was_replaced() {
        let requests = RestartRequests::default();
        let uid = PodUid::from("u");
        let (a, b) = (container("a", 0, ContainerState::Running), container("b", 0, ContainerState::Running));
        let both = [a.id.clone(), b.id.clone()];
        requests.request(&uid, &both[..1]).await;
        requests.request(&uid, &both).await;
        assert_eq!(requests.news().await, uid);
        assert_eq!(requests.due(&observed(vec![a.clone(), b.clone()])), both.clone().into());
        // Another daemon goes on with what was stored.
        let next = RestartRequests::new(requests.store.clone());
        let replaced = vec![container("a", 1, ContainerState::Running), exited("a", 0, 0), b.clone()];
        assert_eq!(next.due(&observed(replaced.clone())), [b.id.clone()].into());
        assert_eq!(next.stored(&uid).len(), 1);
        // A container that the runtime does not have needs no restart.
        assert!(next.due(&observed(replaced[..2].to_vec())).is_empty());
        assert!(next.store.all::<serde::de::IgnoredAny>(Table::Restarts).is_empty());
    }
}
