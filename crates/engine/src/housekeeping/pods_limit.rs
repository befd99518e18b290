//! Limits all pods together to what the machine has unreserved, and reports the result as an event of the node.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use hostlet_base::error_chain;
use hostlet_base::node::{NodeEvent, NodeEvents, OwnNode};
use hostlet_base::resources::{CPU, MEMORY, PID};
use hostlet_host::cgroup::{AllPods, Cgroups};
use hostlet_pod::resources::huge_pages;
use hostlet_telemetry::Changed;

/// Applies the limit of all pods. The kernel may reject it while they use more, so housekeeping tries again. An accepted one is set
/// again only when it changes: what an administrator writes there in between is left alone, as upstream.
pub(crate) struct PodsLimit {
    cgroups: Arc<Cgroups>,
    /// The node, whose huge pages and memory may change.
    node: watch::Receiver<OwnNode>,
    events: NodeEvents,
    /// The last one that was accepted.
    accepted: Mutex<Option<AllPods>>,
    /// Why the last attempt failed; `None` if it succeeded.
    last: Mutex<Changed<Option<String>>>,
}

impl PodsLimit {
    /// Does not set the limit before the first call of `apply`.
    pub(crate) fn new(cgroups: Arc<Cgroups>, node: watch::Receiver<OwnNode>, events: NodeEvents) -> Self {
        Self { cgroups, node, events, accepted: Mutex::default(), last: Mutex::default() }
    }

    /// Sets the limit, and reports a changed result. Blocking.
    pub(crate) fn apply(&self) {
        let all = all_pods(&self.node.borrow());
        if self.accepted.lock().as_ref() == Some(&all) {
            return;
        }
        let failure = self.cgroups.limit_all_pods(&all).err().map(|error| error_chain(&error));
        *self.accepted.lock() = failure.is_none().then_some(all);
        let is_news = self.last.lock().see(failure.clone());
        match failure {
            _ if !is_news => {}
            None => (self.events)(enforced_event()),
            Some(error) => {
                tracing::warn!(
                    error,
                    "cannot limit the resources of all pods together; housekeeping tries again"
                );
                (self.events)(not_enforced_event(&error));
            }
        }
    }
}

/// The limit of all pods on this node.
fn all_pods(node: &OwnNode) -> AllPods {
    AllPods {
        milli_cpu: node.unreserved.units(CPU),
        memory: node.unreserved.units(MEMORY),
        pids: node.unreserved.units(PID),
        huge_pages: huge_pages(&node.allocatable),
    }
}

fn enforced_event() -> NodeEvent {
    NodeEvent::normal("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
}

fn not_enforced_event(error: &str) -> NodeEvent {
    let message = format!("Failed to update Node Allocatable Limits: {error}");
    NodeEvent::warning("FailedNodeAllocatableEnforcement", message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use hostlet_base::testing::resource_list;
    use hostlet_base::{CgroupDriver, Quantity};
    use hostlet_host::cgroup::CgroupSettings;

    /// A cgroup v2 hierarchy made of plain files.
    fn cgroups(dir: &Path) -> Arc<Cgroups> {
        let (proc, mount) = (dir.join("proc"), dir.join("cgroup"));
        fs::create_dir_all(proc.join("self")).unwrap();
        let line = format!("31 20 0:28 / {} rw - cgroup2 cgroup rw", mount.display());
        fs::write(proc.join("self/mountinfo"), line).unwrap();
        for cgroup in [mount.clone(), mount.join("kubepods")] {
            fs::create_dir_all(&cgroup).unwrap();
            let files = [
                ("cgroup.controllers", "cpuset cpu io memory hugetlb pids"),
                ("cgroup.subtree_control", ""),
                ("cpu.weight", "39"),
                ("memory.max", "max"),
                ("hugetlb.2MB.max", "max"),
                ("pids.max", "max"),
            ];
            for (file, value) in files {
                fs::write(cgroup.join(file), value).unwrap();
            }
        }
        let settings = CgroupSettings {
            driver: CgroupDriver::Cgroupfs,
            root: String::new(),
            mount,
            proc,
            per_qos: true,
            huge_page_sizes: vec![2 << 20],
            pids_limit: None,
            cfs_quota: true,
            cfs_period: Duration::from_millis(100),
        };
        Arc::new(Cgroups::open(settings).unwrap())
    }

    #[test]
    fn a_rejected_limit_is_retried_and_each_result_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let events: NodeEvents = {
            let reported = reported.clone();
            Arc::new(move |event: NodeEvent| reported.lock().push(event.reason))
        };
        let node = watch::Sender::new(OwnNode {
            labels: BTreeMap::new(),
            allocatable: resource_list([("hugepages-2Mi", "0")]),
            unreserved: resource_list([("cpu", "2"), ("memory", "24684096Ki"), ("pid", "32768")]),
        });
        let limit = PodsLimit::new(cgroups(dir.path()), node.subscribe(), events);
        let memory = dir.path().join("cgroup/kubepods/memory.max");
        fs::remove_file(&memory).unwrap();
        fs::create_dir(&memory).unwrap();
        limit.apply();
        limit.apply();
        assert_eq!(*reported.lock(), ["FailedNodeAllocatableEnforcement"]);
        fs::remove_dir(&memory).unwrap();
        fs::write(&memory, "max").unwrap();
        limit.apply();
        limit.apply();
        assert_eq!(*reported.lock(), ["FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced"]);
        assert_eq!(fs::read_to_string(&memory).unwrap(), (24_684_096_u64 << 10).to_string());

        let huge = dir.path().join("cgroup/kubepods/hugetlb.2MB.max");
        assert_eq!(fs::read_to_string(&huge).unwrap(), "0");
        node.send_modify(|node| node.allocatable.set("hugepages-2Mi", Quantity::bytes(8 << 20)));
        limit.apply();
        assert_eq!(fs::read_to_string(&huge).unwrap(), (8 << 20).to_string(), "pages may be added");
        fs::write(&memory, "4096").unwrap();
        limit.apply();
        assert_eq!(fs::read_to_string(&memory).unwrap(), "4096", "an administrator's, while nothing changes");
    }
}
