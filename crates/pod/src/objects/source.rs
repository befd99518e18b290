//! The trait through which volumes and environments get ConfigMaps, Secrets, claims and service account tokens. No logic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::sync::watch;

use super::{ClaimRef, ClaimState};

/// A kind of object that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A ConfigMap, which may have text and binary data.
    ConfigMap,
    /// A Secret, whose data must never be logged.
    Secret,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        })
    }
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace: the pod's.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// The ConfigMap of this name.
    pub fn config_map(name: &str, namespace: &str) -> Self {
        Self { kind: ObjectKind::ConfigMap, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The Secret of this name.
    pub fn secret(name: &str, namespace: &str) -> Self {
        Self { kind: ObjectKind::Secret, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// The data of a ConfigMap or Secret, and a Secret's type.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// A ConfigMap's `data`, the only part of a ConfigMap that can become environment variables.
    pub text: BTreeMap<String, String>,
    /// A ConfigMap's `binaryData`, or a Secret's `data`.
    pub binary: BTreeMap<String, Vec<u8>>,
    /// A Secret's `type`.
    pub secret_type: String,
    /// A Secret's UID; empty without an API server.
    pub uid: String,
}

/// Never prints Secrets.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.text.keys()).entries(self.binary.keys()).finish()
    }
}

impl Object {
    /// All keys with their values.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let text = self.text.iter().map(|(key, value)| (key.as_str(), value.as_bytes()));
        text.chain(self.binary.iter().map(|(key, value)| (key.as_str(), value.as_slice())))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.text.get(key).map(String::as_bytes).or_else(|| self.binary.get(key).map(Vec::as_slice))
    }
}

impl From<ConfigMap> for Object {
    fn from(map: ConfigMap) -> Self {
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, data)| (key, data.0));
        Self { text: map.data.unwrap_or_default(), binary: binary.collect(), ..Self::default() }
    }
}

impl From<Secret> for Object {
    fn from(secret: Secret) -> Self {
        let binary = secret.data.unwrap_or_default().into_iter().map(|(key, data)| (key, data.0));
        let secret_type = secret.type_.unwrap_or_default();
        let uid = secret.metadata.uid.unwrap_or_default();
        Self { text: BTreeMap::new(), binary: binary.collect(), secret_type, uid }
    }
}

/// Why an object or a token is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The object does not exist. The text is the API server's, e.g. `configmap "x" not found`.
    #[error("{0}")]
    NotFound(String),
    /// The API server denied access.
    #[error("{0}")]
    Forbidden(String),
    /// The API server did not respond, or failed in a way that may be transient.
    #[error("{0}")]
    Unavailable(String),
}

impl ObjectError {
    /// The not-found error, worded as by the stock kubelet.
    pub fn not_found(object: &ObjectRef) -> Self {
        Self::NotFound(format!("{} {:?} not found", object.kind, object.name))
    }
}

/// What is known of an object at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObjectState {
    /// Requested, not yet known.
    #[default]
    Pending,
    /// Found, with this data.
    Found(Arc<Object>),
    /// Not available; the source keeps trying.
    Failed(ObjectError),
}

/// A request for a token that is bound to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// Namespace of the pod and of its service account.
    pub namespace: String,
    /// Name of the service account.
    pub service_account: String,
    /// Its UID, if the token must not be one of its successor.
    pub service_account_uid: Option<String>,
    /// The token's audience; empty for the API server.
    pub audiences: Vec<String>,
    /// Requested lifetime in seconds.
    pub expiration_seconds: i64,
    /// Name of the pod.
    pub pod_name: String,
    /// UID of the pod.
    pub pod_uid: String,
}

/// What is known of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccountInfo {
    /// Its UID.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A service account token that the API server issued.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token itself.
    pub value: String,
    /// Start of its validity: its expiration minus the granted lifetime.
    pub issued: Timestamp,
    /// Its expiration.
    pub expires: Timestamp,
}

/// Never prints the value.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token from {} to {}", self.issued, self.expires)
    }
}

/// A source of objects, service accounts and tokens.
#[async_trait]
pub trait ObjectSource: Send + Sync + 'static {
    /// Follows an object for as long as the receiver is kept. The receiver always sees the latest state. Receivers of one
    /// object may share a watch, which stops with the last receiver or once the object is known to be immutable. While the
    /// API server cannot be reached, the state is the last known one, or `Failed` if there is none; the source keeps
    /// retrying.
    fn watch(&self, object: &ObjectRef) -> watch::Receiver<ObjectState>;

    /// Follows a claim until it is bound, for as long as the receiver is kept.
    fn watch_claim(&self, claim: &ClaimRef) -> watch::Receiver<ClaimState>;

    /// Reads a service account. Has its own deadline.
    async fn service_account(&self, namespace: &str, name: &str) -> Result<ServiceAccountInfo, ObjectError>;

    /// Requests a new token. Not idempotent but harmless to repeat. Has its own deadline.
    async fn request_token(&self, request: &TokenRequest) -> Result<Token, ObjectError>;
}
