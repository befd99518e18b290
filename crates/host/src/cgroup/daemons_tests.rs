//! Limits of daemons on cgroups of plain files.

use std::fs;

use super::super::testing::{host, v2_cgroup, v2_host};
use super::*;

const RESERVED: DaemonResources = DaemonResources {
    milli_cpu: Some(100),
    memory: Some(100 << 20),
    is_memory_protected: true,
    pids: Some(738),
    has_no_huge_pages: true,
};

#[test]
fn daemons_get_what_is_reserved_for_them_and_nothing_else() {
    let all = "cpuset cpu io memory hugetlb pids";
    let (_dir, settings) = v2_host(all);
    let reserved = settings.mount.join("kube-reserved");
    v2_cgroup(&reserved, all);
    let cgroups = Cgroups::open(settings).unwrap();
    cgroups.limit_daemons("/kube-reserved", &RESERVED).unwrap();
    let read = |file: &str| fs::read_to_string(reserved.join(file)).unwrap();
    let files = ["cpu.weight", "memory.max", "memory.min", "pids.max", "hugetlb.2MB.max"];
    assert_eq!(files.map(read), ["4", "104857600", "104857600", "738", "0"]);
    let untouched = ["cpu.max", "cpuset.cpus", "memory.low", "cgroup.subtree_control"];
    assert_eq!(untouched.map(read), ["max 100000\n", "\n", "0\n", "\n"]);
}

#[test]
fn compressible_is_the_weight_alone_and_needs_no_other_controller() {
    let (_dir, settings) = v2_host("cpuset cpu memory pids");
    let reserved = settings.mount.join("system");
    v2_cgroup(&reserved, "cpu");
    let cgroups = Cgroups::open(settings).unwrap();
    let compressible = DaemonResources { milli_cpu: Some(1000), ..DaemonResources::default() };
    cgroups.limit_daemons("system", &compressible).unwrap();
    let read = |file: &str| fs::read_to_string(reserved.join(file)).unwrap();
    assert_eq!(["cpu.weight", "memory.max", "hugetlb.2MB.max"].map(read), ["39\n", "max\n", "max\n"]);
    let error = cgroups.limit_daemons("system", &RESERVED).unwrap_err();
    assert!(matches!(&error, CgroupError::NotDelegated { missing, .. } if *missing == ["memory"]), "{error}");
    assert_eq!(read("cpu.weight"), "39\n", "all or nothing");
}

#[test]
fn a_reservation_of_nothing_limits_nothing() {
    let (_dir, settings) = v2_host("cpuset cpu memory pids");
    let reserved = settings.mount.join("system");
    v2_cgroup(&reserved, "");
    let cgroups = Cgroups::open(settings).unwrap();
    let none = DaemonResources { memory: Some(0), pids: Some(0), ..RESERVED };
    cgroups.limit_daemons("system", &DaemonResources { milli_cpu: None, ..none }).unwrap();
    let read = |file: &str| fs::read_to_string(reserved.join(file)).unwrap();
    assert_eq!(["memory.max", "memory.min", "pids.max"].map(read), ["max\n", "0\n", "max\n"]);
}

#[test]
fn a_cgroup_of_daemons_is_never_created() {
    let (_dir, settings) = v2_host("cpuset cpu memory pids");
    let mount = settings.mount.clone();
    let cgroups = Cgroups::open(settings).unwrap();
    let error = cgroups.limit_daemons("/system", &RESERVED).unwrap_err();
    assert!(error.to_string().contains(&format!("there is no directory {}", mount.join("system").display())));
    assert!(cgroups.require_daemons("/system").is_err() && !mount.join("system").exists());
    fs::create_dir(mount.join("system")).unwrap();
    cgroups.require_daemons("/system").unwrap();
}

#[test]
fn on_v1_each_hierarchy_with_a_limit_has_the_cgroup() {
    let controllers = ["cpu", "cpuacct", "cpuset", "memory", "pids"];
    let line =
        |(number, name)| format!("3{number} 31 0:{number} / @/cgroup/{name} rw - cgroup cgroup rw,{name}");
    let lines: Vec<String> = controllers.iter().enumerate().map(line).collect();
    let (dir, settings) = host(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for name in controllers {
        fs::create_dir_all(settings.mount.join(name)).unwrap();
    }
    let at = |file: &str| dir.path().join("cgroup").join(file);
    for (directory, file, value) in [
        ("cpu/system", "cpu.shares", "1024"),
        ("memory/system", "memory.limit_in_bytes", "9223372036854771712"),
    ] {
        fs::create_dir_all(at(directory)).unwrap();
        fs::write(at(directory).join(file), value).unwrap();
    }
    let cgroups = Cgroups::open(settings).unwrap();
    let without_pids = DaemonResources { pids: None, ..RESERVED };
    cgroups.limit_daemons("/system", &without_pids).unwrap();
    let read = |file: &str| fs::read_to_string(at(file)).unwrap();
    assert_eq!(read("cpu/system/cpu.shares"), "102");
    assert_eq!(read("memory/system/memory.limit_in_bytes"), "104857600");
    let error = cgroups.limit_daemons("/system", &RESERVED).unwrap_err();
    assert!(
        matches!(&error, CgroupError::NoSuchCgroup { path, .. } if *path == at("pids/system")),
        "{error}"
    );
}
