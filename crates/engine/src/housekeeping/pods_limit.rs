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
mod tests {
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
            Arc::new(move |event: NodeEvent| reported.lock().push((event.reason, event.message)))
        };
        let node = watch::Sender::new(OwnNode {
            allocatable: resource_list([("hugepages-2Mi", "0")]),
            machine: resource_list([("cpu", "4"), ("memory", "25000000Ki"), ("pid", "40000")]),
            unreserved: resource_list([("cpu", "2"), ("memory", "24684096Ki"), ("pid", "32768")]),
            ..OwnNode::default()
        });
        let limit = PodsLimit {
            cgroups: cgroups(dir.path()),
            is_enforced: true,
            node: node.subscribe(),
            events,
            limits: CgroupLimits::default(),
            state: Mutex::default(),
        };
        let reasons = || reported.lock().iter().map(|(reason, _)| reason.to_string()).collect::<Vec<_>>();
        let memory = dir.path().join("cgroup/kubepods/memory.max");
        fs::remove_file(&memory).unwrap();
        fs::create_dir(&memory).unwrap();
        limit.apply();
        limit.apply();
        assert_eq!(reasons(), ["FailedNodeAllocatableEnforcement"]);
        let message = reported.lock()[0].1.clone();
        assert!(
            message.starts_with("Failed to update Node Allocatable Limits [\"kubepods\"]: cannot"),
            "{message}"
        );
        assert!(limit.limits.borrow()[0].problem.as_ref().is_some_and(|problem| message.ends_with(problem)));
        fs::remove_dir(&memory).unwrap();
        fs::write(&memory, "max").unwrap();
        limit.apply();
        limit.apply();
        assert_eq!(reasons(), ["FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced"]);
        assert_eq!(fs::read_to_string(&memory).unwrap(), (24_684_096_u64 << 10).to_string());
        let [shown] = limit.limits.borrow().clone().try_into().unwrap();
        assert_eq!((shown.of.as_str(), shown.cgroup.as_str(), shown.problem), ("pods", "/kubepods", None));
        assert_eq!(shown.amounts["memory"], "24684096Ki");

        let huge = dir.path().join("cgroup/kubepods/hugetlb.2MB.max");
        assert_eq!(fs::read_to_string(&huge).unwrap(), "0");
        node.send_modify(|node| node.allocatable.set("hugepages-2Mi", Quantity::bytes(8 << 20)));
        limit.apply();
        assert_eq!(fs::read_to_string(&huge).unwrap(), (8 << 20).to_string(), "pages may be added");
        fs::write(&memory, "4096").unwrap();
        limit.apply();
        assert_eq!(fs::read_to_string(&memory).unwrap(), "4096", "an administrator's, while nothing changes");

        // Not enforced, pods have the weight of all cores, and the machine.
        let limit = PodsLimit { is_enforced: false, state: Mutex::default(), ..limit };
        limit.apply();
        let file = |name: &str| fs::read_to_string(dir.path().join("cgroup/kubepods").join(name)).unwrap();
        assert_eq!(["cpu.weight", "memory.max", "pids.max"].map(file), ["157", "25600000000", "40000"]);
    }
}
