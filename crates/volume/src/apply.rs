//! Observes, plans and executes, for all volumes of a pod. Blocking. A volume that fails does not affect the others. Paths that
//! others named are left to the caller, as their filesystem may block forever.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_csi::{PodStates, Publish};
use hostlet_host::{MountTable, Mounts, PathError, remove_tree};
use hostlet_pod::ExternalVolume;
use jiff::Timestamp;

use super::actual::{found_at, leftovers, read_actual};
use super::error::{HostError, VolumeError, VolumeProblem, VolumeStep};
use super::execute::{execute, make_on_host};
use super::external::Means;
use super::kinds::{csi, host_path};
use super::layout::PodLayout;
use super::metrics::Plugin;
use super::model::{BlockDevice, Desired, DesiredVolume, DriverVolume, External, Growable};
use super::path_type::{self, PathType};
use super::plan;
use super::published::{Mapped, settled, unmapped};
use super::ready::{Device, Mounted, PodVolumes};

/// Work on a path that others named: on its own thread, as the path may not respond.
#[derive(Clone, Debug)]
pub(super) enum PathTask {
    /// Checks the type of a host path.
    Check { path: PathBuf, path_type: PathType, read_only: bool },
    /// Mounts a volume.
    Mount(External),
    /// Puts a device where containers find it.
    Map(BlockDevice),
}

/// A volume that can be used.
#[derive(Debug)]
pub(super) enum Ready {
    Mounted(Mounted),
    Device(Device),
}

/// The results of work on paths, by volume: the volume, and a warning about it.
pub(super) type PathResults = Vec<(String, Result<(Ready, Option<String>), VolumeProblem>)>;

/// A pod's volumes after the part that cannot block for long.
#[derive(Debug, Default)]
pub(super) struct Applied {
    volumes: PodVolumes,
    /// What remains to be done, by volume.
    pub(super) tasks: Vec<(String, PathTask)>,
    /// The volumes of drivers.
    pub(super) drivers: Vec<(String, DriverVolume)>,
    /// Those that grow with their claims, by volume.
    growable: BTreeMap<String, Growable>,
    /// Volumes whose claims cannot be used, with the reason.
    unprocessed: Vec<(String, String)>,
    /// The names of all volumes.
    names: Vec<String>,
    /// Upstream's plugins of volumes whose kind the pod's spec does not name, by volume.
    plugins: BTreeMap<String, Plugin>,
}

impl Applied {
    /// Nothing but a problem.
    pub(super) fn failed(problem: VolumeProblem) -> Self {
        Self { volumes: PodVolumes { problems: vec![problem], ..PodVolumes::default() }, ..Self::default() }
    }

    /// The same with these groups of the volumes.
    pub(super) fn with_groups(mut self, groups: BTreeSet<i64>) -> Self {
        self.volumes.groups = groups;
        self
    }

    /// The requests to drivers, once per volume.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Publish> {
        let mut seen = BTreeSet::new();
        let all = self.drivers.iter().filter_map(|(_, volume)| volume.request.as_ref().ok());
        all.filter(move |publish| seen.insert(publish.spec_name.clone()))
    }

    /// The outcome, with the results of the remaining work by volume.
    pub(super) fn finish(self, results: PathResults) -> Outcome {
        let mut volumes = self.volumes;
        for (name, result) in results {
            match result {
                Ok((ready, warning)) => {
                    match ready {
                        Ready::Mounted(mounted) => drop(volumes.mounted.insert(name, mounted)),
                        Ready::Device(device) => drop(volumes.devices.insert(name, device)),
                    }
                    volumes.shared.extend(warning);
                }
                Err(problem) => volumes.problems.push(problem),
            }
        }
        volumes.external.retain(|name, _| volumes.mounted.contains_key(name));
        let Self { drivers, mut growable, unprocessed, names, plugins, .. } = self;
        growable.retain(|name, _| volumes.is_ready(name));
        Outcome { volumes, drivers, growable, unprocessed, names, plugins }
    }
}

/// A pod's volumes after all work of hostlet's own.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// All but those of drivers.
    volumes: PodVolumes,
    /// Those of drivers.
    drivers: Vec<(String, DriverVolume)>,
    /// Those in place that grow with their claims, by volume.
    pub(super) growable: BTreeMap<String, Growable>,
    unprocessed: Vec<(String, String)>,
    names: Vec<String>,
    /// Upstream's plugins of volumes whose kind the pod's spec does not name, by volume.
    pub(super) plugins: BTreeMap<String, Plugin>,
}

impl Outcome {
    /// The pod's volumes, with those of drivers by what their owners say and what was put in place; and the names of those on which a driver still works.
    pub(super) fn with(&self, states: &PodStates, mapped: &Mapped) -> (PodVolumes, Vec<String>) {
        let (mut volumes, settled) = (self.volumes.clone(), settled(&self.drivers, states, mapped));
        volumes.mounted.extend(settled.mounted);
        volumes.devices.extend(settled.devices);
        volumes.external.extend(settled.external);
        volumes.problems.extend(settled.problems);
        let unmounted = self.names.iter().filter(|name| !volumes.is_ready(name));
        let mut unmounted: Vec<String> = unmounted.cloned().collect();
        unmounted.sort_unstable();
        let mut unattached = settled.exhausted;
        unattached.sort_unstable();
        if !unattached.is_empty() {
            let unmounted = unmounted.clone();
            volumes.problems.push(VolumeProblem::AttachLimit { unmounted, unattached });
        }
        if !self.unprocessed.is_empty() {
            let (mut unprocessed, causes): (Vec<String>, Vec<String>) =
                self.unprocessed.iter().cloned().unzip();
            unprocessed.sort_unstable();
            let cause = causes.join("; ");
            volumes.problems.push(VolumeProblem::Unprocessed { unmounted, unprocessed, cause });
        }
        (volumes, settled.working)
    }

    /// The devices of drivers that are published and not in place yet, by the volume's name in the spec.
    pub(super) fn unmapped(&self, states: &PodStates, mapped: &Mapped) -> BTreeMap<String, BlockDevice> {
        unmapped(&self.drivers, states, mapped)
    }

    /// Whether something could not be done, other than by a driver.
    pub(super) fn has_failed(&self) -> bool {
        !self.volumes.problems.is_empty()
            || !self.unprocessed.is_empty()
            || self.drivers.iter().any(|(_, volume)| volume.request.is_err())
    }

    /// Warnings about volumes that were mounted just now, once.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.volumes.shared)
    }
}

impl PathTask {
    /// How the volume grows with its claim, if it does.
    pub(super) fn growable(&self, layout: &PodLayout) -> Option<Growable> {
        match self {
            Self::Check { .. } => None,
            Self::Mount(external) => external.growable(layout),
            Self::Map(device) => device.growable(),
        }
    }

    /// The volume, once the work has succeeded.
    pub(super) fn ready(&self, layout: &PodLayout) -> Ready {
        match self {
            Self::Check { path, read_only, .. } => Ready::Mounted(host(path.clone(), *read_only)),
            Self::Mount(external) => Ready::Mounted(mounted(external, layout)),
            Self::Map(device) => Ready::Device(mapped(device, layout)),
        }
    }
}

/// A device in its place.
pub(super) fn mapped(device: &BlockDevice, layout: &PodLayout) -> Device {
    Device { host_path: device.link(layout), read_only: device.read_only }
}

fn host(host_path: PathBuf, read_only: bool) -> Mounted {
    Mounted { host_path, read_only, relabel: false }
}

fn mounted(external: &External, layout: &PodLayout) -> Mounted {
    // What is only read may be in use by others, with labels of their own.
    let relabel = external.is_on_host() && !external.read_only;
    Mounted { host_path: external.dir(layout), read_only: external.read_only, relabel }
}

/// Sets up the volumes of a pod. `root` is the daemon's directory; `now` and `random` name new directories.
pub(super) fn set_up(
    root: &Path,
    layout: &PodLayout,
    desired: Vec<(String, DesiredVolume)>,
    mounts: &dyn Mounts,
    now: Timestamp,
    random: u32,
) -> Applied {
    let version = format!("..{}.{random:010}", now.strftime("%Y_%m_%d_%H_%M_%S"));
    let mut applied = Applied::default();
    for (name, desired_volume) in desired {
        applied.names.push(name.clone());
        applied.plugins.extend(plugin(&desired_volume).map(|plugin| (name.clone(), plugin)));
        if let Err(problem) = set_up_one(root, layout, &name, desired_volume, mounts, &version, &mut applied)
        {
            applied.volumes.problems.push(problem);
        }
    }
    applied
}

/// The plugin of what may be behind a claim.
fn plugin(volume: &DesiredVolume) -> Option<Plugin> {
    let (name, is_migrated) = match volume {
        DesiredVolume::Driver(volume) => {
            (format!("{}:{}", csi::DIRECTORY.plugin, volume.id.driver), volume.is_migrated)
        }
        DesiredVolume::External(volume) => (volume.directory.plugin.to_owned(), false),
        DesiredVolume::Device(device) => (device.directory.plugin.to_owned(), false),
        DesiredVolume::Host { .. } => (host_path::PLUGIN.to_owned(), false),
        DesiredVolume::Own(_) | DesiredVolume::Invalid(_) | DesiredVolume::Unprocessed(_) => return None,
    };
    Some(Plugin { name: name.into(), is_migrated })
}

fn set_up_one(
    root: &Path,
    layout: &PodLayout,
    name: &str,
    desired_volume: DesiredVolume,
    mounts: &dyn Mounts,
    version: &str,
    applied: &mut Applied,
) -> Result<(), VolumeProblem> {
    let ready = match desired_volume {
        DesiredVolume::Invalid(problem) => return Err(problem),
        DesiredVolume::Unprocessed(cause) => {
            applied.unprocessed.push((name.to_owned(), cause));
            return Ok(());
        }
        DesiredVolume::Host { path, path_type: PathType::Anything, read_only } => Some(host(path, read_only)),
        DesiredVolume::Host { path, path_type, read_only } => {
            applied.tasks.push((name.to_owned(), PathTask::Check { path, path_type, read_only }));
            None
        }
        DesiredVolume::External(external) => {
            let volume =
                ExternalVolume { dir: external.dir(layout), unit: external.unit.clone(), driver: None };
            applied.volumes.external.insert(name.to_owned(), volume);
            let growable = external.growable(layout);
            applied.growable.extend(growable.map(|growable| (name.to_owned(), growable)));
            let table = mounts.table().map_err(|error| VolumeProblem::new(&external.name, &error))?;
            if external.is_ready(layout, &table) {
                Some(mounted(&external, layout))
            } else {
                applied.tasks.push((name.to_owned(), PathTask::Mount(external)));
                None
            }
        }
        DesiredVolume::Device(device) => {
            applied.growable.extend(device.growable().map(|growable| (name.to_owned(), growable)));
            let table = mounts.table().map_err(|error| VolumeProblem::new(&device.name, &error))?;
            if device.is_mapped(root, layout, &table) {
                applied.volumes.devices.insert(name.to_owned(), mapped(&device, layout));
            } else {
                applied.tasks.push((name.to_owned(), PathTask::Map(device)));
            }
            None
        }
        DesiredVolume::Driver(volume) => {
            applied.drivers.push((name.to_owned(), *volume));
            None
        }
        DesiredVolume::Own(desired) => {
            let made = set_up_own(layout, name, &desired, mounts, version);
            let (mounted, problem) = made.map_err(|error| VolumeProblem::new(name, &error))?;
            applied.volumes.problems.extend(problem);
            mounted
        }
    };
    applied.volumes.mounted.extend(ready.map(|mounted| (name.to_owned(), mounted)));
    Ok(())
}

fn set_up_own(
    layout: &PodLayout,
    name: &str,
    desired: &Desired,
    mounts: &dyn Mounts,
    version: &str,
) -> Result<(Option<Mounted>, Option<VolumeProblem>), HostError> {
    let (root, meta) = (layout.volume(desired.directory, name), layout.meta(desired.directory, name));
    let actual = read_actual(&root, &meta, desired.directory, &mounts.table()?)?;
    let plan = plan::set_up(desired, &actual, &root, &meta, version)?;
    for operation in &plan.operations {
        execute(operation, mounts).map_err(|error| desired.store.error(error))?;
    }
    let read_only = desired.directory.is_written_by_us();
    let mounted = plan.usable.then_some(Mounted { host_path: root, read_only, relabel: true });
    Ok((mounted, plan.problem.map(|error| VolumeProblem::new(name, &error))))
}

/// Performs work on a path. Blocks, possibly forever on a filesystem whose server does not respond. `root` is the daemon's directory,
/// `name` the name of the volume in the pod. Returns a warning about it.
pub(super) fn perform(
    task: &PathTask,
    name: &str,
    root: &Path,
    layout: &PodLayout,
    host: Means<'_>,
) -> Result<Option<String>, VolumeProblem> {
    match task {
        PathTask::Check { path, path_type, .. } => {
            let checked = check_host_path(path, *path_type);
            checked.map(|()| None).map_err(|error| VolumeProblem::new(name, &error))
        }
        PathTask::Mount(external) => external.set_up(root, layout, host),
        PathTask::Map(device) => device.set_up(root, layout, host.mounts).map(|()| None),
    }
}

/// The problem of work on a path that does not respond in time.
pub(super) fn delayed(
    task: &PathTask,
    name: &str,
    layout: &PodLayout,
    table: &MountTable,
    error: PathError,
) -> VolumeProblem {
    match task {
        PathTask::Check { .. } => VolumeProblem::new(name, &error),
        PathTask::Mount(external) => external.delayed(layout, table, error),
        PathTask::Map(device) => VolumeProblem::at(VolumeStep::MapBlockVolume, &device.name, &error),
    }
}

/// Checks the type of a host path, and creates it if permitted.
fn check_host_path(path: &Path, path_type: PathType) -> Result<(), HostError> {
    match path_type::check(path, path_type, found_at(path)?)? {
        Some(make) => make_on_host(path, make),
        None => Ok(()),
    }
}

/// Tears down the volumes of a terminated pod but those of drivers, no matter which daemon set them up. Its subpaths are unmounted
/// already. Continues after an error and returns the
/// first. Missing volumes are no error. Never removes across a mount, and never unmounts foreign mounts. Blocking, briefly once
/// remote filesystems are unmounted. `root` is the daemon's directory.
pub(super) fn tear_down(root: &Path, uid: &PodUid, mounts: &dyn Mounts) -> Result<(), VolumeError> {
    let Some(layout) = PodLayout::new(root, uid) else { return Ok(()) };
    let mut result = Ok(());
    for left in leftovers(&layout, mounts).map_err(VolumeError::Look)? {
        let done = plan::tear_down(&left)
            .and_then(|operations| operations.iter().try_for_each(|operation| execute(operation, mounts)));
        result = result.and(done.map_err(|source| VolumeError::TearDown { volume: left.name, source }));
    }
    // A pod whose volumes are not down still needs what it remembers.
    result.and_then(|()| remove_tree(&layout.claims()).map_err(|error| VolumeError::Look(error.into())))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
