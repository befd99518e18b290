//! Cgroups of the host's own processes: finds the cgroup of a process, and moves processes into one. Sets no limit.

use std::path::{Component, Path};

use nix::errno::Errno;

use super::tree::{ensure_v1, ensure_v2};
use super::{CgroupError, CgroupVersion, Cgroups, files};

impl Cgroups {
    /// Moves these processes into the cgroup at `path` below the mounts, in every hierarchy. The cgroup is created if missing. What a
    /// process started before stays where it is; one that has exited is skipped.
    pub fn place(&self, path: &str, pids: &[u32]) -> Result<(), CgroupError> {
        let names = plain_names(path).ok_or_else(|| CgroupError::BadPath { path: path.to_owned() })?;
        for hierarchy in self.controlling() {
            let mut directory = hierarchy.mount.clone();
            for name in &names {
                let parent = directory.clone();
                directory.push(name);
                match self.version() {
                    CgroupVersion::V1 => ensure_v1(hierarchy, &parent, &directory)?,
                    CgroupVersion::V2 => ensure_v2(&parent, &directory)?,
                }
            }
            let file = directory.join("cgroup.procs");
            for pid in pids {
                match files::write(&file, &pid.to_string()) {
                    Err(CgroupError::Write { source, .. })
                        if source.raw_os_error() == Some(Errno::ESRCH as i32) => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// The processes in the root of the memory hierarchy, which are in no other cgroup, with the kernel's threads.
    pub fn root_processes(&self) -> Result<Vec<u32>, CgroupError> {
        let Some(mount) = self.mount_of("memory") else { return Ok(Vec::new()) };
        let list = files::read(&mount.join("cgroup.procs"))?;
        Ok(list.lines().filter_map(|pid| pid.parse().ok()).collect())
    }
}

/// The cgroup in `/proc/<pid>/cgroup` (cgroups(7)); `None` if it is the root cgroup, or on v1 not the same for CPU and memory.
pub fn own_cgroup(text: &str, version: CgroupVersion) -> Option<String> {
    let of = |controller: &str| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        })
    };
    let path = match version {
        CgroupVersion::V1 => of("cpu").filter(|path| of("memory") == Some(path)),
        CgroupVersion::V2 => of(""),
    };
    path.filter(|path| *path != "/" && !path.contains("..")).map(str::to_owned)
}

/// The names in an absolute path; `None` if it is the root, or has others than plain names.
fn plain_names(path: &str) -> Option<Vec<&str>> {
    let mut components = Path::new(path).components();
    let Some(Component::RootDir) = components.next() else { return None };
    let names: Option<Vec<&str>> = components
        .map(|component| match component {
            Component::Normal(name) => name.to_str(),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect();
    names.filter(|names| !names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_named_by_an_absolute_path() {
        assert_eq!(plain_names("/system"), Some(vec!["system"]));
        assert_eq!(
            plain_names("/runtime.slice/kubelet.service/"),
            Some(vec!["runtime.slice", "kubelet.service"])
        );
        for bad in ["", "/", "system", "/a/../b", ".."] {
            assert_eq!(plain_names(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_own_cgroup_is_one_that_accounts_for_the_daemon_alone() {
        let v2 = |text: &str| own_cgroup(text, CgroupVersion::V2);
        assert_eq!(
            v2("0::/system.slice/hostlet.service\n").as_deref(),
            Some("/system.slice/hostlet.service")
        );
        assert_eq!(v2("0::/\n"), None);
        assert_eq!(v2("0::/../outside\n"), None);
        assert_eq!(v2(""), None);
        let v1 = |text: &str| own_cgroup(text, CgroupVersion::V1);
        let same = "4:memory:/system.slice/a\n3:cpu,cpuacct:/system.slice/a\n0::/b\n";
        assert_eq!(v1(same).as_deref(), Some("/system.slice/a"));
        assert_eq!(v1("4:memory:/system.slice/a\n3:cpu,cpuacct:/\n"), None);
        assert_eq!(v1("0::/b\n"), None);
    }
}
