//! ConfigMaps and Secrets as pods use them: references, contents, and why one is not available. No logic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

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
    /// Whether it is a ConfigMap or a Secret.
    pub kind: ObjectKind,
    /// Its namespace: the pod's.
    pub namespace: String,
    /// `metadata.name` of the object.
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

    /// The same error of a step that `what` names.
    #[must_use]
    pub fn within(self, what: &str) -> Self {
        match self {
            Self::NotFound(text) => Self::NotFound(format!("{what}: {text}")),
            Self::Forbidden(text) => Self::Forbidden(format!("{what}: {text}")),
            Self::Unavailable(text) => Self::Unavailable(format!("{what}: {text}")),
        }
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
