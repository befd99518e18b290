//! Unmounts what a pod has of remote filesystems, before the rest of its volumes is torn down on the threads for short file work: a
//! server that does not respond blocks a thread of its own. Removes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;

use super::error::{HostError, VolumeError};
use super::layout::{Kind, PodLayout};
use super::threads::VolumeThreads;
use crate::sys::{Mount, MountTable, Mounts, PathError, SysError, real_path};
use crate::types::PodUid;

/// A pod's mounts of one remote filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteMounts {
    /// The device, with which all of them block.
    device: PathBuf,
    /// The mount points, in the order in which they are unmounted.
    points: Vec<PathBuf>,
    /// Whether the filesystem is an NFS volume of the pod, which nobody but pods uses.
    is_nfs_volume: bool,
}

/// A pod's mounts of remote filesystems. Blocking, but accesses none of them.
pub(super) fn find(layout: &PodLayout, mounts: &dyn Mounts) -> Result<Vec<RemoteMounts>, SysError> {
    let dirs = [layout.sub_paths(), layout.volumes(Kind::Nfs), layout.volumes(Kind::LocalVolume)];
    // The mount table of a host with many pods is long, and read only if needed.
    if dirs.iter().all(|dir| !dir.exists()) {
        return Ok(Vec::new());
    }
    Ok(remote_mounts(layout, &mounts.table()?))
}

/// Those of the table. The ones with foreign mounts in them are left out, as they are not torn down.
fn remote_mounts(layout: &PodLayout, table: &MountTable) -> Vec<RemoteMounts> {
    let (parts, nfs) = (real_path(&layout.sub_paths()), real_path(&layout.volumes(Kind::Nfs)));
    let local = real_path(&layout.volumes(Kind::LocalVolume));
    let is_in = |mount: &Mount, dir: &Path| mount.point.parent() == Some(dir);
    let is_bare = |mount: &Mount| table.within(&mount.point).count() == table.at(&mount.point).count();
    let volumes =
        [&nfs, &local].into_iter().flat_map(|dir| table.within(dir).filter(|mount| is_in(mount, dir)));
    let mut found: Vec<RemoteMounts> = Vec::new();
    // A container's part of a volume, before the volume; the topmost of stacked mounts first.
    let in_order = table.within(&parts).collect::<Vec<_>>().into_iter().rev().chain(volumes);
    for mount in in_order.filter(|mount| mount.is_remote() && is_bare(mount)) {
        let device = Path::new(&mount.origin.device);
        let is_nfs_volume = is_in(mount, &nfs);
        match found.iter_mut().find(|known| known.device == device) {
            Some(known) => {
                known.points.push(mount.point.clone());
                known.is_nfs_volume |= is_nfs_volume;
            }
            None => {
                let points = vec![mount.point.clone()];
                found.push(RemoteMounts { device: device.to_owned(), points, is_nfs_volume });
            }
        }
    }
    found
}

/// Unmounts all of `found`, each filesystem on a thread of its own. An NFS volume whose server does not respond for a minute is unmounted by
/// force, as upstream does (`CleanupMountWithForce`). Returns the first error.
pub(super) async fn unmount_all(
    found: Vec<RemoteMounts>,
    uid: &PodUid,
    threads: &VolumeThreads,
    mounts: &Arc<dyn Mounts>,
) -> Result<(), VolumeError> {
    let unmounted = found.into_iter().map(|remote| remote.unmount(uid, threads, mounts.clone()));
    join_all(unmounted).await.into_iter().collect()
}

impl RemoteMounts {
    async fn unmount(
        self,
        uid: &PodUid,
        threads: &VolumeThreads,
        mounts: Arc<dyn Mounts>,
    ) -> Result<(), VolumeError> {
        let Some(first) = self.points.first() else { return Ok(()) };
        let name = first.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failed = |source: HostError| VolumeError::TearDown { volume: name.clone(), source };
        let work = {
            let (points, mounts) = (self.points.clone(), mounts.clone());
            move || points.iter().try_for_each(|point| mounts.unmount(point))
        };
        let unmounted = match threads.unmounts.run(uid.as_str(), &self.device, first, work).await {
            Err(PathError::Stuck { .. }) if self.is_nfs_volume => {
                tracing::warn!(%uid, path = %first.display(), "unmounting an NFS volume by force, as its server does not respond");
                let points = self.points.clone();
                let work = move || force(&points, &*mounts);
                threads.forced_unmounts.run(uid.as_str(), &self.device, first, work).await
            }
            result => result,
        };
        unmounted.map_err(|error| failed(error.into()))?.map_err(|error| failed(error.into()))
    }
}

/// Unmounts by force what is still mounted: the kernel may have detached it already, and only wait for what is not written yet.
fn force(points: &[PathBuf], mounts: &dyn Mounts) -> Result<(), SysError> {
    for point in points {
        for _ in 0..mounts.table()?.at(point).count() {
            mounts.force_unmount(point)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(device: &str, points: &[&str], is_nfs_volume: bool) -> RemoteMounts {
        let points = points.iter().map(PathBuf::from).collect();
        RemoteMounts { device: device.into(), points, is_nfs_volume }
    }

    #[test]
    fn a_pods_remote_mounts_are_grouped_by_filesystem_parts_first() {
        let table = MountTable::parse(
            b"25 1 254:0 / / rw - ext4 /dev/vda rw\n\
            26 25 0:39 / /mnt/s3 rw - fuse.s3fs s3 rw\n\
            27 25 0:40 / /no/pods/u/volumes/kubernetes.io~nfs/a rw - nfs4 server:/ rw\n\
            28 25 0:40 /x /no/pods/u/volume-subpaths/a/c/0 rw - nfs4 server:/ rw\n\
            29 25 0:39 /y /no/pods/u/volume-subpaths/h/c/1 rw - fuse.s3fs s3 rw\n\
            30 25 254:0 /y /no/pods/u/volume-subpaths/l/c/2 rw - ext4 /dev/vda rw\n\
            31 25 0:41 / /no/pods/u/volumes/kubernetes.io~nfs/b rw - nfs server2:/ rw\n\
            32 31 0:42 / /no/pods/u/volumes/kubernetes.io~nfs/b/in rw - nfs server2:/in rw\n\
            33 25 0:43 / /no/pods/u/volumes/kubernetes.io~empty-dir/e rw - fuse f rw\n\
            34 25 0:40 / /no/pods/other/volumes/kubernetes.io~nfs/a rw - nfs4 server:/ rw\n",
        );
        let layout = PodLayout::new(Path::new("/no"), &"u".into()).unwrap();
        assert_eq!(
            remote_mounts(&layout, &table),
            [
                remote("0:39", &["/no/pods/u/volume-subpaths/h/c/1"], false),
                remote(
                    "0:40",
                    &["/no/pods/u/volume-subpaths/a/c/0", "/no/pods/u/volumes/kubernetes.io~nfs/a"],
                    true
                ),
            ]
        );
    }
}
