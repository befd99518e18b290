//! The desired state of each volume of a pod, from its spec and the known objects and claims it refers to. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::error::{ContentError, VolumeProblem};
use super::external::External;
use super::files::{Files, check_tree};
use super::kinds::{claim, config_map, downward_api, empty_dir, host_path, nfs, projected, secret};
use super::layout::{Kind, group_file_mode};
use hostlet_pod::objects::{
    ClaimRef, ClaimState, Object, ObjectError, ObjectRef, ObjectState, ObjectStates, TokenRequest,
};

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

/// The known objects, claims and tokens for a pod's volumes.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) objects: ObjectStates,
    /// The claims by name.
    pub(super) claims: BTreeMap<String, ClaimState>,
    /// Tokens by volume and path.
    pub(super) tokens: BTreeMap<TokenKey, Result<String, ObjectError>>,
}

/// Identifies a token of a pod: the name of its volume, and its path in it.
pub(super) type TokenKey = (String, String);

impl Snapshot {
    /// The object; an empty one if it is missing and optional.
    pub(super) fn object(
        &self,
        object: &ObjectRef,
        optional: bool,
    ) -> Result<std::sync::Arc<Object>, ContentError> {
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
}

impl Context<'_> {
    pub(super) fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The group that owns the pod's volumes (`fsGroup`).
    pub(super) fn group(&self) -> Option<u32> {
        let context = self.pod.spec.as_ref()?.security_context.as_ref()?;
        context.fs_group.and_then(|group| u32::try_from(group).ok())
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

/// The desired content of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Whatever containers write.
    Theirs,
    /// These files.
    Ours(Files),
    /// Its content is not available now. Existing content stays.
    Unknown(ContentError),
}

/// A volume with a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    pub(super) kind: Kind,
    pub(super) store: Store,
    /// The permissions of its directory, unless every user may write (`emptyDir.mode`).
    pub(super) mode: Option<u32>,
    /// The group that owns it.
    pub(super) group: Option<u32>,
    pub(super) content: Content,
}

/// A desired volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DesiredVolume {
    /// One with a directory.
    Own(Desired),
    /// A host path.
    Host { path: PathBuf, path_type: host_path::PathType, read_only: bool },
    /// A mount of what outlives the pod.
    External(External),
    /// One that cannot be set up.
    Invalid(VolumeProblem),
    /// One whose claim cannot be used.
    Unprocessed(String),
}

/// The desired state of `volume`.
pub(super) fn desired(volume: &Volume, context: &Context<'_>) -> DesiredVolume {
    let ours = |kind: Kind, store: Store, files: Result<Files, ContentError>| {
        let files = files.and_then(|files| check_tree(&files).map(|()| files).map_err(Into::into));
        let content = match files {
            Ok(files) => Content::Ours(with_group(files, context.group())),
            Err(error) => Content::Unknown(error),
        };
        DesiredVolume::Own(Desired { kind, store, mode: None, group: context.group(), content })
    };
    let invalid = |error: ContentError| DesiredVolume::Invalid(VolumeProblem::new(&volume.name, &error));
    // Secrets are never on disk; ConfigMaps may be, as upstream.
    let memory = Store::Memory(empty_dir::memory_size(None, context));
    if let Some(source) = &volume.empty_dir {
        match empty_dir::store(source, context) {
            Ok(store) => DesiredVolume::Own(Desired {
                kind: Kind::EmptyDir,
                store,
                mode: empty_dir::mode(source),
                group: context.group(),
                content: Content::Theirs,
            }),
            Err(error) => invalid(error),
        }
    } else if let Some(source) = &volume.host_path {
        match host_path::PathType::from_api(source.type_.as_deref()) {
            Ok(path_type) => {
                DesiredVolume::Host { path: source.path.clone().into(), path_type, read_only: false }
            }
            Err(error) => invalid(error),
        }
    } else if let Some(source) = &volume.persistent_volume_claim {
        claim::desired(&volume.name, source, context)
    } else if let Some(source) = &volume.nfs {
        DesiredVolume::External(nfs::of_pod(&volume.name, source))
    } else if let Some(source) = &volume.config_map {
        ours(Kind::ConfigMap, Store::Disk, config_map::files(source, context))
    } else if let Some(source) = &volume.secret {
        ours(Kind::Secret, memory, secret::files(source, context))
    } else if let Some(source) = &volume.downward_api {
        ours(Kind::DownwardApi, memory, downward_api::files(source, context))
    } else if let Some(source) = &volume.projected {
        ours(Kind::Projected, memory, projected::files(&volume.name, source, context))
    } else {
        invalid(ContentError::Unsupported(format!("the type of volume {:?}", volume.name)))
    }
}

fn with_group(mut files: Files, group: Option<u32>) -> Files {
    if group.is_some() {
        for file in files.values_mut() {
            file.mode = group_file_mode(file.mode, true);
        }
    }
    files
}

/// The claims that a pod's volumes refer to.
pub(super) fn claims(pod: &Pod) -> Vec<ClaimRef> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let claim = |name: &String| ClaimRef { namespace: namespace.clone(), name: name.clone() };
    sources.map(|source| claim(&source.claim_name)).collect()
}

/// The objects that a pod's volumes refer to.
pub(super) fn references(pod: &Pod) -> Vec<ObjectRef> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let references = volumes.flat_map(|volume| {
        let own = [
            volume.config_map.as_ref().map(|source| ObjectRef::config_map(&source.name, namespace)),
            volume.secret.as_ref().map(|source| {
                ObjectRef::secret(source.secret_name.as_deref().unwrap_or_default(), namespace)
            }),
        ];
        let projected = volume.projected.iter().flat_map(|source| projected::references(source, namespace));
        own.into_iter().flatten().chain(projected).collect::<Vec<_>>()
    });
    references.collect()
}

/// The tokens in a pod's volumes.
pub(super) fn token_requests(pod: &Pod) -> BTreeMap<TokenKey, TokenRequest> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| Some((volume, volume.projected.as_ref()?)))
        .flat_map(|(volume, source)| projected::token_requests(&volume.name, source, pod))
        .collect()
}
