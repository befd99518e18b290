//! Where the volumes of a pod are on the host, and what of a volume's directory has which mode. Wire format: a stock
//! kubelet before and after us looks in the same places. Pure.

use std::path::{Path, PathBuf};

use crate::types::PodUid;

/// Mode of a volume's directory before it is given to a group: any user of the pod's containers writes there.
pub(super) const ROOT_MODE: u32 = 0o777;
/// Mode of directories that only lead to volumes.
pub(super) const PARENT_MODE: u32 = 0o755;
/// Mode of the directories that others must not look into.
pub(super) const POD_MODE: u32 = 0o750;
/// Mode of directories among the files of a volume.
pub(super) const DIR_MODE: u32 = 0o755;
/// What a group gets of a directory it is given: to enter and read it, and that what is made there is its own too.
const GROUP_DIR: u32 = 0o2110;
/// What a group gets of files that are only read.
const GROUP_READ: u32 = 0o440;
/// What a group gets of files that are written too.
const GROUP_WRITE: u32 = 0o660;

/// The link that points at the files as they are now.
pub(super) const DATA: &str = "..data";
/// The link that is about to become [`DATA`].
pub(super) const NEW_DATA: &str = "..data_tmp";

/// The kinds of volume that have a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    EmptyDir,
    ConfigMap,
    Secret,
    DownwardApi,
    Projected,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::EmptyDir, Self::ConfigMap, Self::Secret, Self::DownwardApi, Self::Projected];

    /// The plugin's name as directories have it.
    pub(super) fn dir_name(self) -> &'static str {
        match self {
            Self::EmptyDir => "kubernetes.io~empty-dir",
            Self::ConfigMap => "kubernetes.io~configmap",
            Self::Secret => "kubernetes.io~secret",
            Self::DownwardApi => "kubernetes.io~downward-api",
            Self::Projected => "kubernetes.io~projected",
        }
    }

    /// Whether the volume holds files that the daemon writes, and its containers only read.
    pub(super) fn is_written_by_us(self) -> bool {
        match self {
            Self::EmptyDir => false,
            Self::ConfigMap | Self::Secret | Self::DownwardApi | Self::Projected => true,
        }
    }
}

/// A pod's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodLayout {
    dir: PathBuf,
}

impl PodLayout {
    /// The directories of a pod below the daemon's `root`; none for a UID that is no name of a directory.
    pub(super) fn new(root: &Path, uid: &PodUid) -> Option<Self> {
        let uid = uid.as_str();
        let is_name = !matches!(uid, "" | "." | "..") && !uid.contains(['/', '\0']);
        is_name.then(|| Self { dir: root.join("pods").join(uid) })
    }

    /// Where its volumes of one kind are.
    pub(super) fn volumes(&self, kind: Kind) -> PathBuf {
        self.dir.join("volumes").join(kind.dir_name())
    }

    /// One volume.
    pub(super) fn volume(&self, kind: Kind, name: &str) -> PathBuf {
        self.volumes(kind).join(name)
    }

    /// Where it is written down which volumes were made to the end.
    pub(super) fn metas(&self) -> PathBuf {
        self.dir.join("plugins").join(Kind::EmptyDir.dir_name())
    }

    /// The directory whose file `ready` says that a volume was made. All kinds but the empty directory are made by way of
    /// one, which gets a name of its own.
    pub(super) fn meta(&self, kind: Kind, name: &str) -> PathBuf {
        self.metas().join(if kind.is_written_by_us() { format!("wrapped_{name}") } else { name.to_owned() })
    }
}

/// The mode of a directory once its volume belongs to the pod's `fsGroup`.
pub(super) fn group_dir_mode(mode: u32, written_by_us: bool) -> u32 {
    group_file_mode(mode, written_by_us) | GROUP_DIR
}

/// The mode of a file once its volume belongs to the pod's `fsGroup`.
pub(super) fn group_file_mode(mode: u32, written_by_us: bool) -> u32 {
    mode | if written_by_us { GROUP_READ } else { GROUP_WRITE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_modes_are_those_of_a_stock_kubelet() {
        let layout = PodLayout::new(Path::new("/var/lib/kubelet"), &"u1".into()).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let pod = "/var/lib/kubelet/pods/u1";
        assert_eq!(
            text(layout.volume(Kind::ConfigMap, "cm")),
            format!("{pod}/volumes/kubernetes.io~configmap/cm")
        );
        let plugins = format!("{pod}/plugins/kubernetes.io~empty-dir");
        assert_eq!(text(layout.meta(Kind::EmptyDir, "mem")), format!("{plugins}/mem"));
        assert_eq!(text(layout.meta(Kind::Secret, "sec")), format!("{plugins}/wrapped_sec"));
        assert_eq!(group_dir_mode(0o777, false), 0o2777);
        assert_eq!(group_dir_mode(0o1777, true), 0o3777);
        assert_eq!(group_dir_mode(0o755, true), 0o2755);
        assert_eq!((group_file_mode(0o600, true), group_file_mode(0o400, true)), (0o640, 0o440));
    }

    #[test]
    fn a_uid_that_leads_elsewhere_has_no_directory() {
        for uid in ["", ".", "..", "a/b", "../x", "a\0b"] {
            assert_eq!(PodLayout::new(Path::new("/root"), &uid.into()), None, "{uid:?}");
        }
    }
}
