//! What the probes of a pod's containers have found, as plan and status read it. Pure: the room `probe` writes these values.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use parking_lot::Mutex;

use crate::types::{Conflated, ContainerId, PodUid};

/// The purpose of a probe (Kubernetes docs, "Liveness, Readiness, and Startup Probes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Until it succeeds, the container does not count as started, and its other probes do not run.
    Startup,
    /// Once it fails, the container is restarted.
    Liveness,
    /// While it fails, the container is not ready.
    Readiness,
}

/// What the probes of one instance of a container have found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerProbes {
    /// Its startup probe has succeeded.
    pub started: bool,
    /// Its readiness probe succeeds.
    pub ready: bool,
    /// The startup or liveness probe that failed: the instance has to be restarted.
    pub failed: Option<ProbeKind>,
}

/// The findings for a pod, by instance of a container. An instance that is not in it was not probed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodProbes(pub BTreeMap<ContainerId, ContainerProbes>);

impl PodProbes {
    /// Whether a running instance counts as started, as far as its startup probe decides that.
    pub fn has_started(&self, container: &Container, id: &ContainerId) -> bool {
        container.startup_probe.is_none() || self.0.get(id).is_some_and(|found| found.started)
    }

    /// Whether a running instance that has started is ready.
    pub fn is_ready(&self, container: &Container, id: &ContainerId) -> bool {
        container.readiness_probe.is_none() || self.0.get(id).is_some_and(|found| found.ready)
    }

    /// The probe whose failure requires a restart of this instance.
    pub fn failed(&self, id: &ContainerId) -> Option<ProbeKind> {
        self.0.get(id).and_then(|found| found.failed)
    }
}

/// The findings for all pods. Cheap to clone; clones share them. The prober writes them, workers and statuses read them.
#[derive(Clone, Debug, Default)]
pub struct ProbeResults {
    pods: Arc<Mutex<HashMap<PodUid, Arc<PodProbes>>>>,
    news: Conflated<()>,
}

impl ProbeResults {
    /// The findings for a pod; none for an unknown one.
    pub fn of(&self, pod: &PodUid) -> Arc<PodProbes> {
        self.pods.lock().get(pod).cloned().unwrap_or_default()
    }

    /// Replaces the findings for a pod. Wakes its worker if a container has started or must be restarted.
    pub fn set(&self, pod: &PodUid, found: PodProbes) {
        let acts = |found: &ContainerProbes| (found.started, found.failed);
        let known = self.of(pod);
        let is_news = found.0.iter().any(|(id, found)| known.0.get(id).map(acts) != Some(acts(found)));
        self.pods.lock().insert(pod.clone(), Arc::new(found));
        if is_news {
            self.news.push(pod, |()| {});
        }
    }

    /// Forgets a pod.
    pub fn forget(&self, pod: &PodUid) {
        self.pods.lock().remove(pod);
    }

    /// The next pod whose worker has to act. Has one reader. Cancel-safe.
    pub async fn news(&self) -> PodUid {
        self.news.next().await.0
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_worker_is_woken_only_by_what_it_acts_on() {
        let (results, pod) = (ProbeResults::default(), PodUid::from("u"));
        let found = |started, ready, failed| {
            PodProbes([("c".into(), ContainerProbes { started, ready, failed })].into())
        };
        let woken = || results.news().now_or_never().is_some();
        results.set(&pod, found(false, false, None));
        assert!(woken());
        results.set(&pod, found(false, true, None));
        assert!(!woken(), "readiness is not the worker's");
        results.set(&pod, found(true, true, None));
        assert!(woken());
        results.set(&pod, found(true, false, Some(ProbeKind::Liveness)));
        assert!(woken());
        assert_eq!(results.of(&pod).failed(&"c".into()), Some(ProbeKind::Liveness));
        results.forget(&pod);
        assert_eq!(*results.of(&pod), PodProbes::default());
    }
}
