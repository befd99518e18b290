//! One certificate request on the API server: created or found again, and followed until it is decided. Stores nothing.

use std::ops::ControlFlow;

use hostlet_net::tls::{
    AlternativeNames, CertificateInfo, PrivateKey, TlsError, certificate_request, serving_certificate_request,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};

use super::name::bootstrap_name;
use crate::api::{ApiErrorKind, FollowError, TypedApi, Wire, error_kind, follow, message};

/// The signers of nodes' client certificates and of the certificates of their APIs.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

/// Upstream's usages for an ECDSA key.
const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];
const SERVING_USAGES: [&str; 2] = ["digital signature", "server auth"];

/// The group of nodes, which is the organization of their certificates.
const ORGANIZATION: &str = "system:nodes";

/// Prefix of the names of requests with a key of their own.
const PREFIX: &str = "csr-";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The request could not be made.
    #[error("cannot make a certificate request")]
    Make(#[from] TlsError),
    /// It could not be created.
    #[error("cannot create a certificate signing request: {}", message(.0))]
    Create(Box<kube::Error>),
    /// An existing one could not be read.
    #[error("cannot read the certificate signing request {name}: {}", message(error))]
    Read { name: String, error: Box<kube::Error> },
    /// It could not be followed.
    #[error("cannot watch the certificate signing request {name}: {}", error.message)]
    Watch { name: String, error: FollowError },
    /// Another one has its name.
    #[error("the certificate signing request {0} exists, for another signer or other usages")]
    Taken(String),
    /// It was denied.
    #[error("the certificate signing request {name} was denied{why}")]
    Denied { name: String, why: String },
    /// The signer failed.
    #[error("the certificate signing request {name} failed{why}")]
    Failed { name: String, why: String },
    /// It was deleted before it was decided.
    #[error("the certificate signing request {0} was deleted before it was decided")]
    Deleted(String),
    /// Its certificate is unusable.
    #[error("the certificate of the certificate signing request {name} is unusable")]
    Unusable { name: String, source: TlsError },
}

impl RequestError {
    /// Whether a request of the same key would have the same outcome.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Taken(_) | Self::Denied { .. } | Self::Failed { .. } | Self::Unusable { .. } => true,
            Self::Make(_) | Self::Create(_) | Self::Read { .. } | Self::Watch { .. } | Self::Deleted(_) => {
                false
            }
        }
    }

    /// Whether the API server cannot be reached or is overloaded, which is no problem of the credentials.
    pub(super) fn is_away(&self) -> bool {
        let is_away = |kind| matches!(kind, ApiErrorKind::Unavailable | ApiErrorKind::TooMany(_));
        match self {
            Self::Create(error) | Self::Read { error, .. } => is_away(error_kind(error)),
            Self::Watch { error, .. } => is_away(error.error_kind),
            Self::Make(_)
            | Self::Taken(_)
            | Self::Denied { .. }
            | Self::Failed { .. }
            | Self::Deleted(_)
            | Self::Unusable { .. } => false,
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The first client certificate. Its request is found again by its name.
    Bootstrap,
    /// A further client certificate.
    Renewal,
    /// A certificate of the node's API with these names.
    Serving(AlternativeNames),
}

/// Requests a certificate of `key` for this node, calls `waiting` with the request's name, and waits for the certificate, however
/// long its approval takes. Cancel-safe: a bootstrap's request is found again; another one is left to the API server's garbage
/// collection.
pub(super) async fn obtain(
    client: &Client,
    key: &PrivateKey,
    node: &str,
    purpose: &Purpose,
    waiting: impl FnOnce(&str),
) -> Result<String, RequestError> {
    let requests: TypedApi<CertificateSigningRequest> = Api::all(client.clone());
    let request = request(key, node, purpose)?;
    let created = match requests.create(&PostParams::default(), &Wire(request.clone())).await {
        Ok(created) => created.0,
        Err(error) if error_kind(&error) == ApiErrorKind::AlreadyExists => find(&requests, &request).await?,
        Err(error) => return Err(RequestError::Create(Box::new(error))),
    };
    let name = created.metadata.name.clone().unwrap_or_default();
    let decided = match decision(&created) {
        Some(decided) => decided,
        None => {
            waiting(&name);
            wait(client.clone(), &name, purpose).await
        }
    };
    let certificate = decided?;
    let usable = CertificateInfo::from_pem(certificate.as_bytes()).and_then(|info| info.check_key(key));
    usable.map_err(|source| RequestError::Unusable { name, source })?;
    Ok(certificate)
}

fn request(
    key: &PrivateKey,
    node: &str,
    purpose: &Purpose,
) -> Result<CertificateSigningRequest, RequestError> {
    let common_name = format!("system:node:{node}");
    let (name, generate_name) = match purpose {
        Purpose::Bootstrap => {
            (Some(bootstrap_name(&key.public_key()?, &common_name, ORGANIZATION, &CLIENT_USAGES)), None)
        }
        Purpose::Renewal | Purpose::Serving(_) => (None, Some(PREFIX.to_owned())),
    };
    let (request, signer, usages) = match purpose {
        Purpose::Bootstrap | Purpose::Renewal => {
            (certificate_request(key, ORGANIZATION, &common_name)?, CLIENT_SIGNER, CLIENT_USAGES)
        }
        Purpose::Serving(names) => {
            let request = serving_certificate_request(key, ORGANIZATION, &common_name, names)?;
            (request, SERVING_SIGNER, SERVING_USAGES)
        }
    };
    Ok(CertificateSigningRequest {
        metadata: ObjectMeta { name, generate_name, ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.into_bytes()),
            signer_name: signer.to_owned(),
            usages: Some(usages.map(str::to_owned).to_vec()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    })
}

/// The earlier request of the same name, which the hash in it makes one of the same key and subject.
async fn find(
    requests: &TypedApi<CertificateSigningRequest>,
    request: &CertificateSigningRequest,
) -> Result<CertificateSigningRequest, RequestError> {
    let name = request.metadata.name.clone().unwrap_or_default();
    let found = requests.get(&name).await.map(|found| found.0);
    let found = found.map_err(|error| RequestError::Read { name: name.clone(), error: Box::new(error) })?;
    let is_same =
        found.spec.signer_name == request.spec.signer_name && found.spec.usages == request.spec.usages;
    if is_same { Ok(found) } else { Err(RequestError::Taken(name)) }
}

/// Waits until the request is decided.
async fn wait(client: Client, name: &str, purpose: &Purpose) -> Result<String, RequestError> {
    let mut decided = Err(RequestError::Deleted(name.to_owned()));
    let mut is_listed = false;
    let selected = Config::default().fields(&format!("metadata.name={name}"));
    follow(client, TypedApi::<CertificateSigningRequest>::all, selected, |news| match news {
        Ok(Event::Apply(request) | Event::InitApply(request)) => {
            is_listed = true;
            match decision(&request) {
                Some(decision) => {
                    decided = decision;
                    ControlFlow::Break(())
                }
                None => ControlFlow::Continue(()),
            }
        }
        Ok(Event::Init) => {
            is_listed = false;
            ControlFlow::Continue(())
        }
        Ok(Event::InitDone) if is_listed => ControlFlow::Continue(()),
        Ok(Event::InitDone | Event::Delete(_)) => ControlFlow::Break(()),
        Err(error) => match (error.error_kind, purpose) {
            // The bootstrap token may be expired, and replaced in its file.
            (ApiErrorKind::Forbidden, Purpose::Bootstrap) => {
                decided = Err(RequestError::Watch { name: name.to_owned(), error });
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        },
    })
    .await;
    decided
}

/// The decision about a request; `None` while it is pending, approved without a certificate included.
fn decision(request: &CertificateSigningRequest) -> Option<Result<String, RequestError>> {
    let status = request.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let name = request.metadata.name.clone().unwrap_or_default();
    let why = |reason: &Option<String>, message: &Option<String>| {
        let parts = [reason, message].into_iter().flatten().filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.map(String::as_str).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(": ")) }
    };
    if let Some(denied) = condition("Denied") {
        let why = why(&denied.reason, &denied.message);
        return Some(Err(RequestError::Denied { name, why }));
    }
    if let Some(failed) = condition("Failed") {
        let why = why(&failed.reason, &failed.message);
        return Some(Err(RequestError::Failed { name, why }));
    }
    condition("Approved")?;
    let certificate = status.certificate.as_ref().filter(|certificate| !certificate.0.is_empty())?;
    Some(Ok(String::from_utf8_lossy(&certificate.0).into_owned()))
}
