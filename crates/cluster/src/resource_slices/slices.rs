//! Requests about ResourceSlices. As the Node authorizer and the admission plugin NodeRestriction require it, lists and watches
//! select the slices of this node, and only those are created or deleted. Decides nothing.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::TypeMeta;
use kube::runtime::watcher::Config;
use serde_json::{Value, json};

use super::encode::{ObservedSlice, Pool, Slice, SliceSpec, Version};
use crate::api::{ApiErrorKind, TypedApi, Wire, error_kind, message};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SliceError {
    /// The slices cannot be listed.
    #[error("cannot list ResourceSlices: {}", message(.0))]
    List(Box<kube::Error>),
    /// Whether lists are stored cannot be found out.
    #[error("cannot find out whether the API server stores lists: {}", message(.0))]
    Probe(Box<kube::Error>),
    /// A slice cannot be created.
    #[error("cannot create a ResourceSlice: {}", message(.0))]
    Create(Box<kube::Error>),
    /// A slice cannot be updated.
    #[error("cannot update ResourceSlice {name}: {}", message(error))]
    Update { name: String, error: Box<kube::Error> },
    /// A slice cannot be deleted.
    #[error("cannot delete ResourceSlice {name}: {}", message(error))]
    Delete { name: String, error: Box<kube::Error> },
}

impl SliceError {
    /// The class of the error.
    pub(super) fn kind(&self) -> ApiErrorKind {
        match self {
            Self::List(error) | Self::Probe(error) | Self::Create(error) => error_kind(error),
            Self::Update { error, .. } | Self::Delete { error, .. } => error_kind(error),
        }
    }

    /// The pause that the server asks for.
    pub(super) fn retry_after(&self) -> Duration {
        self.kind().retry_after()
    }

    /// Whether a slice may have been created nevertheless.
    pub(super) fn may_have_created(&self) -> bool {
        match self {
            Self::Create(_) => match self.kind() {
                ApiErrorKind::Unavailable | ApiErrorKind::AlreadyExists => true,
                ApiErrorKind::NotFound
                | ApiErrorKind::Conflict
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid
                | ApiErrorKind::TooMany(_) => false,
            },
            Self::List(_) | Self::Probe(_) | Self::Update { .. } | Self::Delete { .. } => false,
        }
    }
}

/// The Node that owns the slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeOwner {
    pub(super) name: String,
    pub(super) uid: String,
}

impl NodeOwner {
    fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

/// The ResourceSlices of this node in one version of the API.
#[derive(Clone)]
pub(super) struct SliceApi {
    slices: TypedApi<Slice>,
    node: String,
    version: Version,
}

impl SliceApi {
    pub(super) fn new(client: Client, node: String, version: Version) -> Self {
        Self { slices: TypedApi::all_with(client, &version.resource()), node, version }
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The slices through another client.
    pub(super) fn objects(&self, client: Client) -> TypedApi<Slice> {
        TypedApi::all_with(client, &self.version.resource())
    }

    fn selector(&self) -> String {
        format!("spec.nodeName={}", self.node)
    }

    /// What a watch selects.
    pub(super) fn config(&self) -> Config {
        Config::default().fields(&self.selector())
    }

    /// Whether the server has this version.
    pub(super) async fn is_served(&self) -> Result<bool, SliceError> {
        match self.slices.list(&ListParams::default().fields(&self.selector()).limit(1)).await {
            Ok(_) => Ok(true),
            Err(error) if error_kind(&error) == ApiErrorKind::NotFound => Ok(false),
            Err(error) => Err(SliceError::List(Box::new(error))),
        }
    }

    /// Whether the server stores attributes with lists. Found by a dry run, because a server drops fields that it does not know or
    /// whose feature is off.
    pub(super) async fn stores_lists(&self, driver: &str, pool: &str) -> Result<bool, SliceError> {
        let device = json!({"name": "probe", "attributes": {"list": {"ints": [1]}}});
        let pool = Pool { name: pool.to_owned(), generation: 1, resource_slice_count: 1 };
        let name = super::pool::slice_name(&self.node, driver, rand::random());
        let slice = self.slice(name, driver, pool, vec![self.version.device(device)], None);
        let dry_run = PostParams { dry_run: true, field_manager: None };
        match self.slices.create(&dry_run, &Wire(slice)).await {
            Ok(Wire(stored)) => {
                let devices = stored.spec.devices.unwrap_or_default();
                let path = match self.version {
                    Version::V1 | Version::V1Beta2 => "/attributes/list/ints/0",
                    Version::V1Beta1 => "/basic/attributes/list/ints/0",
                };
                Ok(devices.first().and_then(|device| device.pointer(path)) == Some(&json!(1)))
            }
            // Without its list, the attribute has no value.
            Err(error) if error_kind(&error) == ApiErrorKind::Invalid => Ok(false),
            Err(error) => Err(SliceError::Probe(Box::new(error))),
        }
    }

    fn slice(
        &self,
        name: String,
        driver: &str,
        pool: Pool,
        devices: Vec<Value>,
        owner: Option<&NodeOwner>,
    ) -> Slice {
        let resource = self.version.resource();
        Slice {
            types: Some(TypeMeta { api_version: resource.api_version, kind: resource.kind }),
            metadata: ObjectMeta {
                name: Some(name),
                owner_references: owner.map(|owner| vec![owner.reference()]),
                ..ObjectMeta::default()
            },
            spec: SliceSpec {
                driver: driver.to_owned(),
                node_name: Some(self.node.clone()),
                pool,
                devices: Some(devices),
            },
            status: None,
        }
    }

    /// Creates a slice with devices in the form of v1.
    pub(super) async fn create(
        &self,
        name: String,
        driver: &str,
        pool: Pool,
        devices: Vec<Value>,
        owner: &NodeOwner,
    ) -> Result<Slice, SliceError> {
        let devices = devices.into_iter().map(|device| self.version.device(device)).collect();
        let slice = self.slice(name, driver, pool, devices, Some(owner));
        let created = self.slices.create(&PostParams::default(), &Wire(slice)).await;
        created.map(|Wire(slice)| slice).map_err(|error| SliceError::Create(Box::new(error)))
    }

    /// Replaces the content of the observed version of a slice. What others added to its metadata remains.
    pub(super) async fn update(
        &self,
        observed: &ObservedSlice,
        pool: Pool,
        devices: Vec<Value>,
        owner: &NodeOwner,
    ) -> Result<Slice, SliceError> {
        let devices: Vec<Value> = devices.into_iter().map(|device| self.version.device(device)).collect();
        self.patch(observed, json!({"pool": pool, "devices": devices}), owner).await
    }

    /// Changes only the owner.
    pub(super) async fn set_owner(
        &self,
        observed: &ObservedSlice,
        owner: &NodeOwner,
    ) -> Result<Slice, SliceError> {
        self.patch(observed, json!({}), owner).await
    }

    async fn patch(
        &self,
        observed: &ObservedSlice,
        spec: Value,
        owner: &NodeOwner,
    ) -> Result<Slice, SliceError> {
        // The version makes it a conflict if somebody else changed the slice.
        let metadata = json!({
            "uid": observed.uid, "resourceVersion": observed.version, "ownerReferences": [owner.reference()],
        });
        let patch = Patch::Merge(json!({"metadata": metadata, "spec": spec}));
        let patched = self.slices.patch(&observed.name, &PatchParams::default(), &patch).await;
        patched
            .map(|Wire(slice)| slice)
            .map_err(|error| SliceError::Update { name: observed.name.clone(), error: Box::new(error) })
    }

    /// Deletes this slice, not another one of its name. A missing one counts as deleted.
    pub(super) async fn delete(&self, name: &str, uid: &str) -> Result<(), SliceError> {
        let uid = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = DeleteParams::default().preconditions(uid);
        match self.slices.delete(name, &parameters).await {
            Ok(_) => Ok(()),
            Err(error) if error_kind(&error) == ApiErrorKind::NotFound => Ok(()),
            Err(error) => Err(SliceError::Delete { name: name.to_owned(), error: Box::new(error) }),
        }
    }
}
