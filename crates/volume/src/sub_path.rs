//! Subpaths: parts of volumes that a container mounts instead of the whole. What was found inside the volume is mounted below the
//! pod's directory, and the runtime is given that mount, so that a container that changes its volume meanwhile reaches nothing
//! else on the host (CVE-2017-1002101, CVE-2021-25741).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::{InsideError, Mounts, PathError, SysError, open_inside, real_path, remove_mount_point};

use super::layout::{POD_MODE, PodLayout};

/// Mode of the file that a file is mounted on.
const FILE_MODE: u32 = 0o640;

/// How far below the directory of all subpaths their mount points are: volume, container, index.
const DEPTH: usize = 3;

/// A part of a volume for one mount of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPath {
    /// UID of the pod, whose directory has the mount point.
    pub uid: PodUid,
    /// The name of the volume.
    pub volume: String,
    /// Where the volume is on the host.
    pub host_path: PathBuf,
    /// The name of the container.
    pub container: String,
    /// The index of the mount in the container's spec.
    pub index: usize,
    /// The part, relative to the volume.
    pub path: PathBuf,
}

/// Why a subpath cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum SubPathError {
    /// The pod's UID is no name of a directory.
    #[error("the UID {0:?} is no name of a directory")]
    Uid(String),
    /// Nothing can be opened there.
    #[error(transparent)]
    Open(#[from] InsideError),
    /// The volume does not respond.
    #[error(transparent)]
    Volume(#[from] PathError),
    /// The place to mount it on cannot be made.
    #[error("cannot make {}", path.display())]
    Make {
        /// The place.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It cannot be mounted.
    #[error(transparent)]
    Mount(#[from] SysError),
}

/// Mounts a subpath, in place of what an earlier instance of the container had there. Returns where. Blocking, possibly forever on
/// a filesystem whose server does not respond.
pub(super) fn prepare(
    layout: &PodLayout,
    part: &SubPath,
    mounts: &dyn Mounts,
) -> Result<PathBuf, SubPathError> {
    let target = layout.sub_path(&part.volume, &part.container, part.index);
    if target.symlink_metadata().is_ok() {
        unmount_all(&target, mounts)?;
        remove_mount_point(&target)?;
    }
    let opened = open_inside(&part.host_path, &part.path)?;
    make_target(&target, opened.is_dir())
        .map_err(|source| SubPathError::Make { path: target.clone(), source })?;
    mounts.bind(&opened, &target)?;
    Ok(target)
}

fn make_target(target: &Path, is_dir: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(POD_MODE);
    if is_dir {
        return builder.create(target);
    }
    builder.create(target.parent().unwrap_or(target))?;
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(target).map(drop)
}

/// Unmounts and removes all subpaths of a pod. Never removes what was mounted. Blocking.
pub(super) fn clean(layout: &PodLayout, mounts: &dyn Mounts) -> Result<(), SysError> {
    let dir = layout.dirs().sub_paths();
    if fs::symlink_metadata(&dir).is_err() {
        return Ok(());
    }
    unmount_all(&dir, mounts)?;
    remove_points(&dir, DEPTH)
}

/// Removes the mount points this far below a directory, and the directory.
fn remove_points(dir: &Path, depth: usize) -> Result<(), SysError> {
    let failed = |source| SysError::Remove { path: dir.to_owned(), source };
    if depth > 0 && fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) {
        for entry in fs::read_dir(dir).map_err(failed)? {
            remove_points(&entry.map_err(failed)?.path(), depth - 1)?;
        }
    }
    remove_mount_point(dir)
}

/// Unmounts everything at or below a path, the topmost first.
fn unmount_all(path: &Path, mounts: &dyn Mounts) -> Result<(), SysError> {
    let real = real_path(path);
    let points: Vec<PathBuf> = mounts.table()?.within(&real).map(|mount| mount.point.clone()).collect();
    points.iter().rev().try_for_each(|point| mounts.unmount(point))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::testing::{FakeMounts, UID};

    struct Host {
        dir: TempDir,
        layout: PodLayout,
        mounts: FakeMounts,
    }

    impl Host {
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            let layout = PodLayout::new(dir.path(), &UID.into()).unwrap();
            fs::create_dir_all(dir.path().join("volume/data")).unwrap();
            fs::write(dir.path().join("volume/file"), "content").unwrap();
            Self { dir, layout, mounts: FakeMounts::default() }
        }

        fn prepare(&self, index: usize, path: &str) -> Result<PathBuf, SubPathError> {
            let part = SubPath {
                uid: UID.into(),
                volume: "v".to_owned(),
                host_path: self.dir.path().join("volume"),
                container: "c".to_owned(),
                index,
                path: path.into(),
            };
            prepare(&self.layout, &part, &self.mounts)
        }
    }

    #[test]
    fn parts_are_mounted_at_upstreams_paths_and_removed_without_their_content() {
        let host = Host::new();
        let dir = host.prepare(0, "data").unwrap();
        assert_eq!(dir, host.dir.path().join(format!("pods/{UID}/volume-subpaths/v/c/0")));
        let file = host.prepare(1, "file").unwrap();
        assert!(dir.is_dir() && file.is_file());
        assert_eq!(host.mounts.points(), [dir.clone(), file]);
        // The next instance of the container.
        host.prepare(0, "new").unwrap();
        assert_eq!(host.mounts.points().iter().filter(|point| **point == dir).count(), 1);
        clean(&host.layout, &host.mounts).unwrap();
        assert!(host.mounts.points().is_empty() && !host.layout.dirs().sub_paths().exists());
        assert!(host.dir.path().join("volume/new").is_dir() && host.dir.path().join("volume/file").is_file());
        clean(&host.layout, &host.mounts).unwrap();
    }

    #[test]
    fn what_a_container_wrote_below_a_mount_that_it_did_not_see_is_kept() {
        let host = Host::new();
        let (dir, file) = (host.prepare(0, "data").unwrap(), host.prepare(1, "file").unwrap());
        // As in the mount namespace of a runtime that has none of the mounts.
        unmount_all(&host.layout.dirs().sub_paths(), &host.mounts).unwrap();
        for written in [dir.join("database"), file] {
            fs::write(&written, "precious").unwrap();
            assert!(matches!(clean(&host.layout, &host.mounts), Err(SysError::MountPointInUse { .. })));
            assert!(written.exists());
            fs::remove_file(&written).unwrap();
        }
        clean(&host.layout, &host.mounts).unwrap();
        assert!(!host.layout.dirs().sub_paths().exists());
    }

    #[test]
    fn a_part_outside_of_its_volume_is_not_mounted() {
        let host = Host::new();
        std::os::unix::fs::symlink("/etc", host.dir.path().join("volume/link")).unwrap();
        for path in ["link", "link/passwd", "../volume", "/etc"] {
            assert!(matches!(host.prepare(0, path), Err(SubPathError::Open(_))), "{path}");
        }
        assert!(host.mounts.points().is_empty());
    }

    #[test]
    fn a_busy_mount_is_reported_and_nothing_is_removed() {
        let host = Host::new();
        let dir = host.prepare(0, "data").unwrap();
        host.mounts.set_busy(true);
        assert!(clean(&host.layout, &host.mounts).is_err() && dir.exists());
        assert!(host.prepare(0, "data").is_err());
        host.mounts.set_busy(false);
        clean(&host.layout, &host.mounts).unwrap();
    }
}
