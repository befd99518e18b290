//! The pods of this node: those with a reported status and the rejected ones, and which of two versions a name refers to. Everything
//! that lists pods or finds one by name asks here. Only reads; never decides what happens to a pod.

use std::collections::HashMap;
use std::sync::Arc;

use hostlet_base::{PodRef, PodUid};
use hostlet_pod::{ApiPod, ApiState, RejectedPod, pod_ref, seen_at};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use super::{LifecycleSummary, PodStatusEntry, StatusCache};

/// A pod of this node.
#[derive(Clone, Debug)]
pub enum DirectoryEntry {
    /// A pod with a lifecycle.
    Reported(PodStatusEntry),
    /// A pod that may not run here, with the status that says why.
    Rejected(RejectedPod),
}

/// What decides between versions of a pod, least preferred first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Terminated,
    Rejected,
    Terminating,
    Active,
}

impl DirectoryEntry {
    /// Namespace, name and UID.
    pub fn reference(&self) -> PodRef {
        match self {
            Self::Reported(entry) => entry.pod.reference.clone(),
            Self::Rejected(rejected) => pod_ref(&rejected.pod),
        }
    }

    /// The pod, with the resources that are allocated to it and the status from its source.
    pub fn object(&self) -> &Arc<Pod> {
        match self {
            Self::Reported(entry) => entry.pod.object(),
            Self::Rejected(rejected) => &rejected.pod,
        }
    }

    /// Its current status.
    pub fn status(&self) -> &Arc<PodStatus> {
        match self {
            Self::Reported(entry) => &entry.status,
            Self::Rejected(rejected) => &rejected.status,
        }
    }

    /// Its lifecycle. A rejected pod counts as terminated.
    pub fn lifecycle(&self) -> LifecycleSummary {
        match self {
            Self::Reported(entry) => entry.lifecycle,
            Self::Rejected(_) => LifecycleSummary::Terminated,
        }
    }

    /// Whether it has terminated and has nothing on the host.
    pub fn has_released(&self) -> bool {
        match self {
            Self::Reported(entry) => entry.has_released,
            Self::Rejected(_) => true,
        }
    }

    /// A copy of the pod with its current status. One that is not marked for deletion, such as a static pod, is marked while it
    /// terminates, as the API server would mark it.
    pub fn with_status(&self) -> Pod {
        match self {
            Self::Reported(entry) => {
                let status = Some(PodStatus::clone(&entry.status));
                let mut pod = Pod { status, ..Pod::clone(entry.pod.object()) };
                let marked = pod.metadata.deletion_timestamp.take();
                pod.metadata.deletion_timestamp = marked.or(entry.terminating_since.map(Time));
                pod
            }
            Self::Rejected(rejected) => rejected.with_status(),
        }
    }

    /// Whether its spec has a container of any kind with this name.
    pub fn has_container(&self, name: &str) -> bool {
        let Some(spec) = &self.object().spec else { return false };
        let init = spec.init_containers.iter().flatten().map(|container| &container.name);
        let main = spec.containers.iter().map(|container| &container.name);
        let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.name);
        init.chain(main).chain(ephemeral).any(|own| own == name)
    }

    fn standing(&self) -> Standing {
        match self {
            Self::Rejected(_) => Standing::Rejected,
            Self::Reported(entry) => match entry.lifecycle {
                LifecycleSummary::Active => Standing::Active,
                LifecycleSummary::Terminating => Standing::Terminating,
                LifecycleSummary::Terminated => Standing::Terminated,
            },
        }
    }

    /// The preferred version is the greatest. The UID only makes the order total.
    fn precedence(&self) -> (Standing, Option<Timestamp>, PodUid) {
        (self.standing(), seen_at(self.object()), self.reference().uid)
    }
}

/// The pods of this node. Cheap to clone.
#[derive(Clone)]
pub struct PodDirectory {
    statuses: StatusCache,
    rejected: watch::Receiver<Vec<RejectedPod>>,
    api: watch::Receiver<ApiState>,
}

impl PodDirectory {
    /// The directory of the pods with these statuses, of the rejected pods, and of the API server's versions.
    pub fn new(
        statuses: StatusCache,
        rejected: watch::Receiver<Vec<RejectedPod>>,
        api: watch::Receiver<ApiState>,
    ) -> Self {
        Self { statuses, rejected, api }
    }

    /// The directory of a node without rejected pods and without an API server, for tests of readers.
    #[cfg(any(test, feature = "fakes"))]
    pub fn of(statuses: StatusCache) -> Self {
        Self::new(statuses, watch::channel(Vec::new()).1, watch::channel(ApiState::default()).1)
    }

    /// All pods. One that terminated, returned with the same UID and was rejected then is a rejected pod.
    pub fn all(&self) -> HashMap<PodUid, DirectoryEntry> {
        let reported = self.statuses.all().into_iter();
        let mut all: HashMap<_, _> = reported
            .map(|entry| (entry.pod.reference.uid.clone(), DirectoryEntry::Reported(entry)))
            .collect();
        for rejected in self.rejected.borrow().iter() {
            let rejected = DirectoryEntry::Rejected(rejected.clone());
            let uid = rejected.reference().uid;
            if all.get(&uid).is_none_or(|reported| reported.precedence() < rejected.precedence()) {
                all.insert(uid, rejected);
            }
        }
        all
    }

    /// All pods, by namespace, name and UID.
    pub fn sorted(&self) -> Vec<DirectoryEntry> {
        let mut all: Vec<_> = self.all().into_values().collect();
        all.sort_by_cached_key(DirectoryEntry::reference);
        all
    }

    /// The pod with this name. There may be two versions of it, with different UIDs: a static pod was changed, or the API server has
    /// a new pod of that name, before the older one terminated here.
    ///
    /// The lifecycles decide: an active version precedes a terminating one, that a rejected one, and that a terminated one; of two
    /// in the same phase the one counts that its source named last. Upstream (`GetPodByFullName` of the pod manager) returns what the
    /// sources named last, and never what they removed. That is the same version as here from the moment the older one has
    /// terminated, because only then the lifecycle of the newer one begins. Until then, hostlet finds the older one, whose
    /// containers and logs are all there is.
    pub fn find(&self, namespace: &str, name: &str) -> Option<DirectoryEntry> {
        let is_named = |pod: &PodRef| (&*pod.namespace, &*pod.name) == (namespace, name);
        let versions = self.all().into_values().filter(|entry| is_named(&entry.reference()));
        versions.max_by_key(DirectoryEntry::precedence)
    }

    /// The version of a pod on the API server, whose resources may differ from the allocated ones. `None` for a static pod.
    pub fn api_version(&self, uid: &PodUid) -> Option<Arc<ApiPod>> {
        self.api.borrow().pods.get(uid).cloned()
    }

    /// Signals when a pod's status or a rejection changes.
    pub fn changes(&self) -> DirectoryChanges {
        DirectoryChanges { statuses: self.statuses.changes(), rejected: self.rejected.clone() }
    }
}

/// Waits for changes of a [`PodDirectory`].
pub struct DirectoryChanges {
    statuses: watch::Receiver<u64>,
    rejected: watch::Receiver<Vec<RejectedPod>>,
}

impl DirectoryChanges {
    /// Marks all changes so far as seen, and returns the version of the statuses.
    pub fn mark_seen(&mut self) -> u64 {
        self.rejected.mark_unchanged();
        *self.statuses.borrow_and_update()
    }

    /// Waits for a change that was not seen. Cancel-safe.
    ///
    /// # Errors
    /// Nobody reports pods anymore.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        tokio::select! {
            // Cancel-safe, both: a watch marks its value seen only when `changed` returns.
            changed = self.statuses.changed() => changed,
            changed = self.rejected.changed() => changed,
        }
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
