//! What can go wrong with cgroups, named by the step that failed. Holds no logic.

use std::io;
use std::path::PathBuf;

use super::CgroupVersion;

/// A cgroup operation failed. I/O variants name the path and what was tried.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The list of mounts could not be read.
    #[error("cannot read mounts from {}", path.display())]
    ReadMounts {
        /// The mountinfo file.
        path: PathBuf,
        /// Why.
        source: Box<procfs::ProcError>,
    },
    /// No cgroup filesystem is mounted.
    #[error("no cgroup filesystem is mounted at or below {}: mount cgroup2 there", mount.display())]
    NotMounted {
        /// Where one was looked for.
        mount: PathBuf,
    },
    /// The kernel, or the cgroup this host runs in, offers too little.
    #[error(
        "cgroup {version} at {} has no {} controller: enable it on the kernel command line \
         (cgroup_enable=...), or in cgroup.subtree_control of the parent when this host is itself a container",
        mount.display(), missing.join(", ")
    )]
    MissingControllers {
        /// The version in use.
        version: CgroupVersion,
        /// Where they were looked for.
        mount: PathBuf,
        /// The controllers needed and not there.
        missing: Vec<&'static str>,
    },
    /// The hierarchy is there and read-only.
    #[error(
        "cgroup hierarchy {} is not writable: run as root on the host, with cgroupfs mounted read-write \
         (in a container: privileged, with its own cgroup namespace), or set cgroupsPerQOS: false",
        path.display()
    )]
    NotWritable {
        /// The hierarchy.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `cgroupRoot` is no path of plain components.
    #[error("cgroupRoot {root:?} is not a path of plain names")]
    BadRoot {
        /// What was configured.
        root: String,
    },
    /// A pod's UID cannot be part of a cgroup's name.
    #[error("pod UID {uid:?} cannot name a cgroup: only letters, digits, '-' and '.' can")]
    BadUid {
        /// The UID.
        uid: String,
    },
    /// The systemd driver on a host that systemd does not run.
    #[error(
        "cgroup driver systemd needs systemd as init, and {} does not exist: use cgroupDriver cgroupfs, here and in \
         the container runtime (SystemdCgroup = false)",
        marker.display()
    )]
    NoSystemd {
        /// The directory that exists when systemd is init, see sd_booted(3).
        marker: PathBuf,
    },
    /// systemd did not do what was asked over D-Bus.
    #[error("systemd: cannot {operation} {unit}")]
    Systemd {
        /// What was asked.
        operation: &'static str,
        /// Of which unit.
        unit: String,
        /// Why.
        source: Box<zbus::Error>,
    },
    /// systemd accepted a request and did not finish it.
    #[error("systemd: {unit} is still {state} after {waited_seconds} s, should be {wanted}")]
    UnitState {
        /// The slice.
        unit: String,
        /// Its state.
        state: String,
        /// The state asked for.
        wanted: &'static str,
        /// How long was waited.
        waited_seconds: u64,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A setting could not be set.
    #[error("cannot write {value:?} to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A cgroup could not be made.
    #[error("cannot create cgroup {}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A cgroup's children could not be listed.
    #[error("cannot list cgroup {}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A cgroup could not be removed; with `EBUSY` a process is still leaving it, and trying again later helps.
    #[error("cannot remove cgroup {}", path.display())]
    Remove {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process of a pod could not be killed.
    #[error("cannot kill process {pid} of cgroup {}", path.display())]
    Kill {
        /// The process.
        pid: i32,
        /// The cgroup it is in.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Processes outlived SIGKILL, in uninterruptible sleep most likely.
    #[error("cgroup {} still has processes after SIGKILL: {pids:?}", path.display())]
    StillPopulated {
        /// The cgroup.
        path: PathBuf,
        /// The processes.
        pids: Vec<i32>,
    },
    /// v2: the parents did not pass on the controllers a pod needs.
    #[error("cgroup {} did not get the {} controller from its parents", path.display(), missing.join(", "))]
    NotDelegated {
        /// The cgroup.
        path: PathBuf,
        /// The controllers it lacks.
        missing: Vec<&'static str>,
    },
}
