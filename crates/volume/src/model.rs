//! The values that volumes are made of: what is known of a pod, what its volumes should be, and where they are. They answer
//! questions about themselves and do nothing. Of this crate, only `error`, `files` and `path_type` are below them. Pure.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::{PodRef, PodUid};
use hostlet_csi::{ClaimOfPod, KnownDrivers, Publish, VolumeId};
use hostlet_host::GroupChange;
use hostlet_pod::objects::{
    CertificateRef, CertificateState, ClaimState, Object, ObjectError, ObjectRef, ObjectState, ObjectStates,
    Token, TrustBundleRef, TrustBundleState,
};
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Pod};

use super::error::{ContentError, HostError, VolumeProblem, VolumeStep};
use super::files::Files;
use super::path_type::PathType;

/// Returns the node's current labels.
pub type NodeLabels = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

/// The allocatable resources of this node, which the downward API reports for containers without limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAmounts {
    /// CPU, thousandths of a core.
    pub milli_cpu: i64,
    /// Memory, bytes.
    pub memory: i64,
    /// Local disk, bytes.
    pub ephemeral_storage: i64,
}

/// The known objects, claims, tokens, trust bundles and certificates for a pod's volumes.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) objects: ObjectStates,
    /// The claims by name.
    pub(super) claims: BTreeMap<String, ClaimState>,
    /// Tokens by volume and path.
    pub(super) tokens: BTreeMap<TokenKey, Result<Token, ObjectError>>,
    /// The CSIDriver objects.
    pub(super) drivers: KnownDrivers,
    pub(super) trust_bundles: BTreeMap<TrustBundleRef, TrustBundleState>,
    pub(super) certificates: BTreeMap<CertificateRef, CertificateState>,
}

/// Identifies a token of a pod: the name of its volume, and its path in it, or its audience if it is for the volume's driver.
pub(super) type TokenKey = (String, String);

impl Snapshot {
    /// The object; an empty one if it is missing and optional.
    pub(super) fn object(&self, object: &ObjectRef, optional: bool) -> Result<Arc<Object>, ContentError> {
        match self.objects.get(object) {
            Some(ObjectState::Found(object)) => Ok(object.clone()),
            Some(ObjectState::Failed(ObjectError::NotFound(_))) if optional => Ok(Default::default()),
            Some(ObjectState::Failed(error)) => Err(error.clone().into()),
            Some(ObjectState::Pending) | None => {
                Err(ContentError::Pending { kind: object.kind.to_string(), name: object.name.clone() })
            }
        }
    }
}

/// Inputs of volumes besides their spec.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) pod: &'a Pod,
    /// Memory limit of the pod, bytes.
    pub(super) memory_limit: Option<u64>,
    pub(super) node: &'a NodeAmounts,
    /// The node's labels.
    pub(super) labels: &'a BTreeMap<String, String>,
    pub(super) snapshot: &'a Snapshot,
    /// The label of containers' files by the host's SELinux policy; `None` without SELinux.
    pub(super) file_label: Option<&'a str>,
}

impl Context<'_> {
    pub(super) fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> PodUid {
        self.pod.metadata.uid.as_deref().unwrap_or_default().into()
    }

    /// The group that owns the pod's volumes (`fsGroup`).
    pub(super) fn group(&self) -> Option<u32> {
        let context = self.pod.spec.as_ref()?.security_context.as_ref()?;
        context.fs_group.and_then(|group| u32::try_from(group).ok())
    }

    /// When files are given to that group.
    pub(super) fn group_change(&self) -> GroupChange {
        let security = self.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        match security.and_then(|security| security.fs_group_change_policy.as_deref()) {
            Some("OnRootMismatch") => GroupChange::OnRootMismatch,
            Some(_) | None => GroupChange::Always,
        }
    }

    /// How containers use a volume.
    pub(super) fn uses(&self, volume: &str) -> Uses {
        let mut uses = Uses::default();
        let Some(spec) = &self.pod.spec else { return uses };
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let of_containers = containers.map(|it| (&it.volume_mounts, &it.volume_devices));
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        let of_ephemeral = ephemeral.map(|it| (&it.volume_mounts, &it.volume_devices));
        for (mounts, devices) in of_containers.chain(of_ephemeral) {
            uses.is_mounted |= mounts.iter().flatten().any(|mount| mount.name == volume);
            uses.is_device |= devices.iter().flatten().any(|device| device.name == volume);
        }
        uses
    }
}

/// How containers use a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// In their `volumeMounts`.
    pub(super) is_mounted: bool,
    /// In their `volumeDevices`.
    pub(super) is_device: bool,
}

/// A PersistentVolume that a claim of the pod is bound to.
pub(super) struct Persistent<'a> {
    pub(super) name: &'a str,
    /// The name of the pod's volume.
    pub(super) volume: &'a str,
    pub(super) spec: &'a PersistentVolumeSpec,
    /// Whether it is used as a block device.
    pub(super) is_block: bool,
    /// Its mount options, sorted.
    pub(super) options: Vec<String>,
    /// Whether the pod uses it read-only.
    pub(super) read_only: bool,
    /// Whether its type was one that Kubernetes once mounted itself.
    pub(super) is_migrated: bool,
}

impl Persistent<'_> {
    /// Whether only one pod may use it at a time.
    pub(super) fn is_exclusive(&self) -> bool {
        self.spec.access_modes.as_deref() == Some(&["ReadWriteOncePod".to_owned()])
    }

    /// The claim that says how large it is; `None` for a volume of a cloud that the pod's spec names, which has none.
    pub(super) fn claim(&self, context: &Context<'_>) -> Option<ClaimOfPod> {
        Some(ClaimOfPod {
            pod: PodRef::new(context.namespace(), context.name(), context.uid().as_str()),
            name: self.spec.claim_ref.as_ref()?.name.clone()?,
            volume: self.name.to_owned(),
            read_only: self.read_only,
        })
    }

    /// It cannot be used.
    pub(super) fn failed(&self, step: VolumeStep, cause: impl Into<String>) -> DesiredVolume {
        DesiredVolume::Invalid(VolumeProblem::Volume {
            step,
            volume: self.name.to_owned(),
            cause: cause.into(),
        })
    }
}

/// Who provides the content of volumes with a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provider {
    /// The containers write it.
    Containers,
    /// The daemon writes its files, and containers only read them.
    Daemon,
    /// A directory of this host, which is mounted there and outlives the pod.
    Host,
    /// A driver, which mounts it there. Only its owner takes it away (crate `csi`).
    Driver,
    /// A server, of which a filesystem of this type is mounted there and outlives the pod.
    Server { filesystem: &'static str },
}

/// The directory that a kind of volumes has in the directory of each pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KindDirectory {
    /// Upstream's name of the plugin, by which it is named.
    pub(super) plugin: &'static str,
    /// Who provides the content of the volumes in it.
    pub(super) provider: Provider,
}

impl KindDirectory {
    /// Its name, in which upstream escapes the plugin's.
    pub(super) fn name(self) -> String {
        self.plugin.replace('/', "~")
    }

    /// Whether the daemon writes the volumes' files and containers only read them.
    pub(super) fn is_written_by_us(self) -> bool {
        self.provider == Provider::Daemon
    }

    /// Whether the volumes are mounts of what outlives the pod.
    pub(super) fn is_external(self) -> bool {
        match self.provider {
            Provider::Host | Provider::Driver | Provider::Server { .. } => true,
            Provider::Containers | Provider::Daemon => false,
        }
    }

    /// Whether only the owners of drivers' volumes take them away.
    pub(super) fn is_of_drivers(self) -> bool {
        self.provider == Provider::Driver
    }

    /// The type of the filesystem that is mounted, if it is that of a server.
    pub(super) fn filesystem(self) -> Option<&'static str> {
        match self.provider {
            Provider::Server { filesystem } => Some(filesystem),
            Provider::Host | Provider::Driver | Provider::Containers | Provider::Daemon => None,
        }
    }
}

/// Where a volume stores its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Disk,
    /// A tmpfs with this size limit in bytes.
    Memory(u64),
    /// Huge pages of this size in bytes.
    HugePages(u64),
}

impl Store {
    /// The error of a volume stored here, which says how large the volume is if that is why it is full.
    pub(super) fn error(self, error: HostError) -> HostError {
        match (&error, self) {
            (HostError::File { source, .. }, Self::Memory(size))
                if source.kind() == ErrorKind::StorageFull =>
            {
                HostError::MemoryFull { size, source: Box::new(error) }
            }
            _ => error,
        }
    }
}

/// The desired content of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Whatever containers write.
    Theirs,
    Ours(Files),
    /// Its content is not available now. Existing content stays.
    Unknown(ContentError),
}

/// A volume with a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    pub(super) directory: KindDirectory,
    pub(super) store: Store,
    /// The permissions of its directory, unless every user may write (`emptyDir.mode`).
    pub(super) mode: Option<u32>,
    /// The group that owns it.
    pub(super) group: Option<u32>,
    pub(super) content: Content,
}

/// A volume that is a mount of something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct External {
    pub(super) directory: KindDirectory,
    /// The name of its directory: of the PersistentVolume, or of the volume if it is not one.
    pub(super) name: String,
    /// What is mounted: a path of this host, or `server:/path`.
    pub(super) source: String,
    /// The path or the server. All volumes on one server block together.
    pub(super) unit: PathBuf,
    /// Mount options without those of hostlet, sorted.
    pub(super) options: Vec<String>,
    pub(super) read_only: bool,
    /// The group that its files are given to, unless it is read-only.
    pub(super) group: Option<(u32, GroupChange)>,
    /// Whether only one pod may use it at a time.
    pub(super) is_exclusive: bool,
    /// The filesystem that is made and mounted if it is a block device.
    pub(super) fs_type: String,
    /// The claim with which it grows; `None` if volumes of its kind do not.
    pub(super) claim: Option<ClaimOfPod>,
}

/// A block device that containers use as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockDevice {
    pub(super) directory: KindDirectory,
    /// The name of the PersistentVolume.
    pub(super) name: String,
    /// Where it is.
    pub(super) device: PathBuf,
    /// Whether it is one of this host's, named by somebody: a driver's is as the driver made it.
    pub(super) is_on_host: bool,
    pub(super) read_only: bool,
    /// Whether only one pod may use it at a time.
    pub(super) is_exclusive: bool,
    /// The claim with which it grows; `None` if its driver grows it.
    pub(super) claim: Option<ClaimOfPod>,
}

/// A volume that grows with its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Growable {
    /// The claim.
    pub(super) claim: ClaimOfPod,
    /// The path of this host that it is.
    pub(super) path: PathBuf,
    /// How the pod has it.
    pub(super) form: GrowableForm,
}

/// How a pod has a volume that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GrowableForm {
    /// Mounted. `ready` is the directory of the marker that it can be used.
    Mounted { at: PathBuf, ready: PathBuf },
    /// As a device, which has its size already.
    Device,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriverVolume {
    /// The volume.
    pub(super) id: VolumeId,
    /// The name by which its owner knows it: of the PersistentVolume, or of the pod's volume.
    pub(super) spec_name: String,
    pub(super) is_block: bool,
    pub(super) read_only: bool,
    /// Whether its driver gets new secrets and tokens from time to time.
    pub(super) is_republished: bool,
    /// Whether it is mounted with an SELinux label.
    pub(super) is_labelled: bool,
    /// Whether its type was one that Kubernetes once mounted itself.
    pub(super) is_migrated: bool,
    /// What is asked of the owner, or why that is not known now. Then what is published stays.
    pub(super) request: Result<Publish, VolumeProblem>,
}

/// A desired volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DesiredVolume {
    /// One with a directory.
    Own(Desired),
    Host {
        path: PathBuf,
        path_type: PathType,
        read_only: bool,
    },
    /// A mount of what outlives the pod.
    External(External),
    /// A device of this host.
    Device(BlockDevice),
    /// One that a CSI driver mounts.
    Driver(Box<DriverVolume>),
    /// One that cannot be set up.
    Invalid(VolumeProblem),
    /// One whose claim cannot be used.
    Unprocessed(String),
}

impl DesiredVolume {
    /// The volume `name` of a pod, which cannot be set up.
    pub(super) fn invalid(name: &str, error: &ContentError) -> Self {
        Self::Invalid(VolumeProblem::new(name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::error_chain;

    use crate::actual::failed;

    #[test]
    fn a_full_volume_in_memory_names_its_size_and_where_that_comes_from() {
        let text = |kind: ErrorKind, store: Store| {
            error_chain(&store.error(failed("write", "/v/token".as_ref())(kind.into())))
        };
        let full = "the volume is in memory with a size of 64Ki, the least of its sizeLimit, the pod's limits.memory and the \
                    node's memory: cannot write /v/token: no storage space";
        assert_eq!(text(ErrorKind::StorageFull, Store::Memory(64 << 10)), full);
        assert_eq!(text(ErrorKind::StorageFull, Store::Disk), "cannot write /v/token: no storage space");
        let denied = text(ErrorKind::PermissionDenied, Store::Memory(64 << 10));
        assert_eq!(denied, "cannot write /v/token: permission denied");
    }
}
