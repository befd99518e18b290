//! What the table needs of whoever cleans up the host around the pods.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use hostlet_base::{ContainerId, PodUid};
use hostlet_pod::AdmittedPod;

/// What the table knows while the host is swept.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPods {
    /// The pods that a source names, that have a lifecycle, or of which the runtime may have something.
    pub pods: HashSet<PodUid>,
    /// The containers that run.
    pub running: HashSet<ContainerId>,
}

/// Cleans up the host around the pods.
#[async_trait]
pub(crate) trait Janitor: Send + Sync + 'static {
    /// The pods with directories, logs or cgroups on the host. As slow as the disk.
    async fn found(&self) -> HashSet<PodUid>;

    /// Removes what the host has of hostlet's own among the `unknown` pods, and dangling log links. Reports the others, which
    /// somebody else may use. Errors are logged; the next pass tries again.
    async fn remove(&self, unknown: HashSet<PodUid>, known: KnownPods);

    /// Updates what pods share (the QoS cgroups) for this set of active pods.
    async fn share(&self, active: Vec<Arc<AdmittedPod>>);

    /// Forgets the reports on pods that are not in `known`.
    fn forget(&self, known: &HashSet<PodUid>);
}
