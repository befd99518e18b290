//! Volumes that are mounts of what outlives the pod: a directory of this host, or an export of a server. Blocking, possibly for
//! long. Interrupted work is completed by the next attempt. Never deletes anything of theirs.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use hostlet_host::{
    GroupChange, MountCall, MountTable, Mounts, PathError, pods_dir, real_path, set_group_of_tree,
};

use super::actual::{failed, found_at};
use super::error::{HostError, VolumeProblem, VolumeStep};
use super::execute::{mark, unmark};
use super::layout::{POD_MODE, PodLayout};
use super::model::External;
use super::path_type::Found;

impl External {
    /// Whether it is a directory of this host.
    pub(super) fn is_on_host(&self) -> bool {
        self.directory.filesystem().is_none()
    }

    /// Where it is on the host.
    pub(super) fn dir(&self, layout: &PodLayout) -> PathBuf {
        layout.volume(self.directory, &self.name)
    }

    /// Whether it is set up. Does not access what is mounted.
    pub(super) fn is_ready(&self, layout: &PodLayout, table: &MountTable) -> bool {
        let is_marked = || layout.meta(self.directory, &self.name).join("ready").exists();
        self.is_mounted(layout, table) && is_marked()
    }

    fn is_mounted(&self, layout: &PodLayout, table: &MountTable) -> bool {
        let dir = real_path(&layout.volumes(self.directory)).join(&self.name);
        table.at(&dir).next().is_some()
    }

    /// Sets it up. Returns a warning if it is mounted now, but not with the group that was requested.
    pub(super) fn set_up(
        &self,
        root: &Path,
        layout: &PodLayout,
        mounts: &dyn Mounts,
    ) -> Result<Option<String>, VolumeProblem> {
        let problem = |step, error: HostError| VolumeProblem::at(step, &self.name, &error);
        self.check_source().map_err(|error| problem(VolumeStep::NewMounter, error))?;
        self.mount(root, layout, mounts).map_err(|error| problem(VolumeStep::SetUp, error))
    }

    /// The problem if setting it up takes too long.
    pub(super) fn delayed(&self, layout: &PodLayout, table: &MountTable, error: PathError) -> VolumeProblem {
        let is_slow = matches!(error, PathError::Stuck { .. });
        let is_owning = is_slow && self.group_to_set().is_some() && self.is_mounted(layout, table);
        let error =
            if is_owning { HostError::Owning { path: self.dir(layout) } } else { HostError::Path(error) };
        VolumeProblem::new(&self.name, &error)
    }

    /// Checks what is mounted, if it is a path of this host.
    fn check_source(&self) -> Result<(), HostError> {
        if !self.is_on_host() {
            return Ok(());
        }
        let path = Path::new(&self.source);
        match found_at(path)? {
            Found::Directory => Ok(()),
            Found::Nothing => Err(HostError::NoPath { path: path.to_owned() }),
            Found::BlockDevice => Err(HostError::Device { path: path.to_owned() }),
            Found::File | Found::Socket | Found::CharDevice | Found::Other => {
                Err(HostError::NeitherDirectoryNorDevice)
            }
        }
    }

    fn mount(
        &self,
        root: &Path,
        layout: &PodLayout,
        mounts: &dyn Mounts,
    ) -> Result<Option<String>, HostError> {
        let table = mounts.table()?;
        let is_shared = self.is_used_by_others(root, layout, &table);
        if self.is_exclusive && is_shared {
            return Err(HostError::InUse);
        }
        let (dir, meta) = (self.dir(layout), layout.meta(self.directory, &self.name));
        let mut warning = None;
        if !self.is_mounted(layout, &table) {
            if is_shared {
                warning = self.group_warning()?;
            }
            // A marker of an earlier boot.
            unmark(&meta)?;
            let made = DirBuilder::new().recursive(true).mode(POD_MODE).create(&dir);
            made.map_err(failed("make directory", &dir))?;
            if let Err(error) = mounts.mount(&self.call(dir.clone())) {
                // Only an empty directory that nothing is mounted on.
                let _ = fs::remove_dir(&dir);
                return Err(error.into());
            }
        }
        if let Some(call) = self.restriction(dir.clone()) {
            mounts.mount(&call)?;
        }
        // A group that others rely on is not changed, as upstream.
        if let (Some((group, change)), false) = (self.group_to_set(), is_shared) {
            set_group_of_tree(&dir, group, change)?;
        }
        mark(&meta)?;
        Ok(warning)
    }

    /// The group that its files are given to.
    fn group_to_set(&self) -> Option<(u32, GroupChange)> {
        self.group.filter(|_| !self.read_only)
    }

    /// Upstream's warning about a volume that other pods have mounted already with another group.
    fn group_warning(&self) -> Result<Option<String>, HostError> {
        let Some((group, _)) = self.group else { return Ok(None) };
        let source = Path::new(&self.source);
        let existing = fs::metadata(source).map_err(failed("look at", source))?.gid();
        let name = &self.name;
        Ok((existing != group).then(|| {
            format!(
                "The requested fsGroup is {group}, but the volume {name} has GID {existing}. The volume may not be shareable."
            )
        }))
    }

    /// Whether the volume is mounted for another pod.
    fn is_used_by_others(&self, root: &Path, layout: &PodLayout, table: &MountTable) -> bool {
        let pods = real_path(&pods_dir(root));
        let volume = layout.volume(self.directory, &self.name);
        let inside = volume.strip_prefix(layout.dirs().path()).unwrap_or(&volume);
        let own = real_path(&layout.volumes(self.directory)).join(&self.name);
        table.within(&pods).filter(|mount| mount.point != own).any(|mount| {
            let mut parts = mount.point.strip_prefix(&pods).unwrap_or(Path::new("")).components();
            parts.next().is_some() && parts.as_path() == inside
        })
    }

    fn call(&self, target: PathBuf) -> MountCall {
        let filesystem = self.directory.filesystem();
        let options = if filesystem.is_some() { self.all_options() } else { vec!["bind".to_owned()] };
        MountCall { source: self.source.clone(), target, filesystem, options }
    }

    /// The call that gives a directory of this host its options: a new bind mount has those of its source.
    fn restriction(&self, target: PathBuf) -> Option<MountCall> {
        let options = self.all_options();
        if !self.is_on_host() || options.is_empty() {
            return None;
        }
        let options = ["bind", "remount"].map(str::to_owned).into_iter().chain(options).collect();
        Some(MountCall { source: self.source.clone(), target, filesystem: None, options })
    }

    fn all_options(&self) -> Vec<String> {
        let mut options = self.options.clone();
        if self.read_only {
            options.push("ro".to_owned());
        }
        options.sort_unstable();
        options.dedup();
        options
    }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;
