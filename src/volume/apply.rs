//! Looks, plans and performs, for all volumes of a pod. Blocking. A volume that fails does not keep the others. What is the
//! host's is checked apart, as that may block for ever.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::actual::{found_at, leftovers, look};
use super::desired::Wanted;
use super::error::{HostError, VolumeError, VolumeProblem};
use super::execute::{execute, make_on_host};
use super::kinds::host_path;
use super::layout::PodLayout;
use super::plan;
use crate::sys::Mounts;
use crate::types::PodUid;

/// A volume that containers can mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where it is on the host.
    pub host_path: PathBuf,
    /// Whether containers may only read it, whatever their mounts say.
    pub read_only: bool,
    /// Whether the runtime is to give it the SELinux label of the container.
    pub relabel: bool,
}

/// The volumes of a pod, as far as they could be set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// Those that can be mounted, by name.
    pub mounted: BTreeMap<String, Mounted>,
    /// What is wrong: of volumes that cannot be mounted, and of those that are not up to date.
    pub problems: Vec<VolumeProblem>,
}

/// Makes the volumes of a pod what they are to be. `now` and `random` name new directories.
pub(super) fn set_up(
    layout: &PodLayout,
    wanted: Vec<(String, Wanted)>,
    mounts: &dyn Mounts,
    now: Timestamp,
    random: u32,
) -> PodVolumes {
    let version = format!("..{}.{random:010}", now.strftime("%Y_%m_%d_%H_%M_%S"));
    let mut volumes = PodVolumes::default();
    for (name, wanted) in wanted {
        match set_up_one(layout, &name, wanted, mounts, &version) {
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
    wanted: Wanted,
    mounts: &dyn Mounts,
    version: &str,
) -> Result<(Option<Mounted>, Option<VolumeProblem>), HostError> {
    match wanted {
        Wanted::Refused(error) => Ok((None, Some(VolumeProblem::new(name, &error)))),
        Wanted::Host { path } => {
            Ok((Some(Mounted { host_path: path, read_only: false, relabel: false }), None))
        }
        Wanted::Own(desired) => {
            let (root, meta) = (layout.volume(desired.kind, name), layout.meta(desired.kind, name));
            let actual = look(&root, &meta, desired.kind, &mounts.table()?)?;
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

/// Checks what a pod says of a path of the host, and makes what is missing if it may. Blocking, and that for ever on a
/// filesystem whose server is away.
pub(super) fn check_host_path(path: &Path, is: host_path::Is) -> Result<(), HostError> {
    match host_path::check(path, is, found_at(path)?)? {
        Some(make) => make_on_host(path, make),
        None => Ok(()),
    }
}

/// Takes down what there is of the volumes of a pod that has ended, whoever set them up: everything that can be; then
/// tells the first error. What is not there is fine. Never removes anything across a mount, and never unmounts what is not
/// of this room. Blocking. `root` is the daemon's own directory.
pub fn tear_down(root: &Path, uid: &PodUid, mounts: &dyn Mounts) -> Result<(), VolumeError> {
    let Some(layout) = PodLayout::new(root, uid) else {
        return Err(VolumeError::Look(HostError::Uid(uid.to_string())));
    };
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
