//! What volumes and environments need of an API server: ConfigMaps and Secrets as they are now and as they change, and
//! tokens of service accounts. The seam to it; holds no logic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::sync::watch;

/// The kinds of object that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
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

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// What it is.
    pub kind: ObjectKind,
    /// Its namespace, which is the pod's.
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

/// What is in an object, in the one shape that ConfigMaps and Secrets share.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// A ConfigMap's `data`. Only this of a ConfigMap can be put into the environment.
    pub text: BTreeMap<String, String>,
    /// A ConfigMap's `binaryData`, or a Secret's `data`.
    pub binary: BTreeMap<String, Vec<u8>>,
}

/// Secrets are never printed.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.text.keys()).entries(self.binary.keys()).finish()
    }
}

impl Object {
    /// All keys with their content.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let text = self.text.iter().map(|(key, value)| (key.as_str(), value.as_bytes()));
        text.chain(self.binary.iter().map(|(key, value)| (key.as_str(), value.as_slice())))
    }

    /// The content under one key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.text.get(key).map(String::as_bytes).or_else(|| self.binary.get(key).map(Vec::as_slice))
    }
}

impl From<ConfigMap> for Object {
    fn from(map: ConfigMap) -> Self {
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, data)| (key, data.0));
        Self { text: map.data.unwrap_or_default(), binary: binary.collect() }
    }
}

impl From<Secret> for Object {
    fn from(secret: Secret) -> Self {
        let binary = secret.data.unwrap_or_default().into_iter().map(|(key, data)| (key, data.0));
        Self { text: BTreeMap::new(), binary: binary.collect() }
    }
}

/// Why an object or a token cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The API server says that there is no such object. The text is its own, e.g. `configmap "x" not found`.
    #[error("{0}")]
    NotFound(String),
    /// The API server does not let this node have it.
    #[error("{0}")]
    Forbidden(String),
    /// The API server did not answer, or answered with a failure that may pass.
    #[error("{0}")]
    Unavailable(String),
}

impl ObjectError {
    /// That an object does not exist, in the words of a stock kubelet.
    pub fn not_found(object: &ObjectRef) -> Self {
        Self::NotFound(format!("{} {:?} not found", object.kind, object.name))
    }
}

/// What is known of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObjectState {
    /// Nothing yet: it was asked for.
    #[default]
    Pending,
    /// It is this.
    Found(Arc<Object>),
    /// It could not be had; the source goes on trying.
    Failed(ObjectError),
}

/// A request for a token that is bound to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// Namespace of the pod and of its service account.
    pub namespace: String,
    /// The service account.
    pub service_account: String,
    /// Whom the token is for; empty for the API server itself.
    pub audiences: Vec<String>,
    /// How long it should be valid, seconds.
    pub expiration_seconds: i64,
    /// Name of the pod.
    pub pod_name: String,
    /// UID of the pod.
    pub pod_uid: String,
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token itself.
    pub value: String,
    /// From when it is valid: its expiration less the time it was requested for.
    pub issued: Timestamp,
    /// Until when it is valid.
    pub expires: Timestamp,
}

/// The value is never printed.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token from {} to {}", self.issued, self.expires)
    }
}

/// Where objects and tokens come from.
#[async_trait]
pub trait ObjectSource: Send + Sync + 'static {
    /// Asks for an object, and to be told of its changes for as long as the receiver is kept. The value is conflated: who
    /// reads late sees the latest. All who ask for one object may share one watch, which ends with the last receiver, and
    /// need not go on once the object is found to be immutable. A source that cannot reach the API server says `Failed`
    /// when it knows nothing else, goes on saying what it last knew when it does, and tries again by itself.
    fn watch(&self, object: &ObjectRef) -> watch::Receiver<ObjectState>;

    /// Asks the API server for a new token. Not idempotent, and harmless to repeat. Has a deadline of its own.
    async fn request_token(&self, request: &TokenRequest) -> Result<Token, ObjectError>;
}
