//! Whether a pod fits on the node next to the pods already admitted: resources, placement, host ports and taints, in
//! upstream's order and words (`GeneralPredicates` of the kubelet's admission). Pure.

use std::collections::HashSet;

use hostlet_base::reasons;
use hostlet_pod::view::PodView;
use hostlet_pod::{ContainerKind, PodContainer, Rejection, is_critical, is_static};
use hostlet_resources::{Admission, AllocatedPod, Allocation, Shortage};
use k8s_openapi::api::core::v1::{Pod, Taint};

use super::affinity;
use super::node::NodeView;
use super::tolerations::tolerates;

/// Why a pod does not fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unfit {
    /// Only for lack of these resources; preemption would help.
    Insufficient(Vec<Shortage>),
    /// Preemption would not help.
    Never {
        /// Why.
        rejection: Rejection,
        /// Whether the cause is the Node's labels or taints, which may change at any time.
        by_node: bool,
    },
}

impl Unfit {
    /// The rejection to report: the first shortage.
    pub(super) fn rejection(&self) -> Option<Rejection> {
        match self {
            Self::Insufficient(shortages) => shortages.first().map(Shortage::rejection),
            Self::Never { rejection, by_node: _ } => Some(rejection.clone()),
        }
    }
}

/// Checks whether `pod` fits on `node` next to `others`. Returns what it is granted.
pub(super) fn fit(pod: &Pod, node: &NodeView, others: &[AllocatedPod<'_>]) -> Result<Allocation, Unfit> {
    let granted = granted(pod, node, others);
    let Some((other, by_node)) = misplaced(pod, node, others) else { return granted };
    // What a critical pod lacks could be preempted: the other reason is the one that stays.
    let first = granted.err().filter(|_| !is_critical(pod)).and_then(|unfit| unfit.rejection());
    Err(Unfit::Never { rejection: first.unwrap_or(other), by_node })
}

/// What all allocators grant the pod together, or the answer of the first that grants nothing.
fn granted(pod: &Pod, node: &NodeView, others: &[AllocatedPod<'_>]) -> Result<Allocation, Unfit> {
    let mut granted = Allocation::default();
    for allocator in node.allocators() {
        match allocator.admit(pod, others) {
            Admission::Granted(allocation) => {
                granted.resources = granted.resources.overlaid(allocation.resources);
            }
            Admission::NotYet(shortages) => return Err(Unfit::Insufficient(shortages)),
            Admission::Rejected(rejection) => return Err(Unfit::Never { rejection, by_node: false }),
        }
    }
    Ok(granted)
}

/// Why a pod may not run on this node for reasons other than resources, and whether the cause is the Node's labels or taints.
fn misplaced(pod: &Pod, node: &NodeView, others: &[AllocatedPod<'_>]) -> Option<(Rejection, bool)> {
    let spec = PodView::from(pod).spec;
    let failed = |predicate: &'static str, detail: &str, by_node| {
        let message = format!("Predicate {predicate} failed: {detail}");
        Some((Rejection::new(predicate, message), by_node))
    };
    if !affinity::matches(spec, &node.name, &node.labels) {
        return failed(reasons::NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector", true);
    }
    let taken: HashSet<HostPort> = others.iter().flat_map(|other| host_ports(other.pod)).collect();
    if host_ports(pod).iter().any(|port| taken.iter().any(|other| port.conflicts(other))) {
        return failed(
            reasons::NODE_PORTS,
            "node(s) didn't have free ports for the requested pod ports",
            false,
        );
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let is_untolerated = |taint: &Taint| {
        taint.effect == "NoExecute" && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    if !is_static(pod) && node.taints.iter().any(is_untolerated) {
        return failed("TaintToleration", "node(s) had taints that the pod didn't tolerate", true);
    }
    None
}

/// A port on the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HostPort {
    /// Empty for all addresses.
    ip: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    fn conflicts(&self, other: &Self) -> bool {
        let overlap = self.ip.is_empty() || other.ip.is_empty() || self.ip == other.ip;
        self.port == other.port && self.protocol == other.protocol && overlap
    }
}

/// The ports of all containers that run as long as the pod.
fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let spec = PodView::from(pod).spec;
    let inits = spec.init_containers.iter().flatten().map(PodContainer::init);
    let sidecars = inits.filter(|container| container.kind == ContainerKind::Sidecar).map(|it| it.spec);
    let ports = sidecars.chain(&spec.containers).flat_map(|container| container.ports.iter().flatten());
    let of_host = ports.filter_map(|port| {
        let ip = port.host_ip.clone().filter(|ip| ip != "0.0.0.0" && ip != "::").unwrap_or_default();
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        Some(HostPort { ip, protocol, port: port.host_port.filter(|port| *port > 0)? })
    });
    of_host.collect()
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
