//! A host for tests: a directory, and mounts that are only recorded.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hostlet_host::{
    DiskError, Disks, Inside, Mount, MountCall, MountTable, Mounts, Origin, SysError, real_path,
};
use hostlet_pod::AdmittedPod;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::model::NodeAmounts;

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
    /// Paths that somebody accesses and that do not respond.
    accessed: Vec<PathBuf>,
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

    /// Uses what is at the path, as long as that does not respond. Fails if it is unmounted by force meanwhile.
    fn access(&self, path: &Path) -> io::Result<()> {
        self.with(|inner| inner.accessed.push(path.to_owned()));
        let is_lost = self.wait(path);
        self.with(|inner| {
            let at = inner.accessed.iter().position(|other| other == path).unwrap();
            inner.accessed.remove(at);
        });
        if is_lost { Err(io::Error::from_raw_os_error(nix::libc::EIO)) } else { Ok(()) }
    }

    /// Waits as long as the path does not respond. Returns whether it still does not.
    fn wait(&self, path: &Path) -> bool {
        let (inner, changed) = &*self.0;
        let is_in = |paths: &[PathBuf]| paths.iter().any(|other| path.starts_with(other));
        let mut inner = inner.lock();
        changed.wait_while(&mut inner, |inner| is_in(&inner.lost) && !is_in(&inner.forced));
        is_in(&inner.lost)
    }

    /// Whether somebody uses what is mounted there.
    pub(super) fn is_accessed(&self, point: &Path) -> bool {
        self.with(|inner| inner.accessed.iter().any(|path| path.starts_with(point)))
    }

    /// Removes the topmost mount at `point`, with the exports below one of NFS, unless it is in use.
    fn remove(&self, dir: &Path, point: &Path) -> Result<(), SysError> {
        let is_accessed = self.is_accessed(point);
        let unmounted = self.with(|inner| {
            let last = inner.mounts.iter().rposition(|mount| mount.point == point);
            let removed = last.filter(|_| !inner.busy && !is_accessed).map(|at| inner.mounts.remove(at));
            if removed.as_ref().is_some_and(Mount::is_nfs) {
                inner.mounts.retain(|mount| !(mount.is_nfs() && mount.point.starts_with(point)));
            }
            removed
        });
        if unmounted.is_none() {
            return Err(busy(dir));
        }
        if dir.is_dir() {
            clear(dir);
        }
        Ok(())
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
        let accessed = fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd())).unwrap();
        self.access(&accessed).map_err(|source| SysError::Bind { path: target.to_owned(), source })?;
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
        let failed = |source| SysError::RunMount { path: call.target.clone(), source };
        self.access(Path::new(&call.source)).map_err(failed)?;
        let point = call.target.canonicalize().unwrap();
        self.with(|inner| {
            inner.calls.push(call.clone());
            if inner.busy {
                let source = io::Error::from_raw_os_error(nix::libc::EBUSY);
                return Err(SysError::RunMount { path: point, source });
            }
            if !call.options.iter().any(|option| option == "remount") {
                let filesystem = call.filesystem.as_deref().unwrap_or("ext4").into();
                let origin = Origin { device: call.source.clone(), dir: PathBuf::from("/") };
                inner.mounts.push(Mount { point, filesystem, origin, is_shared: true });
            }
            Ok(())
        })
    }

    fn unmount(&self, dir: &Path) -> Result<(), SysError> {
        let point = dir.canonicalize().unwrap();
        if !self.is_accessed(&point) {
            // As the last unmount of a filesystem, which writes what is not written yet.
            self.wait(&point);
            if !self.points().contains(&point) {
                return Ok(());
            }
        }
        self.remove(dir, &point)
    }

    fn force_unmount(&self, dir: &Path) -> Result<(), SysError> {
        let point = dir.canonicalize().unwrap();
        let is_accessed = self.is_accessed(&point);
        self.with(|inner| inner.forced.push(point.clone()));
        // Its users get their errors, and only then it is not in use any more.
        let unmounted = if is_accessed { Err(busy(dir)) } else { self.remove(dir, &point) };
        self.0.1.notify_all();
        unmounted
    }

    fn wait_for_server(&self, path: &Path) {
        let _ = self.access(&real_path(path));
    }
}

fn busy(dir: &Path) -> SysError {
    let source = io::Error::from_raw_os_error(nix::libc::EBUSY);
    SysError::Unmount { path: dir.to_owned(), source }
}

/// Disks that only note what is done to them.
#[derive(Clone, Default)]
pub(super) struct FakeDisks(Arc<Mutex<(Option<String>, Vec<String>)>>);

impl FakeDisks {
    /// Puts a filesystem of this type on all devices.
    pub(super) fn set(&self, format: &str) {
        self.0.lock().0 = Some(format.to_owned());
    }

    /// What was done.
    pub(super) fn calls(&self) -> Vec<String> {
        self.0.lock().1.clone()
    }
}

impl Disks for FakeDisks {
    fn format(&self, _: &Path) -> Result<Option<String>, DiskError> {
        Ok(self.0.lock().0.clone())
    }

    fn make(&self, device: &Path, fs_type: &str) -> Result<(), DiskError> {
        self.set(fs_type);
        self.0.lock().1.push(format!("make {fs_type} {}", device.display()));
        Ok(())
    }

    fn repair(&self, device: &Path) -> Result<(), DiskError> {
        self.0.lock().1.push(format!("repair {}", device.display()));
        Ok(())
    }

    fn grow(&self, device: &Path, mounted_at: &Path) -> Result<(), DiskError> {
        self.0.lock().1.push(format!("grow {} {}", device.display(), mounted_at.display()));
        Ok(())
    }
}

/// A block device of this host; `None` if it has none. Nothing is done to it.
pub(super) fn block_device() -> Option<PathBuf> {
    let entries = fs::read_dir("/dev").unwrap().map(|entry| entry.unwrap());
    let mut devices = entries.filter(|entry| entry.file_type().unwrap().is_block_device());
    devices.next().map(|entry| entry.path())
}

/// A loop device of 16 MiB, which is detached when it is dropped.
pub(super) struct Disk {
    image: PathBuf,
    device: PathBuf,
}

impl Disk {
    /// `None` if the host has no loop devices, or no program for filesystems.
    pub(super) fn new(dir: &Path) -> Option<Self> {
        let image = dir.join("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program).args(arguments).output().ok().filter(|run| run.status.success())
        };
        run("mkfs.ext4", &["-V"])?;
        let attached = run("losetup", &["-f", "--show", image.to_str()?])?;
        let device = String::from_utf8(attached.stdout).ok()?.trim().into();
        Some(Self { image, device })
    }

    pub(super) fn path(&self) -> &Path {
        &self.device
    }

    /// Removes what is on it.
    pub(super) fn wipe(&self) {
        let start = vec![0; 4 << 20];
        fs::OpenOptions::new().write(true).open(&self.device).unwrap().write_all(&start).unwrap();
    }

    /// Gives it another size.
    pub(super) fn resize(&self, size: u64) {
        fs::OpenOptions::new().write(true).open(&self.image).unwrap().set_len(size).unwrap();
        assert!(Command::new("losetup").arg("-c").arg(&self.device).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

/// The daemon's directory with that of one pod.
pub(super) struct Host {
    pub(super) root: TempDir,
    pub(super) mounts: FakeMounts,
    pub(super) disks: FakeDisks,
}

impl Host {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("pods").join(UID)).unwrap();
        Self { root, mounts: FakeMounts::default(), disks: FakeDisks::default() }
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
