//! The pods that the sources want on this node, as one value.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::StatusOverride;
use crate::types::PodUid;

/// The pods all sources want.
#[derive(Clone, Debug, Default)]
pub struct DesiredPods {
    /// Whether every source was read at least once. Nothing is judged unwanted before.
    pub ready: bool,
    /// The pods, oldest source entry first.
    pub pods: Vec<Arc<Pod>>,
    /// Those of them that are to be ended for good, and what they are to end as.
    pub ended: BTreeMap<PodUid, StatusOverride>,
}

impl DesiredPods {
    /// Whether this wants the very same pods.
    pub fn is_same(&self, other: &Self) -> bool {
        self.ready == other.ready
            && self.ended == other.ended
            && self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}
