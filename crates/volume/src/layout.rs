//! Paths and modes of volumes on the host. A wire format: a stock kubelet before or after hostlet uses the same paths. Pure.

use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::PodDirs;

use super::kinds::empty_dir;
use super::model::KindDirectory;

/// Mode of a volume's directory without a group: every user may write.
pub(super) const ROOT_MODE: u32 = 0o777;
/// Mode of the parent directories of volumes.
pub(super) const PARENT_MODE: u32 = 0o755;
/// Mode of directories that other users must not read.
pub(super) const POD_MODE: u32 = 0o750;
/// Mode of directories between the files of a volume.
pub(super) const DIR_MODE: u32 = 0o755;
/// Mode bits added to a directory of a group: enter, read, and setgid.
const GROUP_DIR: u32 = 0o2110;
/// Mode bits added to read-only files of a group.
const GROUP_READ: u32 = 0o440;
/// Mode bits added to writable files of a group.
const GROUP_WRITE: u32 = 0o660;

/// The link to the directory with the current files.
pub(super) const DATA: &str = "..data";
/// The new link that is renamed to [`DATA`].
pub(super) const NEW_DATA: &str = "..data_tmp";

/// The directories of a pod's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodLayout {
    dirs: PodDirs,
}

impl PodLayout {
    /// The directories of a pod below the daemon's `root`; `None` if the UID is not a valid directory name.
    pub(super) fn new(root: &Path, uid: &PodUid) -> Option<Self> {
        PodDirs::new(root, uid).map(|dirs| Self { dirs })
    }

    /// The directories that do not depend on the kinds of its volumes.
    pub(super) fn dirs(&self) -> &PodDirs {
        &self.dirs
    }

    /// The directory of its volumes of one kind.
    pub(super) fn volumes(&self, kind: KindDirectory) -> PathBuf {
        self.dirs.volumes().join(kind.name())
    }

    /// The directory of its block devices of one kind.
    pub(super) fn devices(&self, kind: KindDirectory) -> PathBuf {
        self.dirs.block_devices().join(kind.name())
    }

    /// The directory of a volume.
    pub(super) fn volume(&self, kind: KindDirectory, name: &str) -> PathBuf {
        self.volumes(kind).join(name)
    }

    /// Where a part of a volume is mounted for one mount of a container.
    pub(super) fn sub_path(&self, volume: &str, container: &str, index: usize) -> PathBuf {
        self.dirs.sub_paths().join(volume).join(container).join(index.to_string())
    }

    /// The directory of the ready markers.
    pub(super) fn metas(&self) -> PathBuf {
        self.dirs.plugins().join(empty_dir::DIRECTORY.name())
    }

    /// The directory with what is remembered of the pod's claims.
    pub(super) fn claims(&self) -> PathBuf {
        self.dirs.plugins().join("kubernetes.io~persistent-volume-claim")
    }

    /// The directory whose file `ready` marks a volume as complete. Kinds other than emptyDir are based on one upstream, hence the
    /// prefix.
    pub(super) fn meta(&self, kind: KindDirectory, name: &str) -> PathBuf {
        if kind.is_external() {
            return self.dirs.plugins().join(kind.name()).join(name);
        }
        self.metas().join(if kind.is_written_by_us() { format!("wrapped_{name}") } else { name.to_owned() })
    }
}

/// The directory of the block devices of one kind, of all pods, in the daemon's `root`.
pub(super) fn plugin_devices(root: &Path, kind: KindDirectory) -> PathBuf {
    root.join("plugins").join(kind.plugin).join("volumeDevices")
}

/// The mode of a directory in a volume with an `fsGroup`.
pub(super) fn group_dir_mode(mode: u32, written_by_us: bool) -> u32 {
    group_file_mode(mode, written_by_us) | GROUP_DIR
}

/// The mode of a file in a volume with an `fsGroup`.
pub(super) fn group_file_mode(mode: u32, written_by_us: bool) -> u32 {
    mode | if written_by_us { GROUP_READ } else { GROUP_WRITE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{config_map, secret};

    #[test]
    fn paths_and_modes_equal_the_stock_kubelets() {
        let layout = PodLayout::new(Path::new("/var/lib/kubelet"), &"u1".into()).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let pod = "/var/lib/kubelet/pods/u1";
        assert_eq!(
            text(layout.volume(config_map::DIRECTORY, "cm")),
            format!("{pod}/volumes/kubernetes.io~configmap/cm")
        );
        let plugins = format!("{pod}/plugins/kubernetes.io~empty-dir");
        assert_eq!(text(layout.meta(empty_dir::DIRECTORY, "mem")), format!("{plugins}/mem"));
        assert_eq!(text(layout.meta(secret::DIRECTORY, "sec")), format!("{plugins}/wrapped_sec"));
        assert_eq!(group_dir_mode(0o777, false), 0o2777);
        assert_eq!(group_dir_mode(0o1777, true), 0o3777);
        assert_eq!(group_dir_mode(0o755, true), 0o2755);
        assert_eq!((group_file_mode(0o600, true), group_file_mode(0o400, true)), (0o640, 0o440));
    }
}
