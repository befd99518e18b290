//! Memory for a pod with resources of its own, divided among its containers (KEP-5526). All of them use the same nodes.

use std::collections::BTreeMap;

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::Pod;

use super::demand::{Demand, check_shared, container_memory, pod_memory};
use super::grants::MemoryNodes;
use super::state::Block;
use crate::containers::{containers, init_containers, is_guaranteed, is_sidecar, main_containers};
use crate::error::GrantError;
use crate::machine::NumaMask;
use crate::topology::Hint;

/// The memory of containers that do not use the pod's shared memory, and the latter.
type Divided = (BTreeMap<String, Vec<Block>>, Vec<Block>);

impl MemoryNodes {
    /// Grants a pod its memory, and each of its containers some of it. What it has, it keeps. After an error the value is unusable.
    pub fn allocate_pod(&mut self, pod: &Pod, hint: Hint) -> Result<(), GrantError> {
        let uid = PodView::from(pod).uid;
        if !is_guaranteed(pod) || self.state.pods.contains_key(uid) {
            return Ok(());
        }
        // An amount that is no number of bytes is not granted, as upstream.
        let Ok(demand) = pod_memory(pod, self.policy.pod_level) else { return Ok(()) };
        check_shared(pod)?;
        let nodes = self.choose(pod, &demand, hint)?;
        let (own, shared) = self.divide(pod, &demand, nodes)?;
        for (resource, bytes) in &demand {
            self.state.take(nodes, resource, *bytes);
        }
        for container in containers(pod) {
            let blocks = own.get(&container.name).unwrap_or(&shared);
            self.state.set(uid, &container.name, blocks.clone());
        }
        self.state.pods.insert(uid.to_owned(), blocks(nodes, &demand));
        Ok(())
    }

    fn divide(&self, pod: &Pod, all: &Demand, nodes: NumaMask) -> Result<Divided, GrantError> {
        let mut own = BTreeMap::new();
        let mut left = all.clone();
        for container in init_containers(pod) {
            let demand = container_memory(pod, container, self.policy.pod_level)?;
            if demand.is_empty() {
                // An init container that ends may use all that sidecars before it do not have.
                if !is_sidecar(container) {
                    own.insert(container.name.clone(), blocks(nodes, &left));
                }
                continue;
            }
            if is_sidecar(container) {
                deduct(&mut left, &demand);
            }
            own.insert(container.name.clone(), blocks(nodes, &demand));
        }
        for container in main_containers(pod) {
            let demand = container_memory(pod, container, self.policy.pod_level)?;
            if !demand.is_empty() {
                deduct(&mut left, &demand);
                own.insert(container.name.clone(), blocks(nodes, &demand));
            }
        }
        Ok((own, blocks(nodes, &left)))
    }
}

fn blocks(nodes: NumaMask, demand: &Demand) -> Vec<Block> {
    let demand = demand.iter().filter(|(_, bytes)| **bytes > 0);
    demand.map(|(resource, bytes)| Block::new(nodes, resource, *bytes)).collect()
}

fn deduct(left: &mut Demand, demand: &Demand) {
    for (resource, bytes) in demand {
        if let Some(left) = left.get_mut(resource) {
            *left = left.saturating_sub(*bytes);
        }
    }
}
