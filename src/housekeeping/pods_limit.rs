//! Applies the limit of all pods together and reports the result as an event of the node. Does not compute the limit.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cgroup::Cgroups;
use crate::node::{NodeEvent, NodeEvents};
use crate::telemetry::Changed;
use crate::types::error_chain;

/// Applies the limit of all pods. The kernel may reject it while they use more, so every housekeeping applies it again.
pub struct PodsLimit {
    cgroups: Arc<Cgroups>,
    events: NodeEvents,
    /// Why the last attempt failed; `None` if it succeeded.
    last: Mutex<Changed<Option<String>>>,
}

impl PodsLimit {
    /// Does not set the limit before the first call of `apply`.
    pub fn new(cgroups: Arc<Cgroups>, events: NodeEvents) -> Self {
        Self { cgroups, events, last: Mutex::default() }
    }

    /// Sets the limit if one is configured, and reports a changed result. Blocking.
    pub fn apply(&self) {
        let failure = match self.cgroups.limit_all_pods() {
            Ok(false) => return,
            Ok(true) => None,
            Err(error) => Some(error_chain(&error).to_string()),
        };
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::cgroup::{AllPods, CgroupSettings};
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
                ("cgroup.controllers", "cpuset cpu io memory pids"),
                ("cgroup.subtree_control", ""),
                ("cpu.weight", "39"),
                ("memory.max", "max"),
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
            all_pods: Some(AllPods { milli_cpu: 1500, memory: 1 << 30, pids: 1000 }),
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
        let limit = PodsLimit::new(cgroups(dir.path()), events);
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
        assert_eq!(fs::read_to_string(&memory).unwrap(), (1_u64 << 30).to_string());
    }
}
