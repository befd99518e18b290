//! The pods that the sources want on this node, as one value.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AdmittedPod, PodKill};
use crate::types::PodUid;

/// The pods all sources want.
#[derive(Clone, Debug, Default)]
pub struct DesiredPods {
    /// Whether every source was read at least once. Nothing is judged unwanted before.
    pub ready: bool,
    /// The pods, oldest source entry first.
    pub pods: Vec<Arc<AdmittedPod>>,
    /// Those of them that are to be ended for good, and how. One that is here no more, though it still is among the pods, is a
    /// new pod of the same UID.
    pub kills: BTreeMap<PodUid, PodKill>,
}

impl DesiredPods {
    /// Whether this wants the very same pods.
    pub fn is_same(&self, other: &Self) -> bool {
        self.ready == other.ready
            && self.kills == other.kills
            && self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}
