//! Logins with where they come from, which decides who else may use an image that one of them pulled.

use serde::{Deserialize, Serialize};

use super::Login;

/// A Secret or service account. One that is deleted and created again is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectIdentity {
    /// The namespace that it is in.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Its UID; empty for one that a manifest defines.
    pub uid: String,
}

/// Where a login comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginSource {
    /// From the host, or from a credential provider that does not know the pod: all pods of the node have it.
    Node,
    /// From a pull Secret.
    Secret(ObjectIdentity),
    /// From a credential provider, for a service account.
    ServiceAccount(ObjectIdentity),
}

/// A login and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedLogin {
    /// What the registry is asked with.
    pub login: Login,
    /// Where it comes from.
    pub source: LoginSource,
}
