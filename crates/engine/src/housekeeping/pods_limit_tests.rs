//! The limit of all pods, on cgroups of plain files.

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
