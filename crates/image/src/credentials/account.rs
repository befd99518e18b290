//! A pod's service account, whose tokens some credential providers exchange for credentials.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::ObjectIdentity;

/// What the API server says about a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountDescription {
    /// Which service account it is.
    pub identity: ObjectIdentity,
    /// The annotations, of which credential providers receive those that they ask for.
    pub annotations: BTreeMap<String, String>,
}

/// A token of a service account, bound to its pod.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountToken {
    /// The token itself.
    pub value: String,
    /// After this time a new one is used.
    pub renewed_after: Duration,
}

/// Never prints the value.
impl fmt::Debug for AccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountToken")
    }
}

/// Why a service account or a token is not available: the text of its source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccountError(pub String);

/// The service account of one pod.
#[async_trait]
pub trait PodAccount: Send + Sync {
    /// UID of the pod, to which tokens are bound.
    fn pod_uid(&self) -> &str;

    /// Reads the service account. Has its own deadline.
    async fn describe(&self) -> Result<AccountDescription, AccountError>;

    /// Requests a token of the described account, and not of one with its name that replaced it, for this audience. Has its own
    /// deadline.
    async fn token(&self, account: &ObjectIdentity, audience: &str) -> Result<AccountToken, AccountError>;
}
