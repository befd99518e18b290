//! PersistentVolumes of the type local: directories of this host, which are mounted for the pod. Pure.

use hostlet_base::causes::{Group, Rule, rule};
use k8s_openapi::api::core::v1::Volume;

use super::kind::Kind;
use crate::error::VolumeStep;
use crate::model::{BlockDevice, Context, DesiredVolume, External, KindDirectory, Persistent, Provider};

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/local-volume", provider: Provider::Host };

/// The filesystem that a block device gets unless its PersistentVolume names another.
const FS_TYPE: &str = "ext4";

/// Causes why a local volume cannot be mounted.
const RULES: &[Rule] = &[
    rule(
        &["newmounter initialization failed", "does not exist"],
        "the directory of a local PersistentVolume does not exist on this host",
        "create it or mount its disk, or correct local.path of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["only directory and block device are supported"],
        "the path of a local PersistentVolume is not a directory",
        "correct local.path of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["mapvolume", "does not exist"],
        "the device of a local PersistentVolume does not exist on this host",
        "attach it, or correct local.path of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["mapvolume", "is not a block device"],
        "the path of a local PersistentVolume with volumeMode: Block is no block device",
        "correct local.path or volumeMode of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["cannot mount unformatted disk"],
        "the device of a local PersistentVolume has no filesystem, and is only to be read",
        "let a pod that may write use it first, or make the filesystem by hand",
    ),
    rule(
        &["failed to get disk format of disk"],
        "it cannot be found out whether the device of a local PersistentVolume has a filesystem, and so none is made on it",
        "check that the device can be read and that blkid is installed; hostlet retries automatically",
    ),
    rule(
        &["format of disk", "failed"],
        "no filesystem can be made on the device of a local PersistentVolume",
        "install the program for local.fsType (mkfs.ext4 is in e2fsprogs, mkfs.xfs in xfsprogs), or correct local.fsType; hostlet \
         retries automatically",
    ),
    rule(
        &["'fsck' found errors on device"],
        "the filesystem on the device of a local PersistentVolume is damaged, and fsck could not repair it by itself",
        "repair it by hand (fsck), or restore it; hostlet retries automatically",
    ),
    rule(
        &["failed while expanding volume", "resize of device"],
        "the filesystem of a local PersistentVolume could not be made as large as its device",
        "install the program that grows it (resize2fs is in e2fsprogs, xfs_growfs in xfsprogs, btrfs in btrfs-progs), or see what it says; \
         hostlet retries automatically",
    ),
    rule(
        &["failed while expanding volume", "resize of format"],
        "the filesystem of a local PersistentVolume is of a type that cannot grow while it is mounted",
        "set spec.capacity of the PersistentVolume back to status.capacity of its claim, or use ext4, xfs or btrfs",
    ),
    rule(
        &["setting volume ownership for"],
        "the files of a volume are still being given to the pod's group",
        "wait, or set fsGroupChangePolicy: OnRootMismatch so that it happens once only",
    ),
];

/// The kind of local volumes.
pub(super) struct LocalVolume;

impl Kind for LocalVolume {
    fn is_kind_of(&self, _volume: &Volume) -> bool {
        false
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn desired(&self, _volume: &Volume, _context: &Context<'_>) -> Option<DesiredVolume> {
        None
    }

    fn desired_persistent(&self, volume: &Persistent<'_>, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.spec.local.as_ref()?;
        if source.path.split('/').any(|part| part == "..") {
            let cause = format!("invalid path: {} must not contain '..'", source.path);
            return Some(volume.failed(VolumeStep::SetUp, cause));
        }
        // Upstream takes a relative path as one from the root.
        let path =
            if source.path.starts_with('/') { source.path.clone() } else { format!("/{}", source.path) };
        if volume.is_block {
            return Some(DesiredVolume::Device(BlockDevice {
                directory: DIRECTORY,
                name: volume.name.to_owned(),
                device: path.into(),
                is_on_host: true,
                read_only: volume.read_only,
                is_exclusive: volume.is_exclusive(),
                claim: volume.claim(context),
            }));
        }
        Some(DesiredVolume::External(External {
            directory: DIRECTORY,
            name: volume.name.to_owned(),
            unit: path.clone().into(),
            source: path,
            options: volume.options.clone(),
            read_only: volume.read_only,
            group: context.group().map(|group| (group, context.group_change())),
            is_exclusive: volume.is_exclusive(),
            fs_type: source.fs_type.clone().filter(|it| !it.is_empty()).unwrap_or_else(|| FS_TYPE.to_owned()),
            claim: volume.claim(context),
        }))
    }

    fn has_devices(&self) -> bool {
        true
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}
