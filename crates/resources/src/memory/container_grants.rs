//! Memory for one container.

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::demand::{Demand, container_memory};
use super::grants::MemoryNodes;
use super::state::Block;
use crate::containers::is_guaranteed;
use crate::error::GrantError;
use crate::machine::NumaMask;
use crate::topology::Hint;

impl MemoryNodes {
    /// Grants a container its memory, if it has some for itself, of the hinted nodes, and of more if these have too little. What it has, it
    /// keeps. After an error the value is unusable.
    pub fn allocate(&mut self, pod: &Pod, container: &Container, hint: Hint) -> Result<(), GrantError> {
        if !is_guaranteed(pod) || self.ignores(pod) {
            return Ok(());
        }
        let demand = container_memory(pod, container, self.policy.pod_level)?;
        if demand.is_empty() {
            return Ok(());
        }
        let uid = PodView::from(pod).uid;
        if let Some(own) = self.state.container(uid, &container.name) {
            let own = own.to_vec();
            self.set_reusable(pod, container, &own);
            return Ok(());
        }
        let nodes = self.choose(pod, &demand, hint)?;
        for (resource, bytes) in &demand {
            let needed = bytes.saturating_sub(self.reusable(pod, nodes, resource));
            self.state.take(nodes, resource, needed);
        }
        let blocks: Vec<Block> =
            demand.iter().map(|(resource, bytes)| Block::new(nodes, resource, *bytes)).collect();
        self.set_reusable(pod, container, &blocks);
        self.state.set(uid, &container.name, blocks.clone());
        self.reuse(pod, container, &blocks);
        Ok(())
    }

    /// The nodes for this much: the hinted ones, the best ones without a hint, larger combinations where these have too little.
    pub(super) fn choose(&self, pod: &Pod, demand: &Demand, hint: Hint) -> Result<NumaMask, GrantError> {
        let mut nodes = hint.nodes;
        let mut preferred = hint.preferred;
        if nodes.is_none() {
            let best = self.best(pod, demand, NumaMask::default()).ok_or(GrantError::NoMemory)?;
            if preferred && !best.preferred {
                return Err(GrantError::NoPreferred);
            }
            (nodes, preferred) = (best.nodes, best.preferred);
        }
        let mut chosen = nodes.unwrap_or_default();
        if !self.has_free(chosen, demand, None) {
            let best = self.best(pod, demand, chosen).ok_or(GrantError::NotExtendable)?;
            if preferred && !best.preferred {
                return Err(GrantError::NoPreferredExtension);
            }
            chosen = best.nodes.unwrap_or_default();
        }
        if self.divides(chosen) { Err(GrantError::NodeInOtherGroup) } else { Ok(chosen) }
    }
}
