//! The trait through which volumes and environments get ConfigMaps, Secrets, claims, service account tokens, trust bundles and
//! certificates. No logic.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use super::certificates::{CertificateRef, CertificateState};
use super::claims::{ClaimRef, ClaimState};
use super::object::{ObjectError, ObjectRef, ObjectState};
use super::trust_bundles::{TrustBundleRef, TrustBundleState};

/// A request for a token that is bound to a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// `metadata.name` of the pod that the token is bound to.
    pub pod_name: String,
    /// UID of the pod: the token is invalid once this pod is deleted.
    pub pod_uid: String,
}

/// What is known of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccountInfo {
    /// UID of the service account, which tells it from an earlier one of that name.
    pub uid: String,
    /// Its annotations, for credential providers.
    pub annotations: BTreeMap<String, String>,
}

/// A service account token that the API server issued.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token itself.
    pub value: String,
    /// Start of its validity: its expiration minus the granted lifetime.
    pub issued: Timestamp,
    /// From when on the API server rejects it.
    pub expires: Timestamp,
}

/// Never prints the value.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token from {} to {}", self.issued, self.expires)
    }
}

/// A source of objects, service accounts, tokens and certificates.
#[async_trait]
pub trait ObjectSource: Send + Sync + 'static {
    /// Follows an object for as long as the receiver is kept. The receiver always sees the latest state. Receivers of one
    /// object may share a watch, which stops with the last receiver or once the object is known to be immutable. While the
    /// API server cannot be reached, the state is the last known one, or `Failed` if there is none; the source keeps
    /// retrying.
    fn watch(&self, object: &ObjectRef) -> watch::Receiver<ObjectState>;

    /// Follows a claim until it is bound, for as long as the receiver is kept.
    fn watch_claim(&self, claim: &ClaimRef) -> watch::Receiver<ClaimState>;

    /// Follows the trust anchors of bundles for as long as the receiver is kept, like [`ObjectSource::watch`].
    fn watch_trust_bundles(&self, bundles: &TrustBundleRef) -> watch::Receiver<TrustBundleState>;

    /// Requests a certificate with a new key, and renews it for as long as the receiver is kept. Each call requests another one.
    fn watch_certificate(&self, certificate: &CertificateRef) -> watch::Receiver<CertificateState>;

    /// Reads a service account. Has its own deadline.
    async fn service_account(&self, namespace: &str, name: &str) -> Result<ServiceAccountInfo, ObjectError>;

    /// Requests a new token. Not idempotent but harmless to repeat. Has its own deadline.
    async fn request_token(&self, request: &TokenRequest) -> Result<Token, ObjectError>;

    /// The token that was last issued for this request, by an earlier daemon too, if that is stored. It may have expired, and its times
    /// are of this host's clock. Only for use while a new one cannot be requested.
    fn stored_token(&self, request: &TokenRequest) -> Option<Token>;
}
