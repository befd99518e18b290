//! The desired pods of this node, as one value.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::PodUid;

use super::{AdmittedPod, PodKill};

/// The admitted pods of all sources.
#[derive(Clone, Debug, Default)]
pub struct DesiredPods {
    /// Whether every source was read at least once. Until then, no pod is considered removed.
    pub ready: bool,
    /// The pods, oldest source entry first.
    pub pods: Vec<Arc<AdmittedPod>>,
    /// The pods that are to be killed, and how. A pod whose entry disappears while the pod stays is a new pod with the same UID.
    pub kills: BTreeMap<PodUid, PodKill>,
}

impl DesiredPods {
    /// Whether both have the very same pods and kills.
    pub fn is_same(&self, other: &Self) -> bool {
        self.ready == other.ready
            && self.kills == other.kills
            && self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}
