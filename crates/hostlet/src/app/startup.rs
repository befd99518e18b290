//! Start-up checks of the host, and the daemon's own process settings.

use std::path::Path;

use hostlet_base::CgroupDriver;
use hostlet_base::error_chain;
use hostlet_config::Config;
use hostlet_engine::housekeeping::NotEnforced;
use hostlet_host::cgroup::{CgroupError, CgroupSettings, CgroupVersion, Cgroups};
use hostlet_host::{
    Applied, Host, HostDirs, KernelMounts, LockFile, Machine, Sharing, SysError, Tunable, raise_open_files,
    root_check, set_oom_score_adj, share_dir,
};

use super::numa::NumaError;

/// A requirement that the host does not meet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupError {
    /// An operation on the host failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// Another kubelet holds the lock.
    #[error("another process holds {0}: stop it, or give this one another --lock-file")]
    Locked(String),
    /// The reservations leave pods none of a resource, which for memory or processes would kill all of them.
    #[error(
        "{0}: systemReserved, kubeReserved, reservedSystemCPUs and evictionHard leave nothing for pods or exceed this machine; \
         reserve less"
    )]
    Reserved(String),
    /// A CPU that is reserved by number does not exist.
    #[error(
        "reservedSystemCPUs: this machine has the CPUs {online} online, and not {}; remove these",
        absent.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    ReservedCpus {
        /// The missing ones.
        absent: Vec<u32>,
        /// The kernel's list.
        online: String,
    },
    /// A policy for CPUs, memory or NUMA nodes cannot be used.
    #[error(transparent)]
    Numa(#[from] NumaError),
    /// Swap is enabled.
    #[error("swap is on, and failSwapOn is true: turn it off (swapoff -a), or set failSwapOn: false")]
    Swap,
    /// Kernel settings differ, and may not be changed.
    #[error(
        "protectKernelDefaults is true, and the kernel's settings are not those that a kubelet needs ({differences}): \
         run `sysctl -w {assignments}`, or set protectKernelDefaults: false"
    )]
    KernelSettings {
        /// What differs.
        differences: String,
        /// The arguments of `sysctl -w` that set it.
        assignments: String,
    },
    /// The host uses cgroup v1.
    #[error(
        "this host has cgroup v1, and failCgroupV1 is true: boot with cgroup v2, or set failCgroupV1: false"
    )]
    CgroupV1,
    /// Cgroups are not usable.
    #[error(
        "cgroups cannot be used; fix that, or set cgroupsPerQOS: false and enforceNodeAllocatable: [none]"
    )]
    Cgroups(#[source] CgroupError),
    /// A reservation cannot be enforced.
    #[error(transparent)]
    NotEnforced(#[from] NotEnforced),
}

/// Resources acquired at start-up.
pub(super) struct Started {
    /// Held while the daemon runs.
    pub(super) lock: Option<LockFile>,
    pub(super) machine: Machine,
}

/// Checks the host and prepares this process. `root` is `/`, the base of the host's facts.
pub(super) fn prepare(config: &Config, dirs: &HostDirs, root: &Path) -> Result<Started, StartupError> {
    root_check()?;
    let proc = &root.join("proc");
    let host = Host::new(proc);
    let lock = match &config.lock_file {
        None => None,
        Some(path) => match LockFile::acquire(path)? {
            Some(lock) => Some(lock),
            None => return Err(StartupError::Locked(path.display().to_string())),
        },
    };
    if config.host.fail_swap_on && host.swap_active()? {
        return Err(StartupError::Swap);
    }
    warn_not_permitted("oom_score_adj", set_oom_score_adj(proc, config.host.oom_score_adj));
    warn_not_permitted("the limit of open files", raise_open_files(config.host.max_open_files));
    dirs.create()?;
    Ok(Started { lock, machine: Machine::read(root, &dirs.root)? })
}

/// Changes of the host itself. A first start makes them once it knows that the host is nobody else's.
pub(super) fn adjust_host(config: &Config, dirs: &HostDirs, root: &Path) -> Result<(), StartupError> {
    let proc = &root.join("proc");
    tune_kernel(proc, config.host.protect_kernel_defaults)?;
    if let Err(error) = dirs.label(&root.join("sys")) {
        tracing::warn!(
            error = error_chain(&error),
            "the sockets of drivers that run without privileges may not work"
        );
    }
    share_root_dir(proc, &dirs.root);
    Ok(())
}

/// Sets kernel settings that are not as expected, or, if they are protected, fails and names them. Pods can run without them, so
/// one that cannot be set, as in a container, is only a warning.
fn tune_kernel(proc: &Path, is_protected: bool) -> Result<(), StartupError> {
    let unexpected = Tunable::unexpected(proc);
    if is_protected && !unexpected.is_empty() {
        return Err(StartupError::KernelSettings {
            differences: join(&unexpected, ", ", Tunable::to_string),
            assignments: join(&unexpected, " ", Tunable::assignment),
        });
    }
    for tunable in unexpected {
        match tunable.set(proc) {
            Ok(()) => tracing::info!("the kernel setting {tunable}: hostlet has set it"),
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "the kernel setting {tunable}, and hostlet cannot set it: continuing without it"
                );
            }
        }
    }
    Ok(())
}

fn join(tunables: &[Tunable], separator: &str, text: impl Fn(&Tunable) -> String) -> String {
    tunables.iter().map(text).collect::<Vec<_>>().join(separator)
}

/// Makes the daemon's directory a shared mount, as upstream does. Only volumes with a mountPropagation need that, so a failure is only
/// a warning.
fn share_root_dir(proc: &Path, dir: &Path) {
    let mounts = KernelMounts { mountinfo: proc.join("self/mountinfo") };
    let remedy = "run `mount --make-rshared` with that mount point, and let it be done at each boot, before containerd starts";
    let dir_name = dir.display();
    match share_dir(dir, &mounts) {
        Ok(Sharing::Shared) => {}
        Ok(Sharing::Made { mount }) => tracing::info!(
            "{dir_name} is on the mount {}, which is not shared: hostlet has mounted {dir_name} on itself, as a shared mount. For a \
             mountPropagation of hostPath volumes, {remedy}",
            mount.display()
        ),
        Ok(Sharing::Occupied { mount }) => tracing::warn!(
            "{dir_name} is on the mount {}, which is not shared, and volumes are mounted in it, so that it cannot be shared now: containers \
             whose volumes have a mountPropagation do not start; {remedy}",
            mount.display()
        ),
        Err(error) => tracing::warn!(
            error = error_chain(&error),
            "{dir_name} is not a shared mount: containers whose volumes have mountPropagation do not start"
        ),
    }
}

/// Pods can run without these limits, so a failure is only a warning.
fn warn_not_permitted(what: &str, applied: Result<Applied, SysError>) {
    match applied {
        Ok(Applied::Done) => {}
        Ok(Applied::NotPermitted) => {
            tracing::warn!(
                "cannot set {what} of this process: CAP_SYS_RESOURCE is missing; continuing without it"
            );
        }
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "cannot set {what} of this process; continuing without it"
            )
        }
    }
}

/// Opens the cgroup tree, without changing it. Blocking.
pub(super) fn open_cgroups(
    config: &Config,
    driver: CgroupDriver,
    huge_page_sizes: Vec<u64>,
    proc: &Path,
    mount: &Path,
) -> Result<Cgroups, StartupError> {
    let cgroups = Cgroups::open(CgroupSettings {
        driver,
        root: config.cgroups.root.clone(),
        mount: mount.to_owned(),
        proc: proc.to_owned(),
        per_qos: config.cgroups.per_qos,
        huge_page_sizes,
        pids_limit: config.cgroups.pids_limit,
        cfs_quota: config.cgroups.cfs_quota,
        cfs_period: config.cgroups.cfs_period,
    })
    .map_err(StartupError::Cgroups)?;
    match cgroups.version() {
        CgroupVersion::V1 if config.host.fail_cgroup_v1 => return Err(StartupError::CgroupV1),
        CgroupVersion::V1 | CgroupVersion::V2 => {}
    }
    Ok(cgroups)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn protected_kernel_settings_stay_and_all_that_differ_are_named() {
        let proc = tempfile::tempdir().unwrap();
        let path = proc.path().join("sys/vm/overcommit_memory");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "2\n").unwrap();
        let error = tune_kernel(proc.path(), true).unwrap_err().to_string();
        assert!(
            error.contains("vm.overcommit_memory is 2, not 1, vm.panic_on_oom cannot be read"),
            "{error}"
        );
        assert!(
            error.contains("`sysctl -w vm.overcommit_memory=1 vm.panic_on_oom=0 kernel.panic=10 "),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
        // The others cannot be written here, which is no failure.
        tune_kernel(proc.path(), false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    }
}
