//! What the probes of a pod's containers have found, as plan and status read it. Pure: the room `probe` writes these values.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

use crate::types::ContainerId;

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
