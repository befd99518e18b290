//! Limits all pods together to what the machine has unreserved, and reports the result as an event of the node.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cgroup::{AllPods, Cgroups};
use crate::node::{NodeEvent, NodeEvents, OwnNode, OwnNodeWatch};
use crate::pod::resources::huge_pages;
use crate::telemetry::Changed;
use crate::types::error_chain;
use crate::types::resources::{CPU, MEMORY, PID};

/// Applies the limit of all pods. The kernel may reject it while they use more, so housekeeping tries again. An accepted one is set
/// again only when it changes: what an administrator writes there in between is left alone, as upstream.
pub struct PodsLimit {
    cgroups: Arc<Cgroups>,
    /// The node, whose huge pages and memory may change.
    node: Mutex<OwnNodeWatch>,
    events: NodeEvents,
    /// The last one that was accepted.
    accepted: Mutex<Option<AllPods>>,
    /// Why the last attempt failed; `None` if it succeeded.
    last: Mutex<Changed<Option<String>>>,
}

impl PodsLimit {
    /// Does not set the limit before the first call of `apply`.
    pub fn new(cgroups: Arc<Cgroups>, node: OwnNodeWatch, events: NodeEvents) -> Self {
        Self { cgroups, node: Mutex::new(node), events, accepted: Mutex::default(), last: Mutex::default() }
    }

    /// Sets the limit, and reports a changed result. Blocking.
    pub fn apply(&self) {
        let all = all_pods(&self.node.lock().now());
        if self.accepted.lock().as_ref() == Some(&all) {
            return;
        }
        let failure = self.cgroups.limit_all_pods(&all).err().map(|error| error_chain(&error));
        *self.accepted.lock() = failure.is_none().then_some(all);
        let is_news = self.last.lock().see(failure.clone());
        match failure {
            _ if !is_news => {}
            None => (self.events)(NodeEvent::allocatable_enforced()),
            Some(error) => {
                tracing::warn!(
                    error,
                    "cannot limit the resources of all pods together; housekeeping tries again"
                );
                (self.events)(NodeEvent::allocatable_not_enforced(&error));
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::cgroup::CgroupSettings;
    use crate::node::testing;
    use crate::types::CgroupDriver;

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
        let machine = watch::Sender::new(testing::facts().host.machine);
        let node = OwnNodeWatch::new(Arc::new(testing::settings()), machine.subscribe());
        let limit = PodsLimit::new(cgroups(dir.path()), node, events);
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
        machine.send_modify(|machine| machine.huge_pages = [(2 << 20, 8 << 20)].into());
        limit.apply();
        assert_eq!(fs::read_to_string(&huge).unwrap(), (8 << 20).to_string(), "pages may be added");
        fs::write(&memory, "4096").unwrap();
        limit.apply();
        assert_eq!(fs::read_to_string(&memory).unwrap(), "4096", "an administrator's, while nothing changes");
    }
}
