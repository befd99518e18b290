//! The tree of this node and every operation on it. Holds no state of pods: the kernel's tree is the state. Every method
//! blocks on short file (or D-Bus) calls: on an async task, call it through `spawn_blocking`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::types::CgroupDriver;
use crate::types::{PodUid, QosClass};

use super::hierarchy::{self, Hierarchy, Role};
use super::knobs::{self, Knob};
use super::names::{CgroupName, Layout};
use super::shares::{MIN_SHARES, cpu_shares};
use super::systemd::{self, Slices};
use super::{CgroupError, CgroupSettings, CgroupVersion, PodResources, files, kill};

const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];

/// The QoS cgroup tree of this node. Cheap to share; operations on different pods may run at once.
#[derive(Debug)]
pub struct Cgroups {
    settings: CgroupSettings,
    version: CgroupVersion,
    hierarchies: Vec<Hierarchy>,
    layout: Layout,
}

impl Cgroups {
    /// Finds the hierarchies of this host. Unless `per_qos` is off, also fails, saying what to do, when they are not
    /// writable, when a controller that pods need is missing, or when the driver is systemd and systemd is not init.
    pub fn open(settings: CgroupSettings) -> Result<Self, CgroupError> {
        Self::open_booted(settings, Path::new(systemd::BOOTED_MARKER))
    }

    /// As [`open`](Self::open), on a host that systemd runs if the directory `marker` exists.
    pub(super) fn open_booted(settings: CgroupSettings, marker: &Path) -> Result<Self, CgroupError> {
        let (version, hierarchies) = hierarchy::detect(&settings)?;
        let layout = Layout::new(settings.driver, &settings.root)?;
        if settings.per_qos {
            hierarchy::check(version, &hierarchies, &settings)?;
            if settings.driver == CgroupDriver::Systemd {
                systemd::require_booted(marker)?;
            }
        }
        Ok(Self { settings, version, hierarchies, layout })
    }

    /// Which version of cgroups this host uses.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Makes `kubepods` and the cgroups of the burstable and best-effort classes where they are missing, with the
    /// controllers pods need. Best effort gets the least CPU weight there is.
    pub fn ensure_tree(&self) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        for qos in CLASSES {
            self.ensure(&self.layout.qos(qos))?;
        }
        self.apply(&self.layout.qos(QosClass::BestEffort), &[Knob::CpuShares(MIN_SHARES)])
    }

    /// Limits all pods together, and answers whether that was asked for. The tree must be there. The kernel may refuse while
    /// they use more: then call again later.
    pub fn limit_all_pods(&self) -> Result<bool, CgroupError> {
        match &self.settings.all_pods {
            Some(all) if self.settings.per_qos => {
                // Guaranteed pods are in no class of their own: theirs is the cgroup above all.
                self.apply(&self.layout.qos(QosClass::Guaranteed), &knobs::of_all_pods(all))?;
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// The CRI's `cgroup_parent` of a pod: its cgroup's path below the mount, for either driver. Empty when pods get no
    /// cgroups of ours.
    pub fn parent(&self, uid: &PodUid, qos: QosClass) -> Result<String, CgroupError> {
        if !self.settings.per_qos {
            return Ok(String::new());
        }
        Ok(self.layout.pod(uid, qos)?.path(self.settings.driver))
    }

    /// Whether the pod has its cgroup in every hierarchy. Always so when pods get no cgroups of ours.
    pub fn pod_exists(&self, uid: &PodUid, qos: QosClass) -> Result<bool, CgroupError> {
        Ok(!self.settings.per_qos || self.exists(&self.layout.pod(uid, qos)?))
    }

    /// Makes the pod's cgroup where it is missing, and sets what differs from `resources`. The tree must be there.
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
        self.ensure(&name)?;
        let settings = &self.settings;
        self.apply(
            &name,
            &knobs::of_pod(resources, settings.cfs_period, settings.cfs_quota, settings.pids_limit),
        )
    }

    /// Sets the CPU weight of the burstable class to what its pods request together, in thousandths of a core, so that
    /// the class weighs against guaranteed pods as its pods would.
    pub fn update_qos(&self, burstable_milli_cpu: i64) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        self.apply(&self.layout.qos(QosClass::Burstable), &[Knob::CpuShares(cpu_shares(burstable_milli_cpu))])
    }

    /// Kills what still runs in the pod's cgroup, under whichever class it is, and removes it leaf first. A pod without a
    /// cgroup is removed already. After an error, call again: what is gone stays gone.
    pub fn remove_pod(&self, uid: &PodUid) -> Result<(), CgroupError> {
        if !self.settings.per_qos {
            return Ok(());
        }
        for qos in CLASSES {
            let name = self.layout.pod(uid, qos)?;
            let directories: Vec<PathBuf> = self
                .hierarchies
                .iter()
                .map(|hierarchy| self.directory(hierarchy, &name))
                .filter(|dir| !self.remove_empty(dir))
                .collect();
            if directories.is_empty() {
                continue;
            }
            kill::kill_all(&directories)?;
            if self.settings.driver == CgroupDriver::Systemd {
                Slices::connect()?.stop(&name.slice())?;
            }
            // systemd leaves behind what it does not control, and before version 240 also nested cgroups.
            for directory in directories {
                for cgroup in files::leaf_first(&directory)? {
                    files::remove(&cgroup)?;
                }
            }
        }
        Ok(())
    }

    /// The pods that have a cgroup in any hierarchy, under any class, sorted.
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

    /// Removes a pod's cgroup if it is empty, as it is once the runtime has removed its own, and answers whether it is gone.
    /// One of systemd's is left to systemd.
    fn remove_empty(&self, directory: &Path) -> bool {
        match self.settings.driver {
            CgroupDriver::Cgroupfs => files::remove(directory).is_ok(),
            CgroupDriver::Systemd => !directory.is_dir(),
        }
    }

    fn controlling(&self) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.iter().filter(|hierarchy| hierarchy.role == Role::Controlling)
    }

    fn directory(&self, hierarchy: &Hierarchy, name: &CgroupName) -> PathBuf {
        hierarchy.mount.join(name.path(self.settings.driver).trim_start_matches('/'))
    }

    fn exists(&self, name: &CgroupName) -> bool {
        self.controlling().all(|hierarchy| self.directory(hierarchy, name).is_dir())
    }

    /// Makes a cgroup and those above it in every hierarchy.
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

    /// Only what we write to is asked for: systemd passes `cpuset` down no sooner than a container's scope wants it.
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

    fn apply(&self, name: &CgroupName, knobs: &[Knob]) -> Result<(), CgroupError> {
        let systemd = self.settings.driver == CgroupDriver::Systemd;
        let mut pending = Vec::new();
        for knob in knobs {
            let knob = if systemd { systemd::rounded(*knob) } else { *knob };
            let Some(hierarchy) = self.controlling().find(|hierarchy| hierarchy.controls(knob.controller()))
            else {
                // Everything pods cannot do without was found when the tree was opened.
                continue;
            };
            let directory = self.directory(hierarchy, name);
            if !knob.is_set(self.version, &directory)? {
                pending.push((knob, directory));
            }
        }
        if systemd && !pending.is_empty() {
            let changed: Vec<Knob> = pending.iter().map(|(knob, _)| *knob).collect();
            Slices::connect()?.set(&name.slice(), &systemd::properties(self.version, &changed))?;
        }
        // With systemd too: it ignores properties that its version does not know.
        pending.into_iter().try_for_each(|(knob, directory)| knob.apply(self.version, &directory))
    }
}

/// A new v1 cpuset cgroup has no CPUs and memory nodes, and takes no process until it has: give it its parent's.
fn ensure_v1(hierarchy: &Hierarchy, parent: &Path, directory: &Path) -> Result<(), CgroupError> {
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

/// A v2 cgroup has the controllers its parent passes on: pass on all there are, as runtimes do.
fn ensure_v2(parent: &Path, directory: &Path) -> Result<(), CgroupError> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = files::read(&control)?;
    let available = files::read(&parent.join("cgroup.controllers"))?;
    let missing: Vec<String> = available
        .split_whitespace()
        .filter(|controller| !enabled.split_whitespace().any(|on| on == *controller))
        .map(|controller| format!("+{controller}"))
        .collect();
    if !missing.is_empty() && files::write(&control, &missing.join(" ")).is_err() {
        // One write is all or nothing, and the kernel refuses some controllers in some places: take what can be had.
        // Whether that is enough shows in the cgroup made below.
        for controller in missing {
            if let Err(error) = files::write(&control, &controller) {
                tracing::debug!(%error, "cgroup controller not passed on");
            }
        }
    }
    files::create(directory).map(drop)
}
