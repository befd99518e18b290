//! A host for tests: a directory, and mounts that are only recorded.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::desired::NodeAmounts;
use crate::pod::AdmittedPod;
use crate::sys::{Inside, Mount, MountCall, MountTable, Mounts, Origin, SysError};

/// A node with 4 cores, 8 GiB of memory and 100 GiB of disk.
pub(super) const NODE: NodeAmounts =
    NodeAmounts { milli_cpu: 4_000, memory: 8 << 30, ephemeral_storage: 100 << 30 };

/// UID of every pod in these tests.
pub(super) const UID: &str = "uid-1";

/// Mounts without a kernel. Mounting on a directory empties it, as does unmounting.
#[derive(Clone, Default)]
pub(super) struct FakeMounts(Arc<(Mutex<Inner>, Condvar)>);

#[derive(Default)]
struct Inner {
    mounts: Vec<Mount>,
    sizes: Vec<u64>,
    calls: Vec<MountCall>,
    busy: bool,
    lost: Vec<PathBuf>,
    forced: Vec<PathBuf>,
}

/// Paths that do not respond, until it is dropped.
pub(super) struct Lost(FakeMounts);

impl Drop for Lost {
    fn drop(&mut self) {
        self.0.with(|inner| inner.lost.clear());
        self.0.0.1.notify_all();
    }
}

impl FakeMounts {
    /// Calls block on what is at or below these paths, unless it is unmounted by force.
    pub(super) fn lose(&self, paths: impl IntoIterator<Item = PathBuf>) -> Lost {
        self.with(|inner| inner.lost.extend(paths));
        Lost(self.clone())
    }

    /// The mount points that were unmounted by force.
    pub(super) fn forced(&self) -> Vec<PathBuf> {
        self.with(|inner| inner.forced.clone())
    }

    /// Waits as long as the path does not respond.
    fn access(&self, path: &Path) {
        let (inner, changed) = &*self.0;
        let is_in = |paths: &[PathBuf]| paths.iter().any(|other| path.starts_with(other));
        changed.wait_while(&mut inner.lock(), |inner| is_in(&inner.lost) && !is_in(&inner.forced));
    }

    /// Adds a foreign mount.
    pub(super) fn add(&self, point: &Path, filesystem: &str) {
        let mount = Mount {
            point: point.to_owned(),
            filesystem: filesystem.to_owned(),
            origin: Origin::default(),
            is_shared: true,
        };
        self.with(|inner| inner.mounts.push(mount));
    }

    /// Makes unmounting fail, or succeed again.
    pub(super) fn set_busy(&self, busy: bool) {
        self.with(|inner| inner.busy = busy);
    }

    /// The mount points.
    pub(super) fn points(&self) -> Vec<PathBuf> {
        self.with(|inner| inner.mounts.iter().map(|mount| mount.point.clone()).collect())
    }

    /// The arguments of each call of mount(8).
    pub(super) fn calls(&self) -> Vec<String> {
        let text = |call: &MountCall| call.arguments().join(OsStr::new(" ")).into_string().unwrap();
        self.with(|inner| inner.calls.iter().map(text).collect())
    }

    /// The requested sizes.
    pub(super) fn sizes(&self) -> Vec<u64> {
        self.with(|inner| inner.sizes.clone())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.0.lock())
    }
}

fn clear(dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
    fs::create_dir(dir).unwrap();
}

impl Mounts for FakeMounts {
    fn table(&self) -> Result<MountTable, SysError> {
        Ok(self.with(|inner| inner.mounts.iter().cloned().collect()))
    }

    fn mount_tmpfs(&self, dir: &Path, size: u64) -> Result<(), SysError> {
        clear(dir);
        let point = dir.canonicalize().unwrap();
        self.with(|inner| {
            inner.mounts.push(Mount {
                point,
                filesystem: "tmpfs".into(),
                origin: Origin::default(),
                is_shared: true,
            });
            inner.sizes.push(size);
        });
        Ok(())
    }

    fn bind(&self, opened: &Inside, target: &Path) -> Result<(), SysError> {
        self.access(&fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd())).unwrap());
        let point = target.canonicalize().unwrap();
        self.with(|inner| {
            inner.mounts.push(Mount {
                point,
                filesystem: "ext4".into(),
                origin: Origin::default(),
                is_shared: true,
            })
        });
        Ok(())
    }

    fn mount(&self, call: &MountCall) -> Result<(), SysError> {
        self.access(Path::new(&call.source));
        let point = call.target.canonicalize().unwrap();
        self.with(|inner| {
            inner.calls.push(call.clone());
            if inner.busy {
                let source = std::io::Error::from_raw_os_error(nix::libc::EBUSY);
                return Err(SysError::RunMount { path: point, source });
            }
            if !call.options.iter().any(|option| option == "remount") {
                let filesystem = call.filesystem.unwrap_or("ext4").into();
                let origin = Origin { device: call.source.clone(), dir: PathBuf::from("/") };
                inner.mounts.push(Mount { point, filesystem, origin, is_shared: true });
            }
            Ok(())
        })
    }

    fn unmount(&self, dir: &Path) -> Result<(), SysError> {
        let point = dir.canonicalize().unwrap();
        self.access(&point);
        let unmounted = self.with(|inner| {
            let last = inner.mounts.iter().rposition(|mount| mount.point == point);
            last.filter(|_| !inner.busy).map(|at| inner.mounts.remove(at))
        });
        match unmounted {
            Some(_) => {
                if dir.is_dir() {
                    clear(dir);
                }
                Ok(())
            }
            None => {
                let source = std::io::Error::from_raw_os_error(nix::libc::EBUSY);
                Err(SysError::Unmount { path: dir.to_owned(), source })
            }
        }
    }

    fn force_unmount(&self, dir: &Path) -> Result<(), SysError> {
        let point = dir.canonicalize().unwrap();
        self.with(|inner| {
            inner.mounts.retain(|mount| mount.point != point);
            inner.forced.push(point);
        });
        self.0.1.notify_all();
        Ok(())
    }
}

/// The daemon's directory with that of one pod.
pub(super) struct Host {
    pub(super) root: TempDir,
    pub(super) mounts: FakeMounts,
}

impl Host {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("pods").join(UID)).unwrap();
        Self { root, mounts: FakeMounts::default() }
    }

    /// A path in the pod's directory.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.path().join("pods").join(UID).join(path)
    }

    /// A file of a volume as a container reads it.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at("volumes").join(path)).ok()
    }
}

/// A pod with these volumes.
pub(super) fn pod(volumes: Value) -> Arc<AdmittedPod> {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": UID, "labels": {"app": "web"}},
        "spec": {"serviceAccountName": "sa", "containers": [{"name": "c"}], "volumes": volumes}
    });
    AdmittedPod::new(serde_json::from_value::<Pod>(pod).unwrap())
}
