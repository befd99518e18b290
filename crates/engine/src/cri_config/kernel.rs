//! Reads the kernel's features for containers once at start-up. Read-only; anything unreadable counts as absent.

use std::fs;
use std::path::Path;

use hostlet_host::cgroup::huge_page_size;
use hostlet_host::selinux_is_enabled;

/// Kernel features that affect a container's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// Huge page sizes in the hugetlb controller's notation (`2MB`, `1GB`), smallest first.
    pub hugepage_sizes: Vec<String>,
    /// Per-CPU thermal throttling directories, masked in containers as a side channel between tenants.
    pub throttle_paths: Vec<String>,
    /// Whether swap is accounted per cgroup.
    pub swap_controller: bool,
    /// Whether SELinux is enabled.
    pub selinux: bool,
}

impl KernelFacts {
    /// Reads the facts from `/sys` and `/proc`, which are parameters for tests.
    pub fn read(sys: &Path, proc: &Path, cgroup_v2: bool) -> Self {
        Self {
            hugepage_sizes: hugepage_sizes(&names_in(&sys.join("kernel/mm/hugepages"))),
            throttle_paths: throttle_paths(&sys.join("devices/system/cpu")),
            swap_controller: swap_controller(&sys.join("fs/cgroup"), proc, cgroup_v2),
            selinux: selinux_is_enabled(sys),
        }
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Converts `hugepages-2048kB` to `2MB`, the notation of the hugetlb cgroup.
fn hugepage_sizes(dirs: &[String]) -> Vec<String> {
    let kilobytes = |dir: &String| dir.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
    let mut sizes: Vec<u64> = dirs.iter().filter_map(kilobytes).collect();
    sizes.sort_unstable();
    sizes.into_iter().map(|kilobytes| huge_page_size(kilobytes << 10)).collect()
}

fn throttle_paths(cpus: &Path) -> Vec<String> {
    let number = |name: &String| name.strip_prefix("cpu")?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = names_in(cpus).iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter(|cpu| cpus.join(format!("cpu{cpu}/thermal_throttle")).exists())
        .map(|cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle"))
        .collect()
}

/// Checks the cgroup of this process, because the root cgroup has no swap files on v2.
fn swap_controller(cgroups: &Path, proc: &Path, cgroup_v2: bool) -> bool {
    if !cgroup_v2 {
        return cgroups.join("memory/memory.memsw.limit_in_bytes").exists();
    }
    let membership = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let own = membership.lines().find_map(|line| line.strip_prefix("0::/"));
    own.is_some_and(|own| cgroups.join(own).join("memory.swap.max").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_have_the_controllers_notation() {
        let dirs = ["hugepages-1048576kB", "hugepages-2048kB", "hugepages-64kB", "other"].map(String::from);
        assert_eq!(hugepage_sizes(&dirs), ["64KB", "2MB", "1GB"]);
    }

    #[test]
    fn facts_come_from_the_given_roots() {
        let root = tempfile::tempdir().unwrap();
        let (sys, proc) = (root.path().join("sys"), root.path().join("proc"));
        for dir in [
            "sys/kernel/mm/hugepages/hugepages-2048kB",
            "sys/devices/system/cpu/cpu10/thermal_throttle",
            "sys/devices/system/cpu/cpu2/thermal_throttle",
            "sys/devices/system/cpu/cpu3",
            "sys/devices/system/cpu/cpufreq",
            "sys/fs/cgroup/system.slice/hostlet.service",
            "proc/self",
        ] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::write(proc.join("self/cgroup"), "0::/system.slice/hostlet.service\n").unwrap();
        let facts = KernelFacts::read(&sys, &proc, true);
        assert_eq!(facts.hugepage_sizes, ["2MB"]);
        assert_eq!(
            facts.throttle_paths,
            [
                "/sys/devices/system/cpu/cpu2/thermal_throttle",
                "/sys/devices/system/cpu/cpu10/thermal_throttle"
            ]
        );
        assert!(!facts.swap_controller && !facts.selinux);

        fs::write(sys.join("fs/cgroup/system.slice/hostlet.service/memory.swap.max"), "max\n").unwrap();
        assert!(KernelFacts::read(&sys, &proc, true).swap_controller);
        assert!(!KernelFacts::read(&sys, &proc, false).swap_controller);
        assert_eq!(KernelFacts::read(&root.path().join("none"), &proc, true), KernelFacts::default());
    }
}
