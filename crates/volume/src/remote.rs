//! Unmounts what a pod has of remote filesystems, before the rest of its volumes is torn down on the threads for short file work: a
//! server that does not respond blocks a thread of its own. Removes nothing.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::PodUid;
use hostlet_host::{Mount, MountTable, Mounts, PathError, SysError, real_path};

use super::error::{HostError, VolumeError};
use super::kinds::registry::directories;
use super::layout::PodLayout;
use super::threads::VolumeThreads;

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
    let mut external = directories().filter(|kind| kind.is_external());
    // The mount table of a host with many pods is long, and read only if needed.
    if !layout.dirs().sub_paths().exists() && external.all(|kind| !layout.volumes(kind).exists()) {
        return Ok(Vec::new());
    }
    Ok(remote_mounts(layout, &mounts.table()?))
}

/// The remote mounts in `table`. Mounts with foreign mounts below them are left out, because they are not torn down.
fn remote_mounts(layout: &PodLayout, table: &MountTable) -> Vec<RemoteMounts> {
    let parts = real_path(&layout.dirs().sub_paths());
    let external = directories().filter(|kind| kind.is_external());
    let external: Vec<_> = external.map(|kind| (kind, real_path(&layout.volumes(kind)))).collect();
    let is_bare = |mount: &Mount| table.inside(&mount.point).next().is_none();
    let directly_in = |dir| table.within(dir).filter(move |mount: &&Mount| mount.point.parent() == Some(dir));
    let volumes = external.iter().flat_map(|(_, dir)| directly_in(dir.as_path()));
    // Also a part that is in an export below the volume's, which is another device.
    let is_nfs_volume = |mount: &Mount| {
        let is_same = |volume: &Mount| volume.origin.device == mount.origin.device;
        let mut of_servers = external.iter().filter(|(kind, _)| kind.filesystem().is_some());
        mount.is_nfs() && of_servers.any(|(_, dir)| table.within(dir).any(is_same))
    };
    let mut found: Vec<RemoteMounts> = Vec::new();
    // The kernel unmounts an export below an export with it.
    let is_below_export = |mount: &Mount| {
        let above = |outer: &Mount| mount.point != outer.point && mount.point.starts_with(&outer.point);
        mount.is_nfs() && table.within(&parts).any(|outer| outer.is_nfs() && above(outer))
    };
    let of_containers: Vec<&Mount> = table.within(&parts).filter(|mount| !is_below_export(mount)).collect();
    // A container's part of a volume, before the volume; the topmost of stacked mounts first.
    let in_order = of_containers.into_iter().rev().chain(volumes);
    for mount in in_order.filter(|mount| mount.is_remote() && is_bare(mount)) {
        let device = Path::new(&mount.origin.device);
        match found.iter_mut().find(|known| known.device == device) {
            Some(known) => known.points.push(mount.point.clone()),
            None => {
                let (device, points) = (device.to_owned(), vec![mount.point.clone()]);
                found.push(RemoteMounts { device, points, is_nfs_volume: is_nfs_volume(mount) });
            }
        }
    }
    found
}

/// Unmounts all of `found`, each filesystem on a thread of its own. An NFS volume whose server does not respond for a minute is
/// unmounted by force, as upstream does (`CleanupMountWithForce`). Returns the first error.
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
            let (remote, mounts) = (self.clone(), mounts.clone());
            move || remote.points.iter().try_for_each(|point| remote.unmount_one(point, &*mounts))
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

    fn unmount_one(&self, point: &Path, mounts: &dyn Mounts) -> Result<(), SysError> {
        let unmounted = mounts.unmount(point);
        if let Err(SysError::Unmount { source, .. }) = &unmounted
            && source.kind() == ErrorKind::ResourceBusy
            && self.is_nfs_volume
        {
            // Its user may be a thread that waits for the server, such as the one that measures the volume. Then this thread waits,
            // too, and both are released by force.
            mounts.wait_for_server(point);
        }
        unmounted
    }
}

/// Unmounts by force what is still mounted: the kernel may have detached it already, and only wait for what is not written yet. A
/// mount in use is released by its users only when they have their errors, so that the next attempt unmounts it.
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
            32 31 0:42 / /no/pods/u/volumes/kubernetes.io~nfs/b/in rw - fuse f rw\n\
            33 25 0:43 / /no/pods/u/volumes/kubernetes.io~empty-dir/e rw - fuse f rw\n\
            34 25 0:40 / /no/pods/other/volumes/kubernetes.io~nfs/a rw - nfs4 server:/ rw\n\
            35 27 0:44 /in /no/pods/u/volumes/kubernetes.io~nfs/a/in rw - nfs4 server:/in rw\n\
            36 28 0:44 /in /no/pods/u/volume-subpaths/a/c/0/in rw - nfs4 server:/in rw\n\
            37 25 0:44 / /no/pods/u/volume-subpaths/a/c/3 rw - nfs4 server:/in rw\n\
            38 25 0:45 / /mnt/host rw - nfs4 other:/ rw\n\
            39 25 0:45 /pv /no/pods/u/volumes/kubernetes.io~local-volume/pv rw - nfs4 other:/ rw\n",
        );
        let layout = PodLayout::new(Path::new("/no"), &"u".into()).unwrap();
        assert_eq!(
            remote_mounts(&layout, &table),
            [
                remote("0:44", &["/no/pods/u/volume-subpaths/a/c/3"], true),
                remote("0:39", &["/no/pods/u/volume-subpaths/h/c/1"], false),
                remote(
                    "0:40",
                    &["/no/pods/u/volume-subpaths/a/c/0", "/no/pods/u/volumes/kubernetes.io~nfs/a"],
                    true
                ),
                remote("0:45", &["/no/pods/u/volumes/kubernetes.io~local-volume/pv"], false),
            ]
        );
    }
}
