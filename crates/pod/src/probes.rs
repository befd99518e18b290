//! What the probes of pods' containers have found, as plan and status read it. Probes nothing: `engine::probe` writes these values.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Probe};
use parking_lot::Mutex;

use hostlet_base::{Conflated, ContainerId, PodUid};

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

impl ProbeKind {
    /// All kinds, the startup probe first.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    /// Upstream's name, in events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// A container's probe of this kind.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// What the probes of one instance of a container have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Whether `self` and `other` differ in what plans depend on.
    fn plans_otherwise(&self, other: &Self) -> bool {
        let relevant = |found: &Self| -> Vec<_> {
            let one =
                |(id, found): (&ContainerId, &ContainerProbes)| (id.clone(), found.started, found.failed);
            found.0.iter().map(one).filter(|(_, started, failed)| *started || failed.is_some()).collect()
        };
        relevant(self) != relevant(other)
    }
}

/// The findings for all pods. Cheap to clone; clones share them. `engine::probe` writes them, workers and statuses read them.
#[derive(Clone, Debug, Default)]
pub struct ProbeResults {
    pods: Arc<Mutex<HashMap<PodUid, Arc<PodProbes>>>>,
    news: Conflated<()>,
}

impl ProbeResults {
    /// The findings for a pod; empty if there are none.
    pub fn of(&self, pod: &PodUid) -> Arc<PodProbes> {
        self.pods.lock().get(pod).cloned().unwrap_or_default()
    }

    /// Replaces the findings for a pod. Its worker is woken if its plan may change.
    pub fn set(&self, pod: &PodUid, found: PodProbes) {
        let found = Arc::new(found);
        let old = self.pods.lock().insert(pod.clone(), found.clone()).unwrap_or_default();
        if found.plans_otherwise(&old) {
            self.news.push(pod, |()| {});
        }
    }

    /// Forgets a pod that is no longer probed.
    pub fn forget(&self, pod: &PodUid) {
        self.pods.lock().remove(pod);
    }

    /// The next pod whose plan may change. Has one reader. Cancel-safe: a pod is taken only when it is returned.
    pub async fn news(&self) -> PodUid {
        self.news.next().await.0
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_worker_is_woken_for_what_plans_depend_on() {
        let results = ProbeResults::default();
        let uid = PodUid::from("u");
        let found = |started, ready, failed| {
            PodProbes([(ContainerId::from("c"), ContainerProbes { started, ready, failed })].into())
        };
        let woken = |found: PodProbes| {
            results.set(&uid, found);
            results.news().now_or_never() == Some(uid.clone())
        };
        assert!(!woken(found(false, false, None)), "nothing is known yet");
        assert!(woken(found(true, false, None)));
        assert!(!woken(found(true, true, None)), "only its status changes");
        assert!(woken(found(true, true, Some(ProbeKind::Liveness))));
        assert!(!woken(found(true, false, Some(ProbeKind::Liveness))));
        assert_eq!(results.of(&uid).failed(&ContainerId::from("c")), Some(ProbeKind::Liveness));
        results.forget(&uid);
        assert_eq!(*results.of(&uid), PodProbes::default());
    }
}
