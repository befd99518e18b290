//! Executes single operations on the host; decides nothing. Blocking. Operations may be repeated, and never follow a link in a
//! volume.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink};
use std::path::Path;

use hostlet_base::Quantity;
use hostlet_host::{MountCall, Mounts, SysError, real_path, remove_mount_point, remove_tree};
use nix::fcntl::OFlag;

use super::actual::{HUGETLBFS, failed};
use super::error::HostError;
use super::files::{Files, parents};
use super::layout::{DATA, DIR_MODE, NEW_DATA, PARENT_MODE, POD_MODE, ROOT_MODE, group_dir_mode};
use super::path_type::Make;
use super::plan::Operation;

/// Mode of a directory created for a `hostPath`.
const HOST_DIR_MODE: u32 = 0o755;
/// Mode of a file created for a `hostPath`.
const HOST_FILE_MODE: u32 = 0o644;

/// Executes one operation.
pub(super) fn execute(operation: &Operation, mounts: &dyn Mounts) -> Result<(), HostError> {
    match operation {
        Operation::MakeRoot { dir } => make_root(dir),
        Operation::Mount { dir, size } => Ok(mounts.mount_tmpfs(dir, *size)?),
        Operation::MountHugePages { dir, page_size } => Ok(mounts.mount(&huge_pages(dir, *page_size))?),
        Operation::SetMode { dir, mode } => set_mode(dir, *mode),
        Operation::SetGroup { dir, group, written_by_us } => set_group(dir, *group, *written_by_us),
        Operation::Mark { meta } => mark(meta),
        Operation::Unmark { meta } => unmark(meta),
        Operation::Write { dir, version, files, group } => write(&dir.join(version), files, *group),
        Operation::Link { dir, name, uid, group } => {
            link(&Path::new(DATA).join(name), &dir.join(name), *uid, *group)
        }
        Operation::Publish { dir, version, group } => publish(dir, version, *group),
        Operation::Discard { dir, name } => Ok(remove_tree(&dir.join(name))?),
        Operation::Unmount { dir } => Ok(mounts.unmount(dir)?),
        Operation::Remove { dir } => remove(dir, mounts),
        Operation::RemoveMountPoint { dir } => Ok(remove_mount_point(dir)?),
    }
}

/// As upstream, of the page size only: the pages are limited by the pod's cgroup.
fn huge_pages(dir: &Path, page_size: u64) -> MountCall {
    MountCall {
        source: "nodev".to_owned(),
        target: dir.to_owned(),
        filesystem: Some(HUGETLBFS.into()),
        options: vec![format!("pagesize={}", Quantity::bytes(page_size))],
    }
}

/// Creates what a `hostPath` permits to create.
pub(super) fn make_on_host(path: &Path, make: Make) -> Result<(), HostError> {
    match make {
        Make::Directory => {
            let made = DirBuilder::new().recursive(true).mode(HOST_DIR_MODE).create(path);
            made.map_err(failed("make directory", path))
        }
        Make::File => {
            let mut options = OpenOptions::new();
            let made = options.write(true).create(true).truncate(false).mode(HOST_FILE_MODE).open(path);
            made.map(drop).map_err(failed("make file", path))
        }
    }
}

/// Sets modes after creation, since creation applies the umask of this process.
fn make_root(dir: &Path) -> Result<(), HostError> {
    if let Some(parent) = dir.parent() {
        if let Some(volumes) = parent.parent() {
            make_dirs(volumes, POD_MODE)?;
        }
        make_dirs(parent, PARENT_MODE)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(failed("make directory", dir))?,
    }
    set_mode(dir, ROOT_MODE)
}

fn make_dirs(dir: &Path, mode: u32) -> Result<(), HostError> {
    DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(failed("make directory", dir))
}

fn set_mode(path: &Path, mode: u32) -> Result<(), HostError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set the mode of", path))
}

fn set_group(dir: &Path, group: u32, written_by_us: bool) -> Result<(), HostError> {
    let mode = fs::symlink_metadata(dir).map_err(failed("look at", dir))?.permissions().mode() & 0o7777;
    // Owner first: changing it clears the setgid bit.
    lchown(dir, None, Some(group)).map_err(failed("set the group of", dir))?;
    set_mode(dir, group_dir_mode(mode, written_by_us))
}

/// Creates a ready marker.
pub(super) fn mark(meta: &Path) -> Result<(), HostError> {
    make_dirs(meta, POD_MODE)?;
    let ready = meta.join("ready");
    let mut options = OpenOptions::new();
    let made = options.write(true).create(true).truncate(false).mode(HOST_FILE_MODE).open(&ready);
    made.map(drop).map_err(failed("make file", &ready))
}

/// Removes a ready marker.
pub(super) fn unmark(meta: &Path) -> Result<(), HostError> {
    Ok(remove_tree(meta)?)
}

fn write(version: &Path, files: &Files, group: Option<u32>) -> Result<(), HostError> {
    let dir_mode = group.map_or(DIR_MODE, |_| group_dir_mode(DIR_MODE, true));
    let make_dir = |dir: &Path| {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made.map_err(failed("make directory", dir))?,
        }
        lchown(dir, None, group).map_err(failed("set the group of", dir))?;
        set_mode(dir, dir_mode)
    };
    make_dir(version)?;
    for (path, file) in files {
        for parent in parents(path) {
            make_dir(&version.join(parent))?;
        }
        let path = version.join(path);
        // Other users may read the file only after it has its owner.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let mut opened = options.open(&path).map_err(failed("make file", &path))?;
        opened.write_all(&file.data).map_err(failed("write", &path))?;
        fchown(&opened, file.uid, group).map_err(failed("set the owner of", &path))?;
        let mode = Permissions::from_mode(file.mode);
        opened.set_permissions(mode).map_err(failed("set the mode of", &path))?;
        to_disk(&opened, &path)?;
    }
    let dirs: BTreeSet<&str> = files.keys().flat_map(|path| parents(path)).collect();
    dirs.into_iter().try_for_each(|dir| sync(&version.join(dir)))?;
    sync(version)
}

/// Syncs the entries of a directory to disk.
fn sync(dir: &Path) -> Result<(), HostError> {
    to_disk(&fs::File::open(dir).map_err(failed("open", dir))?, dir)
}

/// Syncs a file or a directory to disk, so that a volume that counts as ready has its content after a power failure.
fn to_disk(opened: &fs::File, path: &Path) -> Result<(), HostError> {
    #[cfg(test)]
    tests::SYNCED.with_borrow_mut(|synced| synced.push(path.to_owned()));
    opened.sync_all().map_err(failed("write to the disk", path))
}

fn link(target: &Path, path: &Path, uid: Option<u32>, group: Option<u32>) -> Result<(), HostError> {
    symlink(target, path).map_err(failed("make link", path))?;
    lchown(path, uid, group).map_err(failed("set the owner of", path))
}

/// Replaces the link by renaming, which is atomic for readers.
fn publish(dir: &Path, version: &str, group: Option<u32>) -> Result<(), HostError> {
    let (new, data) = (dir.join(NEW_DATA), dir.join(DATA));
    remove_tree(&new)?;
    link(Path::new(version), &new, None, group)?;
    fs::rename(&new, &data).map_err(failed("replace", &data))?;
    sync(dir)
}

/// Reads the mount table again: only that proves that nothing is mounted.
fn remove(dir: &Path, mounts: &dyn Mounts) -> Result<(), HostError> {
    let place = match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => real_path(parent).join(name),
        (_, _) => dir.to_owned(),
    };
    if mounts.table()?.within(&place).next().is_some() {
        return Err(SysError::Mounted { path: dir.to_owned() }.into());
    }
    Ok(remove_tree(dir)?)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::PathBuf;

    use super::*;
    use crate::files::File;

    thread_local! {
        /// What was synced to disk, in order.
        pub(super) static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_version_is_synced_before_it_becomes_visible() {
        let dir = tempfile::tempdir().unwrap();
        let file = || File { data: b"x".to_vec(), mode: 0o644, uid: None };
        let files = Files::from([("a".to_owned(), file()), ("sub/dir/b".to_owned(), file())]);
        let version = dir.path().join("v");
        write(&version, &files, None).unwrap();
        let mut synced = SYNCED.take();
        synced.sort();
        let expected = ["", "a", "sub", "sub/dir", "sub/dir/b"].map(|path| version.join(path));
        assert_eq!(synced, expected);
        publish(dir.path(), "v", None).unwrap();
        assert_eq!(SYNCED.take(), [dir.path()], "the link to it too");
    }
}
