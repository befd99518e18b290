//! Limits all pods together to what the machine has, without what is reserved if that is enforced, and reports the result as an event of
//! the node.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use hostlet_base::node::{CgroupLimit, CgroupLimits, NodeEvent, NodeEvents, OwnNode};
use hostlet_base::resources::{CPU, MEMORY, PID};
use hostlet_base::{ResourceList, error_chain};
use hostlet_host::cgroup::{AllPods, Cgroups};
use hostlet_pod::resources::huge_pages;
use hostlet_telemetry::Changed;

/// Applies the limit of all pods. The kernel may reject it while they use more, so housekeeping tries again. An accepted one is set
/// again only when it changes: what an administrator writes there in between is left alone, as upstream.
pub(crate) struct PodsLimit {
    pub cgroups: Arc<Cgroups>,
    /// Whether reserved resources are not for pods. Without that they still need the weight of the machine's cores, as the kernel's default is
    /// that of a single one.
    pub is_enforced: bool,
    /// The node, whose huge pages and memory may change.
    pub node: watch::Receiver<OwnNode>,
    pub events: NodeEvents,
    /// Where the result is published.
    pub limits: CgroupLimits,
    pub state: Mutex<PodsLimitState>,
}

/// What has become of it so far.
#[derive(Default)]
pub(crate) struct PodsLimitState {
    /// The last limit that was accepted.
    accepted: Option<AllPods>,
    /// Why the last attempt failed; `None` if it succeeded.
    last: Changed<Option<String>>,
}

impl PodsLimit {
    /// Sets the limit, and reports a changed result. Blocking.
    pub(crate) fn apply(&self) {
        let (amounts, all) = self.wanted();
        let mut state = self.state.lock();
        if state.accepted.as_ref() == Some(&all) {
            return;
        }
        let failure = self.cgroups.limit_all_pods(&all).err().map(|error| error_chain(&error));
        state.accepted = failure.is_none().then_some(all);
        let is_news = state.last.see(failure.clone());
        let limit = CgroupLimit {
            of: "pods".to_owned(),
            cgroup: self.cgroups.all_pods_path().unwrap_or_default(),
            amounts: amounts.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect(),
            problem: failure.clone(),
        };
        limit.publish(&self.limits);
        match failure {
            _ if !is_news => {}
            None => (self.events)(enforced_event()),
            Some(error) => {
                tracing::warn!(
                    error,
                    "cannot limit the resources of all pods together; housekeeping tries again"
                );
                (self.events)(not_enforced_event(&self.cgroups.all_pods_printed(), &error));
            }
        }
    }

    /// The limit, and its amounts.
    fn wanted(&self) -> (ResourceList, AllPods) {
        let node = self.node.borrow();
        let amounts = if self.is_enforced { &node.unreserved } else { &node.machine };
        let all = AllPods {
            milli_cpu: amounts.units(CPU),
            memory: amounts.units(MEMORY),
            pids: amounts.units(PID),
            huge_pages: huge_pages(&node.allocatable),
            cpus: node.cpus.clone(),
        };
        (amounts.clone(), all)
    }
}

fn enforced_event() -> NodeEvent {
    NodeEvent::normal("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
}

fn not_enforced_event(cgroup: &str, error: &str) -> NodeEvent {
    let message = format!("Failed to update Node Allocatable Limits {cgroup}: {error}");
    NodeEvent::warning("FailedNodeAllocatableEnforcement", message)
}

#[cfg(test)]
#[path = "pods_limit_tests.rs"]
mod tests;
