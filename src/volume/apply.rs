//! Observes, plans and executes, for all volumes of a pod. Blocking. A volume that fails does not affect the others. Host
//! paths are checked separately, as that may block forever.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::actual::{found_at, leftovers, read_actual};
use super::desired::DesiredVolume;
use super::error::{HostError, VolumeError, VolumeProblem};
use super::execute::{execute, make_on_host};
use super::kinds::host_path;
use super::layout::PodLayout;
use super::{plan, sub_path};
use crate::sys::Mounts;
use crate::types::PodUid;

/// A volume that is ready for mounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Its path on the host.
    pub host_path: PathBuf,
    /// Whether it is always mounted read-only.
    pub read_only: bool,
    /// Whether the runtime relabels it for SELinux.
    pub relabel: bool,
}

/// The result of setting up a pod's volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// The ready volumes, by name.
    pub mounted: BTreeMap<String, Mounted>,
    /// Problems: of volumes that are not ready, and of those that are not up to date.
    pub problems: Vec<VolumeProblem>,
}

/// Sets up the volumes of a pod. `now` and `random` name new directories.
pub(super) fn set_up(
    layout: &PodLayout,
    desired: Vec<(String, DesiredVolume)>,
    mounts: &dyn Mounts,
    now: Timestamp,
    random: u32,
) -> PodVolumes {
    let version = format!("..{}.{random:010}", now.strftime("%Y_%m_%d_%H_%M_%S"));
    let mut volumes = PodVolumes::default();
    for (name, desired_volume) in desired {
        match set_up_one(layout, &name, desired_volume, mounts, &version) {
            Ok((mounted, problem)) => {
                volumes.problems.extend(problem);
                volumes.mounted.extend(mounted.map(|mounted| (name, mounted)));
            }
            Err(error) => volumes.problems.push(VolumeProblem::new(&name, &error)),
        }
    }
    volumes
}

fn set_up_one(
    layout: &PodLayout,
    name: &str,
    desired_volume: DesiredVolume,
    mounts: &dyn Mounts,
    version: &str,
) -> Result<(Option<Mounted>, Option<VolumeProblem>), HostError> {
    match desired_volume {
        DesiredVolume::Invalid(error) => Ok((None, Some(VolumeProblem::new(name, &error)))),
        DesiredVolume::Host { path } => {
            Ok((Some(Mounted { host_path: path, read_only: false, relabel: false }), None))
        }
        DesiredVolume::Own(desired) => {
            let (root, meta) = (layout.volume(desired.kind, name), layout.meta(desired.kind, name));
            let actual = read_actual(&root, &meta, desired.kind, &mounts.table()?)?;
            let plan = plan::set_up(&desired, &actual, &root, &meta, version)?;
            for operation in &plan.operations {
                execute(operation, mounts)?;
            }
            let read_only = desired.kind.is_written_by_us();
            let mounted = plan.usable.then_some(Mounted { host_path: root, read_only, relabel: true });
            Ok((mounted, plan.problem.map(|error| VolumeProblem::new(name, &error))))
        }
    }
}

/// Checks the type of a host path, and creates it if permitted. Blocks, possibly forever on a filesystem whose server does not
/// answer.
pub(super) fn check_host_path(path: &Path, path_type: host_path::PathType) -> Result<(), HostError> {
    match host_path::check(path, path_type, found_at(path)?)? {
        Some(make) => make_on_host(path, make),
        None => Ok(()),
    }
}

/// Tears down the volumes of a terminated pod, no matter which daemon set them up. Continues after an error and returns the
/// first. Missing volumes are no error. Never removes across a mount, and never unmounts foreign mounts. Blocking. `root` is
/// the daemon's directory.
pub fn tear_down(root: &Path, uid: &PodUid, mounts: &dyn Mounts) -> Result<(), VolumeError> {
    let Some(layout) = PodLayout::new(root, uid) else {
        return Err(VolumeError::Look(HostError::Uid(uid.to_string())));
    };
    // A container's part of a volume, before the volume.
    sub_path::clean(&layout, mounts).map_err(|error| VolumeError::Look(error.into()))?;
    let mut result = Ok(());
    for left in leftovers(&layout, mounts).map_err(VolumeError::Look)? {
        let done = plan::tear_down(&left)
            .and_then(|operations| operations.iter().try_for_each(|operation| execute(operation, mounts)));
        result = result.and(done.map_err(|source| VolumeError::TearDown { volume: left.name, source }));
    }
    result
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
