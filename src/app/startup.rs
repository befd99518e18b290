//! Start-up checks of the host, and the daemon's own process settings.

use std::path::Path;

use crate::cgroup::{AllPods, CgroupError, CgroupSettings, CgroupVersion, Cgroups};
use crate::config::Config;
use crate::sys::{
    Applied, Host, HostDirs, LockFile, Machine, SysError, raise_open_files, root_check, set_oom_score_adj,
};
use crate::types::CgroupDriver;
use crate::types::error_chain;

/// A requirement that the host does not meet.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    /// An operation on the host failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// Another kubelet holds the lock.
    #[error("another process holds {0}: stop it, or give this one another --lock-file")]
    Locked(String),
    /// The reservations leave pods none of a resource, which for memory or processes would kill all of them.
    #[error(
        "{0}: systemReserved, kubeReserved and reservedSystemCPUs leave nothing for pods or exceed this machine; reserve less"
    )]
    Reserved(&'static str),
    /// Swap is enabled.
    #[error("swap is on, and failSwapOn is true: turn it off (swapoff -a), or set failSwapOn: false")]
    Swap,
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
}

/// Resources acquired at start-up.
pub(super) struct Started {
    /// Held while the daemon runs.
    pub(super) lock: Option<LockFile>,
    /// The machine.
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

/// Opens the cgroup tree and creates its upper levels; `None` with `cgroupsPerQOS: false`. Blocking.
pub(super) fn open_cgroups(
    config: &Config,
    driver: CgroupDriver,
    all_pods: AllPods,
    proc: &Path,
    mount: &Path,
) -> Result<(CgroupVersion, Option<Cgroups>), StartupError> {
    let cgroups = Cgroups::open(CgroupSettings {
        driver,
        root: config.cgroups.root.clone(),
        mount: mount.to_owned(),
        proc: proc.to_owned(),
        per_qos: config.cgroups.per_qos,
        all_pods: config.cgroups.limit_all_pods.then_some(all_pods),
        pids_limit: config.cgroups.pids_limit,
        cfs_quota: config.cgroups.cfs_quota,
        cfs_period: config.cgroups.cfs_period,
    })
    .map_err(StartupError::Cgroups)?;
    let version = cgroups.version();
    match version {
        CgroupVersion::V1 if config.host.fail_cgroup_v1 => return Err(StartupError::CgroupV1),
        CgroupVersion::V1 | CgroupVersion::V2 => {}
    }
    cgroups.ensure_tree().map_err(StartupError::Cgroups)?;
    Ok((version, config.cgroups.per_qos.then_some(cgroups)))
}
