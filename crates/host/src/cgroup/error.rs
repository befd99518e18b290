//! Errors of cgroup operations, named by the failed step. No logic.

use std::io;
use std::path::PathBuf;

use super::CgroupVersion;

/// A failed cgroup operation. I/O variants have the path and the operation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CgroupError {
    /// The list of mounts could not be read.
    #[error("cannot read mounts from {}", path.display())]
    ReadMounts {
        /// The mountinfo file.
        path: PathBuf,
        source: Box<procfs::ProcError>,
    },
    /// No cgroup filesystem is mounted.
    #[error("no cgroup filesystem is mounted at or below {}: mount cgroup2 there", mount.display())]
    NotMounted {
        /// The searched mounts.
        mount: PathBuf,
    },
    /// The kernel, or the cgroup this host runs in, lacks controllers.
    #[error(
        "cgroup {version} at {} has no {} controller: enable it on the kernel command line \
         (cgroup_enable=...), or in cgroup.subtree_control of the parent when this host is itself a container",
        mount.display(), missing.join(", ")
    )]
    MissingControllers {
        /// The version in use.
        version: CgroupVersion,
        /// The searched directory.
        mount: PathBuf,
        /// The missing controllers.
        missing: Vec<&'static str>,
    },
    /// The hierarchy is read-only.
    #[error(
        "cgroup hierarchy {} is not writable: run as root on the host, with cgroupfs mounted read-write \
         (in a container: privileged, with its own cgroup namespace), or set cgroupsPerQOS: false",
        path.display()
    )]
    NotWritable { path: PathBuf, source: io::Error },
    /// `cgroupRoot` is not a path of plain components.
    #[error("cgroupRoot {root:?} is not a path of plain names")]
    BadRoot {
        /// The configured path.
        root: String,
    },
    /// A configured cgroup is not an absolute path of plain components.
    #[error("cgroup {path:?} is not an absolute path of plain names below the root")]
    BadPath {
        /// The configured path.
        path: String,
    },
    /// A cgroup of the host's daemons does not exist.
    #[error(
        "the cgroup {cgroup} does not exist: there is no directory {}; create it before hostlet starts, with systemd as a slice in \
         which the daemons' services are (Slice=), or correct the name",
        path.display()
    )]
    NoSuchCgroup {
        /// The configured name.
        cgroup: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// With the systemd driver only slices have a place for limits.
    #[error(
        "the cgroup {cgroup} is not a slice: with the cgroup driver systemd, name the slice in which the daemons' services are \
         (Slice=), such as /system.slice"
    )]
    NotASlice {
        /// The configured name.
        cgroup: String,
    },
    /// A pod's UID is not valid in a cgroup's name.
    #[error("pod UID {uid:?} cannot name a cgroup: only letters, digits, '-' and '.' can")]
    BadUid { uid: String },
    /// The systemd driver on a host without systemd.
    #[error(
        "cgroup driver systemd needs systemd as init, and {} does not exist: use cgroupDriver cgroupfs, here and in \
         the container runtime (SystemdCgroup = false)",
        marker.display()
    )]
    NoSystemd {
        /// The directory that exists when systemd is init, see sd_booted(3).
        marker: PathBuf,
    },
    /// A request to systemd failed.
    #[error("systemd: cannot {operation} {unit}")]
    Systemd { operation: &'static str, unit: String, source: Box<zbus::Error> },
    /// systemd accepted a request but did not finish it.
    #[error("systemd: {unit} is still {state} after {waited_seconds} s, should be {expected}")]
    UnitState {
        unit: String,
        state: String,
        /// The requested state.
        expected: &'static str,
        /// The time waited.
        waited_seconds: u64,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A setting could not be written.
    #[error("cannot write {value:?} to {}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    /// A cgroup could not be created.
    #[error("cannot create cgroup {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    /// A cgroup's children could not be listed.
    #[error("cannot list cgroup {}", path.display())]
    List { path: PathBuf, source: io::Error },
    /// A cgroup could not be removed; with `EBUSY` a process is still exiting, and a later retry succeeds.
    #[error("cannot remove cgroup {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    /// A process of a pod could not be killed.
    #[error("cannot kill process {pid} of cgroup {}", path.display())]
    Kill { pid: i32, path: PathBuf, source: io::Error },
    /// Processes survived SIGKILL, most likely in uninterruptible sleep.
    #[error("cgroup {} still has processes after SIGKILL: {pids:?}", path.display())]
    StillPopulated { path: PathBuf, pids: Vec<i32> },
    /// v2: the parents do not delegate the controllers that a pod needs.
    #[error(
        "cgroup {} did not get the {} controller from its parents: enable it in the cgroup.subtree_control of each of them",
        path.display(), missing.join(", ")
    )]
    NotDelegated {
        path: PathBuf,
        /// The missing controllers of the cgroup.
        missing: Vec<&'static str>,
    },
}
