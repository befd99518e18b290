//! PersistentVolumes of the type local: directories of this host, which are mounted for the pod. Pure.

use hostlet_base::causes::{Group, Rule, rule};
use k8s_openapi::api::core::v1::Volume;

use super::kind::Kind;
use crate::error::VolumeStep;
use crate::model::{Context, DesiredVolume, External, KindDirectory, Persistent, Provider};

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/local-volume", provider: Provider::Host };

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
        &["block device", "of a local volume is not mounted"],
        "hostlet does not mount the device of a local PersistentVolume yet",
        "mount it on a directory of this host, and set local.path to that",
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
        Some(DesiredVolume::External(External {
            directory: DIRECTORY,
            name: volume.name.to_owned(),
            unit: path.clone().into(),
            source: path,
            options: volume.options.clone(),
            read_only: volume.read_only,
            group: context.group().map(|group| (group, context.group_change())),
            is_exclusive: volume.is_exclusive(),
        }))
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}
