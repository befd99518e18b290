//! The cgroup tree of this node and its operations. The kernel's tree is the only state. Every method blocks on file or D-Bus
//! calls: async tasks must use `spawn_blocking`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hostlet_base::{CgroupDriver, MemoryProtection, PodUid, QosClass};
use hostlet_telemetry::Metrics;

use super::controllers::{self, ControllerSetting};
use super::hierarchy::{self, Hierarchy, Role};
use super::metrics::{CgroupMetrics, Operation};
use super::names::{CgroupName, Layout};
use super::shares::MIN_SHARES;
use super::systemd::{self, Slices};
use super::{AllPods, CgroupError, CgroupSettings, CgroupVersion, ClassResources, PodResources, files, kill};

const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];

/// The QoS cgroup tree of this node. Operations on different pods may run concurrently.
#[derive(Debug)]
pub struct Cgroups {
    pub(super) settings: CgroupSettings,
    version: CgroupVersion,
    hierarchies: Vec<Hierarchy>,
    pub(super) layout: Layout,
    pub(super) metrics: CgroupMetrics,
}

impl Cgroups {
    /// Detects the hierarchies of this host. Unless `per_qos` is off, fails if they are not writable, a required controller is
    /// missing, or the driver is systemd and systemd is not init.
    pub fn open(settings: CgroupSettings) -> Result<Self, CgroupError> {
        Self::open_booted(settings, Path::new(systemd::BOOTED_MARKER))
    }

    /// Like [`open`](Self::open); systemd is init if the directory `marker` exists.
    pub(super) fn open_booted(settings: CgroupSettings, marker: &Path) -> Result<Self, CgroupError> {
        let (version, hierarchies) = hierarchy::detect(&settings)?;
        let layout = Layout::new(settings.driver, &settings.root)?;
        if settings.per_qos {
            hierarchy::check(version, &hierarchies, &settings)?;
            if settings.driver == CgroupDriver::Systemd {
                systemd::require_booted(marker)?;
            }
        }
        Ok(Self { settings, version, hierarchies, layout, metrics: CgroupMetrics::default() })
    }

    /// Adds its metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.metrics.register(metrics);
    }

    /// Which version of cgroups this host uses.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Creates missing cgroups of `kubepods` and of the burstable and best-effort classes, with the required controllers.
    /// Best-effort gets the minimum CPU weight.
    pub fn ensure_tree(&self) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        for qos in CLASSES {
            self.ensure(&self.layout.qos(qos))?;
        }
        self.apply(&self.layout.qos(QosClass::BestEffort), &[ControllerSetting::CpuShares(MIN_SHARES)])
    }

    /// Limits all pods together. The tree must exist. The kernel may reject the limit while pods use more: call again later.
    pub fn limit_all_pods(&self, all: &AllPods) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        let name = self.all_pods();
        self.apply(&name, &controllers::of_all_pods(all, &self.settings))?;
        self.allow_cpus(&name, &all.cpus)
    }

    /// The cgroup of all pods as upstream prints it in messages, e.g. `["kubepods"]`.
    pub fn all_pods_printed(&self) -> String {
        self.all_pods().printed()
    }

    /// The cgroup of all pods. Guaranteed pods have no class cgroup: it is their parent.
    pub(super) fn all_pods(&self) -> CgroupName {
        self.layout.qos(QosClass::Guaranteed)
    }

    /// The CRI's `cgroup_parent` of a pod: the path of its cgroup below the mount. Empty if pods get no cgroups.
    pub fn parent(&self, uid: &PodUid, qos: QosClass) -> Result<String, CgroupError> {
        if !self.settings.per_qos {
            return Ok(String::new());
        }
        Ok(self.layout.pod(uid, qos)?.path(self.settings.driver))
    }

    /// Whether the pod has its cgroup in every hierarchy; always true if pods get no cgroups.
    #[cfg(test)]
    pub(crate) fn pod_exists(&self, uid: &PodUid, qos: QosClass) -> Result<bool, CgroupError> {
        Ok(!self.settings.per_qos || self.exists(&self.layout.pod(uid, qos)?))
    }

    /// Creates the pod's cgroup if missing and applies `resources`. The tree must exist.
    pub fn ensure_pod(
        &self,
        uid: &PodUid,
        qos: QosClass,
        resources: &PodResources,
    ) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        let name = self.layout.pod(uid, qos)?;
        let operation = if self.exists(&name) { Operation::Update } else { Operation::Create };
        self.metrics.timed(operation, || {
            self.ensure(&name)?;
            self.apply(&name, &controllers::of_pod(resources, &self.settings))
        })
    }

    /// The memory that the pod uses, bytes; `None` if pods get no cgroups.
    pub fn pod_memory(&self, uid: &PodUid, qos: QosClass) -> Result<Option<u64>, CgroupError> {
        if !self.settings.per_qos {
            return Ok(None);
        }
        self.memory_of(&self.layout.pod(uid, qos)?)
    }

    /// The memory that a cgroup uses, bytes.
    fn memory_of(&self, name: &CgroupName) -> Result<Option<u64>, CgroupError> {
        let memory = self.controlling().find(|hierarchy| hierarchy.controls("memory"));
        let Some(memory) = memory else { return Ok(None) };
        let file = match self.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        Ok(files::read(&self.directory(memory, name).join(file))?.parse().ok())
    }

    /// Protects the memory of all pods, because protection counts only below a protected parent.
    pub fn protect_all_pods(&self, memory: MemoryProtection) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        self.apply(&self.all_pods(), &controllers::protection(memory))
    }

    /// Gives the class cgroups what their pods have: the burstable class their CPU weight relative to guaranteed pods, and their
    /// protected memory; both classes a limit of memory where there is one.
    pub fn update_qos(&self, resources: &ClassResources) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        let [burstable, best_effort] =
            [QosClass::Burstable, QosClass::BestEffort].map(|qos| self.layout.qos(qos));
        self.metrics.timed(Operation::Update, || {
            self.apply(&burstable, &controllers::of_burstable(resources))?;
            self.limit_class(&burstable, resources.burstable_memory_limit)?;
            self.limit_class(&best_effort, resources.best_effort_memory_limit)
        })
    }

    /// As upstream, a class that uses more than its new limit, which the kernel rejects on v1, is limited to what it uses.
    fn limit_class(&self, name: &CgroupName, limit: Option<i64>) -> Result<(), CgroupError> {
        let Some(limit) = limit else { return Ok(()) };
        let applied = self.apply(name, &[ControllerSetting::Memory(Some(limit))]);
        let Err(error) = applied else { return Ok(()) };
        match self.memory_of(name)?.and_then(|used| i64::try_from(used).ok()) {
            Some(used) if used > limit => self.apply(name, &[ControllerSetting::Memory(Some(used))]),
            Some(_) | None => Err(error),
        }
    }

    /// Kills all processes in the pod's cgroup, whatever its class, and removes it. Succeeds if it does not exist. May be
    /// repeated after an error.
    pub fn remove_pod(&self, uid: &PodUid) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        let names: Result<Vec<_>, _> = CLASSES.into_iter().map(|qos| self.layout.pod(uid, qos)).collect();
        // A UID that is no name of a cgroup, as one from the runtime may be, has none.
        let Ok(names) = names else { return Ok(()) };
        let remove = || names.iter().try_for_each(|name| self.remove(name));
        match names.iter().any(|name| self.exists(name)) {
            true => self.metrics.timed(Operation::Destroy, remove),
            false => remove(),
        }
    }

    /// Kills all processes in a cgroup and removes it, as far as it exists.
    fn remove(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let directories: Vec<PathBuf> = self
            .hierarchies
            .iter()
            .map(|hierarchy| self.directory(hierarchy, name))
            .filter(|dir| !self.remove_empty(dir))
            .collect();
        if directories.is_empty() {
            return Ok(());
        }
        kill::kill_all(&directories)?;
        if self.settings.driver == CgroupDriver::Systemd {
            Slices::connect()?.stop(&name.slice())?;
        }
        // systemd does not remove cgroups of other controllers, nor nested ones before version 240.
        for directory in directories {
            for cgroup in files::leaf_first(&directory)? {
                files::remove(&cgroup)?;
            }
        }
        Ok(())
    }

    /// The pods that have a cgroup in any hierarchy or class, sorted.
    pub fn list_pods(&self) -> Result<Vec<PodUid>, CgroupError> {
        let mut uids = BTreeSet::new();
        if !self.settings.per_qos {
            return Ok(Vec::new());
        }
        for hierarchy in &self.hierarchies {
            for qos in CLASSES {
                let entries = files::children(&self.directory(hierarchy, &self.layout.qos(qos)))?;
                uids.extend(entries.iter().filter_map(|entry| self.layout.uid_of(qos, entry)));
            }
        }
        Ok(uids.into_iter().collect())
    }

    /// The cgroups of a pod in which processes run, in every hierarchy and class.
    pub fn populated(&self, uid: &PodUid) -> Result<Vec<PathBuf>, CgroupError> {
        let mut found = Vec::new();
        for qos in CLASSES {
            let name = self.layout.pod(uid, qos)?;
            for hierarchy in &self.hierarchies {
                let directory = self.directory(hierarchy, &name);
                if !kill::pids_below(&directory)?.is_empty() {
                    found.push(directory);
                }
            }
        }
        Ok(found)
    }

    /// Removes a pod's cgroup if it is empty, as it normally is after the runtime removed its own; returns whether it is removed.
    /// Removes an empty cgroup. Slices of the systemd driver are left to systemd.
    fn remove_empty(&self, directory: &Path) -> bool {
        match self.settings.driver {
            CgroupDriver::Cgroupfs => files::remove(directory).is_ok(),
            CgroupDriver::Systemd => !directory.is_dir(),
        }
    }

    pub(super) fn controlling(&self) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.iter().filter(|hierarchy| hierarchy.role == Role::Controlling)
    }

    pub(super) fn directory(&self, hierarchy: &Hierarchy, name: &CgroupName) -> PathBuf {
        hierarchy.mount.join(name.path(self.settings.driver).trim_start_matches('/'))
    }

    fn exists(&self, name: &CgroupName) -> bool {
        self.controlling().all(|hierarchy| self.directory(hierarchy, name).is_dir())
    }

    /// Creates a cgroup and its ancestors in every hierarchy.
    fn ensure(&self, name: &CgroupName) -> Result<(), CgroupError> {
        if !self.exists(name) && self.settings.driver == CgroupDriver::Systemd {
            Slices::connect()?.start(&name.slice(), &name.parent_slice())?;
        }
        for hierarchy in self.controlling() {
            let mut parent = hierarchy.mount.clone();
            for ancestor in name.lineage() {
                let directory = self.directory(hierarchy, &ancestor);
                match self.version {
                    CgroupVersion::V1 => ensure_v1(hierarchy, &parent, &directory)?,
                    CgroupVersion::V2 => ensure_v2(&parent, &directory)?,
                }
                parent = directory;
            }
            if self.version == CgroupVersion::V2 {
                self.require_delegated(&parent)?;
            }
        }
        Ok(())
    }

    /// Checks only the controllers that are written: systemd delegates `cpuset` only when a container's scope needs it.
    fn require_delegated(&self, directory: &Path) -> Result<(), CgroupError> {
        let delegated = files::read(&directory.join("cgroup.controllers"))?;
        let mut missing = hierarchy::written(self.settings.pids_limit);
        missing.retain(|name| !delegated.split_whitespace().any(|controller| controller == *name));
        if missing.is_empty() {
            Ok(())
        } else {
            Err(CgroupError::NotDelegated { path: directory.to_owned(), missing })
        }
    }

    /// Applies what is not set yet.
    pub(super) fn apply(
        &self,
        name: &CgroupName,
        controller_settings: &[ControllerSetting],
    ) -> Result<(), CgroupError> {
        let systemd = self.settings.driver == CgroupDriver::Systemd;
        let mut pending = Vec::new();
        for setting in controller_settings {
            let setting = if systemd { systemd::rounded(*setting) } else { *setting };
            let Some(hierarchy) =
                self.controlling().find(|hierarchy| hierarchy.controls(setting.controller()))
            else {
                // Required controllers were checked when the tree was opened.
                continue;
            };
            let directory = self.directory(hierarchy, name);
            if !setting.is_set(self.version, &directory)? {
                pending.push((setting, directory));
            }
        }
        if systemd && !pending.is_empty() {
            let changed: Vec<ControllerSetting> = pending.iter().map(|(setting, _)| *setting).collect();
            Slices::connect()?.set(&name.slice(), &systemd::properties(self.version, &changed))?;
        }
        // With systemd as well: it ignores properties that its version does not know.
        pending.into_iter().try_for_each(|(setting, directory)| setting.apply(self.version, &directory))
    }
}

/// Copies the CPUs and memory nodes of the parent, without which a new v1 cpuset cgroup accepts no process.
pub(super) fn ensure_v1(hierarchy: &Hierarchy, parent: &Path, directory: &Path) -> Result<(), CgroupError> {
    files::create(directory)?;
    if hierarchy.controls("cpuset") {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if files::read(&directory.join(file))?.is_empty() {
                files::write(&directory.join(file), &files::read(&parent.join(file))?)?;
            }
        }
    }
    Ok(())
}

/// Enables all available controllers for the children of `parent`, as runtimes do.
pub(super) fn ensure_v2(parent: &Path, directory: &Path) -> Result<(), CgroupError> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = files::read(&control)?;
    let available = files::read(&parent.join("cgroup.controllers"))?;
    let missing: Vec<String> = available
        .split_whitespace()
        .filter(|controller| !enabled.split_whitespace().any(|on| on == *controller))
        .map(|controller| format!("+{controller}"))
        .collect();
    if !missing.is_empty() && files::write(&control, &missing.join(" ")).is_err() {
        // One write is all or nothing, and the kernel rejects some controllers in some places, so they are enabled one by
        // one. Whether the result suffices shows in the created cgroup.
        for controller in missing {
            if let Err(error) = files::write(&control, &controller) {
                tracing::debug!(%error, "cannot enable a cgroup controller for children");
            }
        }
    }
    files::create(directory).map(drop)
}
