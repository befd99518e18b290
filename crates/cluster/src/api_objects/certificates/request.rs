//! One PodCertificateRequest: created with a new key, and followed until its signer decides. Keeps nothing.

use std::ops::ControlFlow;

use hostlet_host::file_work;
use hostlet_net::tls::{KeyKind, SubjectKey, ders_of, pem_of};
use hostlet_pod::objects::{CertificateRef, ObjectError};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{PodCertificateRequestSpec, PodCertificateRequestStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::core::{ApiResource, TypeMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};

use super::issuing::Issuing;
use super::state::{Decision, Requested};
use crate::api::{ApiErrorKind, FollowError, TypedApi, Wire, follow};
use crate::api_objects::certificates_api::CertificateRequest;
use crate::api_objects::read::{get, request};

/// The types of conditions that end a request; upstream's constants.
const ISSUED: &str = "Issued";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// Prefix of the names of requests, to which the API server adds.
const PREFIX: &str = "req-";

/// Makes a key and requests a certificate of it. A lost response leaves a request whose key nobody has; the API server's garbage
/// collection removes it. Each of its calls has its own deadline.
pub(super) async fn create(
    issuing: &Issuing,
    client: &Client,
    certificate: &CertificateRef,
) -> Result<Requested, ObjectError> {
    let pod = &certificate.pod;
    let accounts = TypedApi::<ServiceAccount>::namespaced(client.clone(), &pod.namespace);
    let account = get(&accounts, &certificate.service_account).await;
    let account = account.map_err(|error| error.within("while fetching service account"))?;
    let node_uid = issuing.node_uid().ok_or_else(|| {
        ObjectError::Unavailable("this node is not registered with the API server yet".to_owned())
    })?;
    let resource = issuing.resource.served(client).await?;
    let key = generate(issuing, &certificate.key_kind).await?;
    let spec = PodCertificateRequestSpec {
        signer_name: certificate.signer.clone(),
        pod_name: pod.name.to_string(),
        pod_uid: pod.uid.to_string(),
        service_account_name: certificate.service_account.clone(),
        service_account_uid: account.metadata.uid.unwrap_or_default(),
        node_name: issuing.deps.node_name.clone(),
        node_uid,
        max_expiration_seconds: certificate.max_expiration_seconds,
        stub_pkc_s10_request: ByteString(key.request),
        unverified_user_annotations: Some(certificate.annotations.clone())
            .filter(|annotations| !annotations.is_empty()),
    };
    let new = Wire(new_request(&resource, certificate, spec));
    let requests = api(client.clone(), &pod.namespace, &resource);
    let parameters = PostParams::default();
    let created = request(|| requests.create(&parameters, &new)).await;
    let Wire(created) = created.map_err(|error| {
        if matches!(error, ObjectError::NotFound(_)) {
            // The namespace or this version is gone; what it was, the next attempt finds out.
            issuing.resource.forget();
        }
        error.within("while creating PodCertificateRequest")
    })?;
    let here = issuing.deps.clock.steady();
    let there = created.metadata.creation_timestamp.map_or_else(|| issuing.deps.clock.now(), |at| at.0);
    let name = created.metadata.name.unwrap_or_default();
    Ok(Requested { name, key: key.pem, ahead: there.duration_since(here) })
}

/// Makes a key, of which one at a time is made: those for RSA take seconds of a CPU.
async fn generate(issuing: &Issuing, kind: &str) -> Result<SubjectKey, ObjectError> {
    let unavailable = |text: String| ObjectError::Unavailable(text);
    let kind = KeyKind::named(kind).ok_or_else(|| unavailable(format!("unknown key type {kind:?}")))?;
    // The semaphore is never closed.
    let _place = issuing.key_work.acquire().await;
    let made = file_work(move || SubjectKey::generate(kind)).await;
    let made =
        made.map_err(|error| unavailable(format!("while generating a key of type {kind}: {error}")))?;
    made.map_err(|error| unavailable(format!("while generating a key of type {kind}: {error}")))
}

fn new_request(
    resource: &ApiResource,
    certificate: &CertificateRef,
    spec: PodCertificateRequestSpec,
) -> CertificateRequest {
    let pod = &certificate.pod;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        generate_name: Some(PREFIX.to_owned()),
        namespace: Some(pod.namespace.to_string()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let types = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
    CertificateRequest { types: Some(types), metadata, spec, status: None }
}

fn api(client: Client, namespace: &str, resource: &ApiResource) -> TypedApi<CertificateRequest> {
    Api::namespaced_with(client, namespace, resource)
}

/// Waits for the decision about a request, however long that takes. Calls `failing` whenever the request cannot be followed.
/// Cancel-safe: it only reads.
pub(super) async fn decision(
    issuing: &Issuing,
    client: &Client,
    namespace: &str,
    name: &str,
    mut failing: impl FnMut(&FollowError),
) -> Decision {
    loop {
        match issuing.resource.served(client).await {
            Ok(resource) => {
                let node = &issuing.deps.node_name;
                if let Some(decision) =
                    follow_one(client, &resource, namespace, (node, name), &mut failing).await
                {
                    return decision;
                }
                issuing.resource.forget();
            }
            Err(error) => {
                let message = error.to_string();
                failing(&FollowError { error_kind: ApiErrorKind::Unavailable, message });
            }
        }
        issuing.pause().await;
    }
}

/// Follows a request until it is decided; `None` once the server does not have this version any more. The Node authorizer permits
/// watches of the requests of this node only.
async fn follow_one(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    (node, name): (&str, &str),
    failing: &mut impl FnMut(&FollowError),
) -> Option<Decision> {
    let selection = Config::default().fields(&format!("spec.nodeName={node},metadata.name={name}"));
    let mut is_listed = false;
    let mut found = None;
    follow(
        client.clone(),
        |client| api(client, namespace, resource),
        selection,
        |event| {
            match event {
                Ok(Event::Init) => is_listed = false,
                Ok(Event::InitApply(request) | Event::Apply(request)) => {
                    is_listed = true;
                    found = request.status.as_ref().and_then(decided);
                }
                Ok(Event::InitDone) if is_listed => {}
                // A list is the newest, and has the request unless it was deleted.
                Ok(Event::InitDone | Event::Delete(_)) => found = Some(Decision::Deleted),
                Err(error) if error.error_kind == ApiErrorKind::NotFound => return ControlFlow::Break(()),
                Err(error) => failing(&error),
            }
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    )
    .await;
    found
}

/// What a status says, once it says something final. The first of several such conditions counts, as upstream.
fn decided(status: &PodCertificateRequestStatus) -> Option<Decision> {
    status.conditions.iter().flatten().find_map(|condition| {
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        match condition.type_.as_str() {
            ISSUED => Some(issued(status)),
            DENIED => Some(Decision::Denied { reason, message }),
            FAILED => Some(Decision::Failed { reason, message }),
            _ => None,
        }
    })
}

/// The API server validates the times and the chain of what is issued.
fn issued(status: &PodCertificateRequestStatus) -> Decision {
    let time = |at: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        at.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0)
    };
    let certificates = ders_of(status.certificate_chain.as_deref().unwrap_or_default());
    match pem_of(certificates.iter().map(Vec::as_slice)) {
        Ok(chain) => Decision::Issued {
            chain,
            renew_at: time(&status.begin_refresh_at),
            expires: time(&status.not_after),
        },
        Err(error) => Decision::Failed { reason: "Unusable".to_owned(), message: error.to_string() },
    }
}
