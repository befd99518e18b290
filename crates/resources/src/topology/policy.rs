//! The policies: what becomes of hints, and whether a pod is admitted with that.

use std::collections::BTreeSet;

use super::options::{MAX_NUMA_NODES, TopologyOptions};
use super::{Hint, ProviderHints, merge};
use crate::machine::{Machine, NumaMask};

/// `topologyManagerPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologyPolicy {
    /// Hints are neither collected nor merged.
    #[default]
    None,
    /// The best hint is used, however good.
    BestEffort,
    /// A pod whose best hint is not preferred is rejected.
    Restricted,
    /// A pod that needs more than one NUMA node is rejected.
    SingleNumaNode,
}

/// `topologyManagerScope`: for what hints are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologyScope {
    /// For each container.
    #[default]
    Container,
    /// For the pod as a whole.
    Pod,
}

/// Why the policy cannot be used on a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There are too many NUMA nodes.
    #[error("unsupported on machines with more than {0} NUMA Nodes")]
    TooManyNodes(usize),
    /// The kernel does not say how far NUMA nodes are from each other.
    #[error("cannot discover NUMA topology: error getting NUMA distances from cadvisor")]
    NoDistances,
}

/// A policy on a machine.
#[derive(Clone, Debug)]
pub struct Topology {
    policy: TopologyPolicy,
    scope: TopologyScope,
    nodes: merge::Nodes,
}

impl Topology {
    /// The policy `none`.
    pub fn none() -> Self {
        let nodes = merge::Nodes::default();
        Self { policy: TopologyPolicy::None, scope: TopologyScope::Container, nodes }
    }

    /// Prepares a policy for a machine.
    pub fn new(
        policy: TopologyPolicy,
        scope: TopologyScope,
        options: TopologyOptions,
        machine: &Machine,
    ) -> Result<Self, TopologyError> {
        if policy == TopologyPolicy::None {
            return Ok(Self::none());
        }
        let is_unknown = |node: &u32| machine.nodes[node].distances.len() < machine.nodes.len();
        if options.prefer_closest && machine.nodes.keys().any(is_unknown) {
            return Err(TopologyError::NoDistances);
        }
        let max = options.max_nodes.min(MAX_NUMA_NODES);
        if machine.nodes.len() > max {
            return Err(TopologyError::TooManyNodes(max));
        }
        // A single node has no distance to others.
        let by_distance = options.prefer_closest && policy != TopologyPolicy::SingleNumaNode;
        Ok(Self { policy, scope, nodes: merge::Nodes::new(machine, by_distance) })
    }

    /// The policy.
    pub fn policy(&self) -> TopologyPolicy {
        self.policy
    }

    /// The scope.
    pub fn scope(&self) -> TopologyScope {
        self.scope
    }

    /// The best combination of what providers hint, and whether the pod is admitted with it.
    pub fn merge(&self, providers: &[ProviderHints]) -> (Hint, bool) {
        let resources = || providers.iter().flat_map(ProviderHints::values).map(Vec::as_slice);
        match self.policy {
            TopologyPolicy::None => (Hint::default(), true),
            TopologyPolicy::BestEffort => (merge::merge(&self.nodes, resources()), true),
            TopologyPolicy::Restricted => {
                let best = merge::merge(&self.nodes, resources());
                (best, best.preferred)
            }
            TopologyPolicy::SingleNumaNode => {
                let is_single =
                    |hint: &&Hint| hint.preferred && hint.nodes.is_none_or(|nodes| nodes.count() == 1);
                let single = |hints: &[Hint]| hints.iter().filter(is_single).copied().collect();
                let single: Vec<Vec<Hint>> = resources().map(single).collect();
                let mut best = merge::merge(&self.nodes, single.iter().map(Vec::as_slice));
                if best.nodes == Some(self.nodes.all()) {
                    best.nodes = None;
                }
                (best, best.preferred)
            }
        }
    }

    /// All nodes, for a mask that names each.
    pub fn all_nodes(&self) -> BTreeSet<u32> {
        NumaMask::nodes(self.nodes.all()).collect()
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
