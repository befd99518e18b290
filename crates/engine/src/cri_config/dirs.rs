//! Removes a pod's directory. Never removes unknown files and never crosses a mount, because a volume's data is the user's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::{Mounts, PodDirs, SysError, is_missing, pods_dir, real_path};

/// Why a pod's directory could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum PodDirError {
    /// The list of mounts could not be read.
    #[error("reading the mounts")]
    Mounts(#[source] SysError),
    /// A mount remains below it.
    #[error("{} is still mounted", path.display())]
    Mounted {
        /// The mount point.
        path: PathBuf,
    },
    /// A directory could not be read.
    #[error("reading directory {}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file or directory could not be removed.
    #[error("removing {}", path.display())]
    Remove {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// UIDs of the pods that have a directory under `root`.
pub(crate) fn pod_dirs(root: &Path) -> Result<Vec<PodUid>, PodDirError> {
    let path = pods_dir(root);
    let read = |source| PodDirError::Read { path: path.clone(), source };
    let entries = match fs::read_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(read)?,
    };
    let mut uids = Vec::new();
    for entry in entries {
        // A name that is not UTF-8 is not a UID.
        if let Ok(name) = entry.map_err(read)?.file_name().into_string() {
            uids.push(name.into());
        }
    }
    Ok(uids)
}

/// Removes the directory of a pod whose volumes are torn down: hostlet's own files, and empty directories. Blocking. Idempotent. A
/// directory with anything else remains, with an error that names it.
pub fn remove_pod_dir(root: &Path, uid: &PodUid, mounts: &dyn Mounts) -> Result<(), PodDirError> {
    let Some(dirs) = PodDirs::new(root, uid).filter(|dirs| dirs.path().exists()) else { return Ok(()) };
    let table = mounts.table().map_err(PodDirError::Mounts)?;
    if let Some(mount) = table.within(&real_path(dirs.path())).next() {
        return Err(PodDirError::Mounted { path: mount.point.clone() });
    }
    remove_file(&dirs.hosts_file())?;
    remove_file(&dirs.id_range())?;
    let containers = dirs.containers();
    for container in entries(&containers)? {
        // Termination logs, one per start.
        for log in entries(&container)? {
            remove_file(&log)?;
        }
        remove_empty(&container)?;
    }
    remove_empty(&containers)?;
    // Empty once the volumes, including those left by a stock kubelet, are removed.
    for left in [dirs.volumes(), dirs.plugins(), dirs.sub_paths(), dirs.block_devices()] {
        remove_empty_tree(&left)?;
    }
    remove_empty(dirs.path())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, PodDirError> {
    let read = |source| PodDirError::Read { path: dir.to_owned(), source };
    match fs::read_dir(dir) {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        other => other.map_err(read)?.map(|entry| entry.map(|e| e.path()).map_err(read)).collect(),
    }
}

pub(super) fn remove_file(path: &Path) -> Result<(), PodDirError> {
    ignore_not_found(path, fs::remove_file(path))
}

fn remove_empty(path: &Path) -> Result<(), PodDirError> {
    ignore_not_found(path, fs::remove_dir(path))
}

/// Removes directories, deepest first; fails on the first file.
fn remove_empty_tree(path: &Path) -> Result<(), PodDirError> {
    for entry in entries(path)? {
        if entry.is_dir() && !entry.is_symlink() {
            remove_empty_tree(&entry)?;
        }
    }
    remove_empty(path)
}

fn ignore_not_found(path: &Path, result: io::Result<()>) -> Result<(), PodDirError> {
    match result {
        Err(error) if is_missing(&error) => Ok(()),
        other => other.map_err(|source| PodDirError::Remove { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::user_namespaces::remove_mappings;
    use super::*;
    use hostlet_host::KernelMounts;

    fn mounts(root: &Path) -> KernelMounts {
        KernelMounts { mountinfo: root.join("mountinfo") }
    }

    fn pod(root: &Path) -> PathBuf {
        let dir = root.join("pods/u1");
        fs::create_dir_all(dir.join("containers/c")).unwrap();
        fs::write(dir.join("containers/c/0123abcd"), "bye").unwrap();
        fs::write(dir.join("etc-hosts"), "").unwrap();
        fs::create_dir_all(dir.join("volumes/kubernetes.io~empty-dir")).unwrap();
        fs::write(root.join("mountinfo"), "36 35 98:0 / /elsewhere rw - ext4 /dev/root rw\n").unwrap();
        dir
    }

    #[test]
    fn hostlets_files_are_removed_idempotently() {
        let root = tempfile::tempdir().unwrap();
        let dir = pod(root.path());
        assert_eq!(pod_dirs(root.path()).unwrap(), ["u1".into()]);
        for _ in 0..2 {
            remove_pod_dir(root.path(), &"u1".into(), &mounts(root.path())).unwrap();
            assert!(!dir.exists());
        }
        assert!(pod_dirs(root.path()).unwrap().is_empty());
    }

    #[test]
    fn a_directory_that_cannot_exist_is_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("mountinfo"), "").unwrap();
        fs::create_dir(root.path().join("pods")).unwrap();
        let precious = root.path().join("etc-hosts");
        fs::write(&precious, "").unwrap();
        let long = "x".repeat(300);
        for uid in ["", ".", "..", "../", "a/../..", "/", &long] {
            remove_pod_dir(root.path(), &uid.into(), &mounts(root.path())).unwrap();
            remove_mappings(root.path(), &uid.into()).unwrap();
        }
        assert!(precious.exists() && root.path().join("pods").exists());
    }

    #[test]
    fn user_data_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let dir = pod(root.path());
        let data = dir.join("volumes/kubernetes.io~empty-dir/data");
        fs::write(&data, "precious").unwrap();
        let error = remove_pod_dir(root.path(), &"u1".into(), &mounts(root.path())).unwrap_err();
        assert!(error.to_string().contains("volumes/kubernetes.io~empty-dir"), "{error}");
        assert_eq!(fs::read_to_string(data).unwrap(), "precious");
    }

    #[test]
    fn nothing_is_removed_below_a_mount() {
        let root = tempfile::tempdir().unwrap();
        let dir = pod(root.path());
        let mounted = dir.join("volumes/kubernetes.io~empty-dir");
        let line = format!("36 35 98:0 / {} rw - tmpfs tmpfs rw\n", mounted.display());
        fs::write(root.path().join("mountinfo"), line).unwrap();
        let error = remove_pod_dir(root.path(), &"u1".into(), &mounts(root.path())).unwrap_err();
        assert!(matches!(error, PodDirError::Mounted { path } if path == mounted));
        assert!(dir.join("etc-hosts").exists());
    }
}
