//! hostPath volumes, directly in a pod or behind a claim: paths of the host, which are checked and never removed. Pure.

use hostlet_base::causes::{Group, Rule, rule};
use k8s_openapi::api::core::v1::{HostPathVolumeSource, Volume};

use super::kind::Kind;
use crate::error::{ContentError, VolumeStep};
use crate::model::{Context, DesiredVolume, KindDirectory, Persistent};
use crate::path_type::PathType;

/// Upstream's name of the plugin.
pub(crate) const PLUGIN: &str = "kubernetes.io/host-path";

/// Causes why a host path cannot be used.
const RULES: &[Rule] = &[
    rule(
        &["mount options are not supported for this volume type"],
        "a PersistentVolume of the type hostPath has mount options, which have no effect there",
        "remove mountOptions from the PersistentVolume",
    ),
    rule(
        &["hostpath type check failed", "is not a directory"],
        "a hostPath volume requires a directory that does not exist on this host",
        "create it (mkdir -p), correct hostPath.path, or set hostPath.type to DirectoryOrCreate; hostlet \
         retries automatically",
    ),
    rule(
        &["hostpath type check failed", "is not a file"],
        "a hostPath volume requires a file that does not exist on this host",
        "create it, correct hostPath.path, or set hostPath.type to FileOrCreate; hostlet retries automatically",
    ),
    rule(
        &["hostpath type check failed", "is not a socket"],
        "a hostPath volume requires a socket that does not exist on this host",
        "start the service that listens on it, or correct hostPath.path; hostlet retries automatically",
    ),
    rule(
        &["hostpath type check failed", "device"],
        "a hostPath volume requires a device that does not exist on this host",
        "check that the device exists (ls -l /dev) and its driver is loaded, or correct hostPath.path; hostlet \
         retries automatically",
    ),
    rule(
        &["for volume", "not a directory"],
        "a component of a volume's path is not a directory",
        "correct the path in the message, in the manifest or on this host; hostlet retries automatically",
    ),
];

/// The kind of hostPath volumes.
pub(super) struct HostPath;

impl Kind for HostPath {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.host_path.is_some()
    }

    fn plugin(&self) -> &'static str {
        PLUGIN
    }

    fn directory(&self) -> Option<KindDirectory> {
        None
    }

    fn desired(&self, volume: &Volume, _context: &Context<'_>) -> Option<DesiredVolume> {
        let desired = desired(volume.host_path.as_ref()?, false);
        Some(desired.unwrap_or_else(|error| DesiredVolume::invalid(&volume.name, &error)))
    }

    fn desired_persistent(&self, volume: &Persistent<'_>, _context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.spec.host_path.as_ref()?;
        if !volume.options.is_empty() {
            let cause = "mount options are not supported for this volume type";
            return Some(volume.failed(VolumeStep::MountOptions, cause));
        }
        let desired = desired(source, volume.read_only);
        Some(desired.unwrap_or_else(|error| volume.failed(VolumeStep::SetUp, error.to_string())))
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

fn desired(source: &HostPathVolumeSource, read_only: bool) -> Result<DesiredVolume, ContentError> {
    let path_type = PathType::from_api(source.type_.as_deref())?;
    Ok(DesiredVolume::Host { path: source.path.clone().into(), path_type, read_only })
}
