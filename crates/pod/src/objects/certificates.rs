//! Certificates in volumes, as pods ask for them: the reference, the credential, and why there is none. No logic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hostlet_base::PodRef;

use super::object::ObjectError;

/// A reference to the certificate that one source of a pod's volume gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateRef {
    /// The pod, which the certificate is for.
    pub pod: PodRef,
    /// Name of the volume.
    pub volume: String,
    /// Index of the source in the volume.
    pub source: usize,
    /// Name of the pod's service account.
    pub service_account: String,
    /// The signer that issues the certificate.
    pub signer: String,
    /// The kind of its key, by its name in the API.
    pub key_kind: String,
    /// Maximum lifetime in seconds, if the pod limits it.
    pub max_expiration_seconds: Option<i32>,
    /// What the pod tells the signer.
    pub annotations: BTreeMap<String, String>,
}

/// A private key with its certificates, both as PEM.
#[derive(PartialEq, Eq)]
pub struct Credential {
    /// The key, which is secret.
    pub key: String,
    /// The pod's certificate, and those of intermediate authorities.
    pub chain: String,
}

/// Never prints the key.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}

/// What is known of a certificate at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CertificateState {
    /// Requested, not yet known.
    #[default]
    Pending,
    /// Issued. It may be due for renewal, or have expired.
    Issued(Arc<Credential>),
    /// Not available.
    Failed(CertificateError),
}

/// Why there is no certificate. The wording is upstream's, with the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The signer has not decided yet.
    #[error(
        "credential bundle is not issued yet: PodCertificateRequest {request} waits for its signer {signer}"
    )]
    Undecided {
        /// The namespace and name of the request.
        request: String,
        /// The signer.
        signer: String,
    },
    /// The certificate could not be requested; the source keeps trying.
    #[error("credential bundle is not issued yet: {0}")]
    Unavailable(ObjectError),
    /// The signer denied the request, for good.
    #[error("PodCertificateRequest was permanently denied: reason={reason:?} message={message:?}")]
    Denied {
        /// The signer's reason.
        reason: String,
        /// Its message.
        message: String,
    },
    /// The signer failed, for good.
    #[error("PodCertificateRequest was permanently failed: reason={reason:?} message={message:?}")]
    Failed {
        /// The signer's reason.
        reason: String,
        /// Its message.
        message: String,
    },
}
