//! The paths of a pod's directory. An interface: a stock kubelet before or after hostlet uses the same. Only names: neither reads nor
//! creates anything.

use std::path::{Path, PathBuf};

use hostlet_base::PodUid;

/// The parent of the pods' directories in the daemon's `root` directory.
pub fn pods_dir(root: &Path) -> PathBuf {
    root.join("pods")
}

/// A pod's directory, `<root>/pods/<uid>`, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDirs {
    dir: PathBuf,
}

impl PodDirs {
    /// The directory of a pod in the daemon's `root` directory; `None` if the UID is no name of a directory.
    pub fn new(root: &Path, uid: &PodUid) -> Option<Self> {
        uid.is_file_name().then(|| Self { dir: pods_dir(root).join(uid.as_str()) })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The hosts file, which the containers have as `/etc/hosts`.
    pub fn hosts_file(&self) -> PathBuf {
        self.dir.join("etc-hosts")
    }

    /// The file with the range of user IDs of a pod with a user namespace.
    pub fn id_range(&self) -> PathBuf {
        self.dir.join("userns")
    }

    /// The directory with one of termination logs for each container.
    pub fn containers(&self) -> PathBuf {
        self.dir.join("containers")
    }

    /// The directory of a container's termination logs, one per start.
    pub fn container(&self, name: &str) -> PathBuf {
        self.containers().join(name)
    }

    /// The directory of the volumes, with one directory for each plugin.
    pub fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }

    /// The directory of the block devices, with one directory for each plugin.
    pub fn block_devices(&self) -> PathBuf {
        self.dir.join("volumeDevices")
    }

    /// The directory of the parts of volumes that containers mount.
    pub fn sub_paths(&self) -> PathBuf {
        self.dir.join("volume-subpaths")
    }

    /// What plugins remember of the pod's volumes, with one directory for each plugin.
    pub fn plugins(&self) -> PathBuf {
        self.dir.join("plugins")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_equal_the_stock_kubelets() {
        let dirs = PodDirs::new(Path::new("/root"), &"u1".into()).unwrap();
        for (path, expected) in [
            (dirs.path().to_owned(), ""),
            (dirs.hosts_file(), "etc-hosts"),
            (dirs.id_range(), "userns"),
            (dirs.container("c"), "containers/c"),
            (dirs.volumes(), "volumes"),
            (dirs.block_devices(), "volumeDevices"),
            (dirs.sub_paths(), "volume-subpaths"),
            (dirs.plugins(), "plugins"),
        ] {
            assert_eq!(path, Path::new("/root/pods/u1").join(expected));
        }
    }

    #[test]
    fn a_uid_with_path_syntax_has_no_directory() {
        for uid in ["", ".", "..", "a/b", "../x", "a\0b"] {
            assert_eq!(PodDirs::new(Path::new("/root"), &uid.into()), None, "{uid:?}");
        }
    }
}
