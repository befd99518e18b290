//! The facts of a host that the checks are about. Values only.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;

use hostlet_base::{CgroupDriver, PodRef, PodUid};
use hostlet_config::Config;
use hostlet_engine::ownership::{History, OtherKubelet, Remains, Unrunnable};
use hostlet_runtime::cri::{RuntimeStatus, Version};

/// Why a fact could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unseen(pub String);

/// A fact, or why it could not be seen.
pub(super) type Seen<T> = Result<T, Unseen>;

/// Everything that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Whether this is root: the daemon has to be.
    pub is_root: bool,
    /// The present time.
    pub now: Timestamp,
    pub configuration: Configuration,
    /// The settings that the other facts are about: the configured ones, or the defaults if the configuration is invalid.
    pub config: Config,
    /// The machine and its kernel.
    pub machine: MachineFacts,
    /// The control groups.
    pub cgroups: CgroupFacts,
    /// The container runtime.
    pub runtime: RuntimeFacts,
    /// The pod network.
    pub network: NetworkFacts,
    /// Who listens on the daemon's ports, by port; a missing port is free.
    pub ports: Seen<BTreeMap<u16, String>>,
    /// The credentials for the API server; `None` on a standalone host.
    pub credentials: Option<Seen<CredentialFacts>>,
    /// The key of stored objects, if it is in a file.
    pub objects_key: Option<ObjectsKeyFacts>,
    /// Other kubelets and their pods.
    pub ownership: OwnershipFacts,
}

impl Facts {
    /// The ports on which the daemon listens: health checks, and the API.
    pub(super) fn wanted_ports(&self) -> Vec<u16> {
        wanted_ports(&self.config)
    }
}

/// The ports of a configuration.
pub(super) fn wanted_ports(config: &Config) -> Vec<u16> {
    let addresses = [config.healthz, config.node_api.listen, config.node_api.read_only];
    addresses.into_iter().flatten().map(|address| address.port()).collect()
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// The file, if one is used.
    pub file: Option<PathBuf>,
    /// Its errors; empty if it is valid.
    pub errors: Vec<String>,
    /// Its settings without effect.
    pub warnings: Vec<String>,
    /// The manifests' directory or file, if it does not exist.
    pub missing_manifests: Option<PathBuf>,
}

/// The machine and its kernel.
#[derive(Clone, Debug)]
pub(crate) struct MachineFacts {
    /// The kernel's release.
    pub kernel: Seen<String>,
    /// Filesystems of the kernel (`/proc/filesystems`).
    pub filesystems: Seen<BTreeSet<String>>,
    /// Swap devices and files in use.
    pub swap: Seen<Vec<String>>,
    /// A time that certainly has passed: when this program was installed.
    pub not_before: Option<Timestamp>,
    /// Whether the kernel's clock is synchronized.
    pub is_synchronized: Option<bool>,
    /// Directories on which pods need space, with their filesystems.
    pub disks: Vec<(PathBuf, Seen<DiskFacts>)>,
    /// The mount of `/`, if it is not shared.
    pub unshared_mount: Seen<Option<PathBuf>>,
    /// `fs.inotify.max_user_instances`.
    pub inotify_instances: Seen<u64>,
    /// `fs.inotify.max_user_watches`.
    pub inotify_watches: Seen<u64>,
}

/// A filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskFacts {
    /// Size in bytes.
    pub size: u64,
    /// Free bytes.
    pub free: u64,
    /// Inodes; 0 if it does not limit them.
    pub inodes: u64,
    pub inodes_free: u64,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
}

/// The control groups.
#[derive(Clone, Debug)]
pub(crate) struct CgroupFacts {
    /// Whether the unified hierarchy (v2) is mounted, and its controllers; for v1, the enabled ones.
    pub hierarchy: Seen<(CgroupHierarchy, BTreeSet<String>)>,
    /// Whether systemd runs this host.
    pub has_systemd: bool,
    /// The cgroups of the reservations that are enforced.
    pub reserved: Vec<ReservedCgroup>,
}

/// The cgroup of an enforced reservation.
#[derive(Clone, Debug)]
pub(crate) struct ReservedCgroup {
    /// Its value in `enforceNodeAllocatable`.
    pub word: &'static str,
    /// The cgroup as configured.
    pub cgroup: String,
    /// Whether it exists, or why not.
    pub exists: Seen<()>,
}

/// The version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupHierarchy {
    /// Version 1 or hybrid.
    V1,
    /// Version 2.
    V2,
}

/// The container runtime.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeFacts {
    /// The response on its socket.
    pub answer: RuntimeAnswer,
    /// containerd's configuration file, if there is one: whether it disables the CRI.
    pub containerd_file: Option<(PathBuf, Seen<DisabledCri>)>,
    /// Whether containerd is installed.
    pub has_containerd: bool,
}

/// Whether a containerd configuration disables the CRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisabledCri {
    /// It does, as that of Docker's packages.
    Yes,
    /// It does not.
    No,
}

/// The response on the runtime's socket.
#[derive(Clone, Debug)]
pub(crate) enum RuntimeAnswer {
    /// There is no socket.
    NoSocket,
    /// This user may not open it.
    NotPermitted,
    /// Nobody answers.
    Silent(String),
    /// Somebody answers, but does not implement the CRI.
    NoCri,
    Cri(Box<RuntimeSettings>),
}

/// What a runtime reports of itself.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeSettings {
    /// Name and version.
    pub version: Version,
    /// Readiness.
    pub status: RuntimeStatus,
    /// Its cgroup driver, if it reports one, or else the one in its own settings.
    pub driver: Option<CgroupDriver>,
    /// Its snapshotter, if it says.
    pub snapshotter: Option<String>,
    /// The image of sandboxes, and whether the runtime has it.
    pub pause_image: Option<(String, bool)>,
}

/// The pod network's configuration, as the runtime reads it.
#[derive(Clone, Debug)]
pub(crate) struct NetworkFacts {
    /// The directory of configurations.
    pub conf_dir: PathBuf,
    /// The directories of plugins.
    pub bin_dirs: Vec<PathBuf>,
    /// The configurations, by name, with the plugins that each uses, or what is wrong with it.
    pub configurations: Seen<Vec<(PathBuf, Seen<Vec<String>>)>>,
    /// The plugins in them.
    pub plugins: Seen<BTreeSet<String>>,
    /// A directory where a distribution installs plugins, with those in it, if the runtime does not look there.
    pub elsewhere: Option<(PathBuf, BTreeSet<String>)>,
    /// The subnets of this host's routes, as address and prefix length.
    pub routes: Vec<(u32, u8)>,
}

impl NetworkFacts {
    /// The plugins of which a host needs at least these for a network of its own.
    pub(crate) const BRIDGE: [&str; 3] = ["bridge", "host-local", "loopback"];

    /// The plugins among `wanted` that the runtime does not find; `None` if the installed plugins are unknown.
    pub(crate) fn missing<'a>(&self, wanted: impl IntoIterator<Item = &'a str>) -> Option<Vec<&'a str>> {
        let installed = self.plugins.as_ref().ok()?;
        Some(wanted.into_iter().filter(|name| !installed.contains(*name)).collect())
    }

    /// Whether all of the given plugins are installed where the runtime does not look.
    pub(crate) fn are_elsewhere(&self, wanted: &[&str]) -> bool {
        self.elsewhere.as_ref().is_some_and(|(_, names)| wanted.iter().all(|name| names.contains(*name)))
    }
}

/// The credentials for the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CredentialFacts {
    /// The kubeconfig.
    pub file: PathBuf,
    /// Files in use that others can read.
    pub exposed: Vec<PathBuf>,
    /// The certificates in it, by what they are.
    pub certificates: Vec<(String, Seen<CertificateFacts>)>,
}

/// The key of stored ConfigMaps, Secrets and tokens in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectsKeyFacts {
    /// The file.
    pub file: PathBuf,
    /// Whether the host has a TPM that can protect a key.
    pub has_tpm: bool,
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// When it becomes valid.
    pub from: Timestamp,
    /// When it expires.
    pub until: Timestamp,
}

/// Other kubelets and their pods.
#[derive(Clone, Debug)]
pub(crate) struct OwnershipFacts {
    /// Whether hostlet ran pods on this runtime before.
    pub history: History,
    /// The pods that hostlet recorded.
    pub recorded: HashSet<PodUid>,
    /// Kubelets that run.
    pub kubelets: Seen<Vec<OtherKubelet>>,
    /// What pods that hostlet did not record have on this host.
    pub remains: Seen<BTreeMap<PodUid, Remains>>,
    /// The running pods that hostlet cannot take over; only before a first start.
    pub unrunnable: Seen<Vec<Unrunnable>>,
    /// The runtime's pods; `None` if it does not answer.
    pub pods: Option<BTreeSet<PodRef>>,
    /// Files of a stock kubelet.
    pub leftovers: Vec<PathBuf>,
    /// Whether the service `kubelet` of another kubelet is enabled.
    pub is_kubelet_enabled: bool,
}
