//! Cgroups of plain files: they show which paths are read and written, not how a kernel behaves.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hostlet_base::CgroupDriver;

use super::CgroupSettings;

pub(super) fn settings(root: &str, mount: &Path, proc: &Path) -> CgroupSettings {
    CgroupSettings {
        driver: CgroupDriver::Cgroupfs,
        root: root.into(),
        mount: mount.into(),
        proc: proc.into(),
        per_qos: true,
        huge_page_sizes: vec![2 << 20],
        pids_limit: Some(50),
        cfs_quota: true,
        cfs_period: Duration::from_millis(100),
    }
}

/// A directory with a `proc/self/mountinfo` of these lines, in which `@` stands for the directory.
pub(super) fn host(lines: &[&str]) -> (tempfile::TempDir, CgroupSettings) {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc");
    fs::create_dir_all(proc.join("self")).unwrap();
    fs::create_dir_all(dir.path().join("cgroup")).unwrap();
    let text = lines.join("\n").replace('@', dir.path().to_str().unwrap());
    fs::write(proc.join("self/mountinfo"), text).unwrap();
    let settings = settings("", &dir.path().join("cgroup"), &proc);
    (dir, settings)
}

pub(super) fn v2_host(controllers: &str) -> (tempfile::TempDir, CgroupSettings) {
    let (dir, settings) = host(&["31 20 0:28 / @/cgroup rw,nosuid - cgroup2 cgroup rw,nsdelegate"]);
    v2_cgroup(&settings.mount, controllers);
    (dir, settings)
}

/// The files of a new cgroup on a v2 kernel.
pub(super) fn v2_cgroup(path: &Path, controllers: &str) {
    fs::create_dir_all(path).unwrap();
    let controller_settings = [
        ("cpu.weight", "39"),
        ("cpu.max", "max 100000"),
        ("cpuset.cpus", ""),
        ("memory.max", "max"),
        ("memory.min", "0"),
        ("memory.low", "0"),
        ("memory.current", "4194304"),
        ("hugetlb.2MB.max", "max"),
        ("pids.max", "max"),
    ];
    for (file, value) in controller_settings
        .into_iter()
        .chain([("cgroup.controllers", controllers), ("cgroup.subtree_control", "")])
    {
        fs::write(path.join(file), format!("{value}\n")).unwrap();
    }
}
