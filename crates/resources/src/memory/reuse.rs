//! Memory of init containers that later containers of the pod use. The sizes of the blocks of the pod add up to what was taken from the
//! nodes; a block shows less than its container had, if a later one uses its memory.

use std::collections::BTreeMap;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::grants::MemoryNodes;
use super::state::Block;
use crate::containers::{ends_first, init_containers, is_sidecar};
use crate::machine::NumaMask;

impl MemoryNodes {
    /// How many bytes of these nodes init containers of the pod have.
    pub(super) fn reusable(&self, pod: &Pod, nodes: NumaMask, resource: &str) -> u64 {
        let uid = PodView::from(pod).uid;
        let own = self.reusable.as_ref().filter(|(pod, _)| pod == uid);
        own.and_then(|(_, own)| own.get(&(nodes, resource.to_owned()))).copied().unwrap_or_default()
    }

    /// What an init container that ends has can be used by later containers, of which each main container and sidecar takes its part.
    pub(super) fn set_reusable(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        let uid = PodView::from(pod).uid;
        let mut own = match self.reusable.take() {
            Some((pod, own)) if pod == uid => own,
            Some(_) | None => BTreeMap::new(),
        };
        for block in blocks {
            let key = (block.nodes(), block.resource.clone());
            if ends_first(pod, &container.name) {
                let most = own.entry(key).or_default();
                *most = block.size.max(*most);
            } else if let Some(left) = own.get_mut(&key) {
                *left = left.saturating_sub(block.size);
            }
        }
        self.reusable = Some((uid.to_owned(), own));
    }

    /// Deducts what a container has from the init containers before it.
    pub(super) fn reuse(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        let Some(own) = self.state.containers.get_mut(PodView::from(pod).uid) else { return };
        for block in blocks {
            let mut size = block.size;
            let before = init_containers(pod).iter().take_while(|init| init.name != container.name);
            for init in before.filter(|init| !is_sidecar(init)) {
                for earlier in own.get_mut(&init.name).into_iter().flatten() {
                    if earlier.resource == block.resource && earlier.nodes() == block.nodes() {
                        let reused = size.min(earlier.size);
                        earlier.size -= reused;
                        size -= reused;
                    }
                }
            }
        }
    }
}
