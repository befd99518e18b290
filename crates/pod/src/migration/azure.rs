//! Disks and file shares of Azure. Pure.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, AzureFilePersistentVolumeSource, AzureFileVolumeSource, CSIPersistentVolumeSource,
    ObjectReference, SecretReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{MigrationError, source};

const DISK: &str = "disk.csi.azure.com";
const FILE: &str = "file.csi.azure.com";

/// The only kind of disk that the driver knows.
const MANAGED: &str = "Managed";

/// The annotation of a volume with the resource group of its file share.
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";

pub(super) fn disk(disk: AzureDiskVolumeSource) -> Result<CSIPersistentVolumeSource, MigrationError> {
    if let Some(kind) = disk.kind.filter(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
        return Err(MigrationError::AzureDiskKind(kind));
    }
    let attributes = [
        Some(("kind", MANAGED.to_owned())),
        disk.caching_mode.map(|mode| ("cachingmode", mode)),
        disk.fs_type.clone().map(|fs_type| ("fstype", fs_type)),
    ];
    let attributes = attributes.into_iter().flatten();
    Ok(source(DISK, disk.disk_uri, disk.fs_type, disk.read_only, attributes))
}

pub(super) fn file(
    metadata: &ObjectMeta,
    claim: Option<&ObjectReference>,
    share: AzureFilePersistentVolumeSource,
) -> Result<CSIPersistentVolumeSource, MigrationError> {
    let namespace = match share.secret_namespace {
        Some(namespace) => Some(namespace),
        None => claim.and_then(|claim| claim.namespace.clone()),
    };
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or(MigrationError::SecretNamespace)?;
    let annotations = metadata.annotations.as_ref();
    let volume = ShareOfVolume {
        resource_group: annotations.and_then(|all| all.get(RESOURCE_GROUP)).map_or("", String::as_str),
        volume: metadata.name.as_deref().unwrap_or_default(),
        namespace,
    };
    Ok(volume.source(share.secret_name, share.share_name, share.read_only))
}

pub(super) fn inline_file(
    volume: &str,
    pod_namespace: &str,
    share: AzureFileVolumeSource,
) -> CSIPersistentVolumeSource {
    let namespace = if pod_namespace.is_empty() { "default" } else { pod_namespace };
    let volume = ShareOfVolume { resource_group: "", volume, namespace: namespace.to_owned() };
    volume.source(share.secret_name, share.share_name, share.read_only)
}

/// What makes the use of a file share unique.
struct ShareOfVolume<'a> {
    resource_group: &'a str,
    /// The name of the volume.
    volume: &'a str,
    /// The namespace of the secret.
    namespace: String,
}

impl ShareOfVolume<'_> {
    fn source(self, secret: String, share: String, read_only: Option<bool>) -> CSIPersistentVolumeSource {
        let Self { resource_group, volume, namespace } = self;
        let account = storage_account(&secret);
        let handle = format!("{resource_group}#{account}#{share}#{volume}#{namespace}");
        let secret = SecretReference { name: Some(secret), namespace: Some(namespace) };
        CSIPersistentVolumeSource {
            node_stage_secret_ref: Some(secret),
            ..source(FILE, handle, None, read_only, [("sharename", share)])
        }
    }
}

/// The storage account that the name of a secret has (`azure-storage-account-(.+)-secret` somewhere in it), or that name.
fn storage_account(secret: &str) -> &str {
    let account = || {
        let (_, rest) = secret.split_once("azure-storage-account-")?;
        let (account, _) = rest.rsplit_once("-secret")?;
        (!account.is_empty()).then_some(account)
    };
    account().unwrap_or(secret)
}
