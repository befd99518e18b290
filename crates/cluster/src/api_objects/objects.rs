//! ConfigMaps, Secrets and tokens from an API server, and the task that follows them, claims, trust bundles and certificates. Each
//! requested object has its own watch, as the Node authorizer requires, for as long as it has receivers. Keeps only an object's data.
//! While the API server gives no answer about an object, its stored copy (`offline`) stands in for it.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::watching::publish;
use hostlet_pod::objects::{
    CertificateError, CertificateRef, CertificateState, ClaimRef, ClaimState, Object, ObjectError,
    ObjectKind, ObjectRef, ObjectSource, ObjectState, ServiceAccountInfo, Token, TokenRequest,
    TrustBundleRef, TrustBundleState,
};
use hostlet_telemetry::Metrics;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answered::{Answered, SILENCE, TOLERANCE};
use super::certificates::{CertificateDeps, Issuing, follow_certificate};
use super::claims::follow_claim;
use super::offline::OfflineObjects;
use super::read::{self, get, object_error};
use super::trust_bundles::{TrustBundles, keep_trust_bundles};
use crate::api::{ApiErrorKind, FollowError, TypedApi, follow};

/// The objects of an API server. Clones share one source.
#[derive(Clone)]
pub struct ApiObjects {
    client: Client,
    shared: Arc<Shared>,
}

/// State shared by the source and its task.
#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    request_added: Notify,
    answered: Answered,
    offline: OfflineObjects,
    /// `None` if volumes are to have no trust anchors.
    trust_bundles: Option<Arc<TrustBundles>>,
    /// `None` if volumes are to have no certificates.
    issuing: Option<Arc<Issuing>>,
}

#[derive(Default)]
struct Inner {
    objects: HashMap<ObjectRef, Arc<watch::Sender<ObjectState>>>,
    /// What was requested and is not followed yet.
    requested: VecDeque<Requested>,
}

/// What the task follows.
#[derive(Clone)]
enum Requested {
    Object(ObjectRef),
    /// A claim is bound for one pod: one that comes later reads it again.
    Claim(ClaimRef, Arc<watch::Sender<ClaimState>>),
    TrustBundles(TrustBundleRef),
    /// Each source of a volume has a certificate of its own.
    Certificate(CertificateRef, Arc<watch::Sender<CertificateState>>),
}

/// What volumes get besides objects and tokens. The default is nothing.
#[derive(Default)]
pub struct ProjectionDeps {
    /// Whether trust anchors (feature gate `ClusterTrustBundleProjection`).
    pub trust_bundles: bool,
    /// What certificates are requested with, if they are (feature gate `PodCertificateRequest`).
    pub certificates: Option<CertificateDeps>,
}

impl ApiObjects {
    /// Creates the source and the task that runs its watches. Without an answer of the API server, what is in `offline` is used.
    pub fn new(client: Client, offline: OfflineObjects, projections: ProjectionDeps) -> (ObjectsTask, Self) {
        let answered = Answered::default();
        let bundles = || Arc::new(TrustBundles::new(answered.clone(), offline.clone()));
        let shared = Arc::new(Shared {
            trust_bundles: projections.trust_bundles.then(bundles),
            issuing: projections.certificates.map(|deps| Arc::new(Issuing::new(deps))),
            answered,
            offline,
            ..Shared::default()
        });
        let task = ObjectsTask {
            client: client.clone(),
            shared: shared.clone(),
            watches: JoinSet::new(),
            watched: HashMap::new(),
        };
        (task, Self { client, shared })
    }

    /// Adds the metrics of certificates.
    pub fn register(&self, metrics: &Metrics) {
        if let Some(issuing) = &self.shared.issuing {
            issuing.register(metrics);
        }
    }
}

/// A feature is off, for which there is no state but this.
fn gate_is_off(gate: &str) -> ObjectError {
    ObjectError::Unavailable(format!("the feature gate {gate} is off in the configuration of this node"))
}

#[async_trait]
impl ObjectSource for ApiObjects {
    fn watch(&self, object: &ObjectRef) -> watch::Receiver<ObjectState> {
        self.shared.with(|inner| {
            if let Some(known) = inner.objects.get(object) {
                return known.subscribe();
            }
            let (known, receiver) = watch::channel(ObjectState::Pending);
            inner.objects.insert(object.clone(), Arc::new(known));
            inner.requested.push_back(Requested::Object(object.clone()));
            self.shared.request_added.notify_one();
            receiver
        })
    }

    fn watch_claim(&self, claim: &ClaimRef) -> watch::Receiver<ClaimState> {
        let (known, receiver) = watch::channel(ClaimState::Pending);
        self.shared.with(|inner| inner.requested.push_back(Requested::Claim(claim.clone(), Arc::new(known))));
        self.shared.request_added.notify_one();
        receiver
    }

    fn watch_trust_bundles(&self, bundles: &TrustBundleRef) -> watch::Receiver<TrustBundleState> {
        let Some(all) = &self.shared.trust_bundles else {
            let error = gate_is_off("ClusterTrustBundleProjection");
            return watch::channel(TrustBundleState::Failed(error)).1;
        };
        let (receiver, is_new) = all.subscribe(bundles);
        if is_new {
            self.shared.with(|inner| inner.requested.push_back(Requested::TrustBundles(bundles.clone())));
            self.shared.request_added.notify_one();
        }
        receiver
    }

    fn watch_certificate(&self, certificate: &CertificateRef) -> watch::Receiver<CertificateState> {
        if self.shared.issuing.is_none() {
            let error = CertificateError::Unavailable(gate_is_off("PodCertificateRequest"));
            return watch::channel(CertificateState::Failed(error)).1;
        }
        let (known, receiver) = watch::channel(CertificateState::Pending);
        let requested = Requested::Certificate(certificate.clone(), Arc::new(known));
        self.shared.with(|inner| inner.requested.push_back(requested));
        self.shared.request_added.notify_one();
        receiver
    }

    async fn service_account(&self, namespace: &str, name: &str) -> Result<ServiceAccountInfo, ObjectError> {
        let accounts = TypedApi::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let metadata = get(&accounts, name).await?.metadata;
        Ok(ServiceAccountInfo {
            uid: metadata.uid.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
        })
    }

    async fn request_token(&self, request: &TokenRequest) -> Result<Token, ObjectError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &request.namespace);
        let (parameters, body) = (PostParams::default(), token_request(request));
        let issued =
            read::request(|| accounts.create_token_request(&request.service_account, &parameters, &body));
        let token = issued_token(issued.await?, request)?;
        self.shared.offline.put_token(request, &token);
        Ok(token)
    }

    fn stored_token(&self, request: &TokenRequest) -> Option<Token> {
        self.shared.offline.serve_token(request)
    }
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock())
    }

    /// What to follow next. Cancel-safe: it is removed from the queue only when returned.
    async fn next(&self) -> Requested {
        loop {
            if let Some(requested) = self.with(|inner| inner.requested.pop_front()) {
                return requested;
            }
            self.request_added.notified().await;
        }
    }

    /// Removes an object that has no receivers; returns whether it did. A later request starts a new watch.
    fn forget(&self, object: &ObjectRef, known: &watch::Sender<ObjectState>) -> bool {
        self.with(|inner| {
            let is_idle = known.receiver_count() == 0;
            if is_idle {
                inner.objects.remove(object);
            }
            is_idle
        })
    }
}

/// The task that watches the requested objects; run by the app.
pub struct ObjectsTask {
    client: Client,
    shared: Arc<Shared>,
    /// Owns the watches, which stop when the task is dropped. The last values remain readable.
    watches: JoinSet<()>,
    watched: HashMap<Id, Requested>,
}

impl ObjectsTask {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: see `Shared::next`.
                requested = self.shared.next() => self.start(requested),
                // Cancel-safe: a finished watch leaves the set only when returned.
                Some(ended) = self.watches.join_next_with_id() => match ended {
                    Ok((id, ())) => drop(self.watched.remove(&id)),
                    Err(error) => if let Some(requested) = self.watched.remove(&error.id()) {
                        tracing::error!(%error, "a watch task failed; starting it again");
                        self.start(requested);
                    }
                },
            }
        }
    }

    fn start(&mut self, requested: Requested) {
        let client = self.client.clone();
        let started = match requested.clone() {
            Requested::Object(object) => {
                let Some(known) = self.shared.with(|inner| inner.objects.get(&object).cloned()) else {
                    return;
                };
                self.watches.spawn(keep_current(client, self.shared.clone(), object, known))
            }
            Requested::Claim(claim, known) => self.watches.spawn(follow_claim(client, claim, known)),
            Requested::TrustBundles(bundles) => {
                let Some(all) = self.shared.trust_bundles.clone() else { return };
                self.watches.spawn(keep_trust_bundles(client, all, bundles))
            }
            Requested::Certificate(certificate, known) => {
                let Some(issuing) = self.shared.issuing.clone() else { return };
                self.watches.spawn(follow_certificate(issuing, client, certificate, known))
            }
        };
        self.watched.insert(started.id(), requested);
    }
}

/// Keeps `known` up to date with an object until it has no receivers.
async fn keep_current(
    client: Client,
    shared: Arc<Shared>,
    object: ObjectRef,
    known: Arc<watch::Sender<ObjectState>>,
) {
    loop {
        tokio::select! {
            // Cancel-safe: only waits.
            () = known.closed() => {}
            // Cancel-safe: each value is published as soon as it is known.
            () = follow_object(&client, &shared, &object, &known) => known.closed().await,
            // Cancel-safe: only waits.
            never = serve_in_silence(&shared, &object, &known) => match never {},
        }
        if shared.forget(&object, &known) {
            return;
        }
    }
}

/// Uses the stored copy of an object after [`SILENCE`]: a connection that is lost in the network reports no failure for long.
async fn serve_in_silence(
    shared: &Shared,
    object: &ObjectRef,
    known: &watch::Sender<ObjectState>,
) -> Infallible {
    tokio::time::sleep(SILENCE).await;
    if !shared.answered.has() {
        serve_stored(shared, object, known);
    }
    std::future::pending().await
}

/// Publishes the stored copy of an object that is not known. Returns whether it is known now.
fn serve_stored(shared: &Shared, object: &ObjectRef, known: &watch::Sender<ObjectState>) -> bool {
    if is_known(known) {
        return true;
    }
    let stored = shared.offline.serve_object(object);
    let is_stored = stored.is_some();
    if let Some(stored) = stored {
        publish(known, ObjectState::Found(stored));
    }
    is_stored
}

fn is_known(known: &watch::Sender<ObjectState>) -> bool {
    match &*known.borrow() {
        ObjectState::Found(_) | ObjectState::Failed(ObjectError::NotFound(_)) => true,
        ObjectState::Pending
        | ObjectState::Failed(ObjectError::Forbidden(_) | ObjectError::Unavailable(_)) => false,
    }
}

/// Keeps `known` up to date with an object until it turns out to be immutable.
async fn follow_object(
    client: &Client,
    shared: &Shared,
    object: &ObjectRef,
    known: &watch::Sender<ObjectState>,
) {
    match object.kind {
        ObjectKind::ConfigMap => follow_kind::<ConfigMap>(client, shared, object, known).await,
        ObjectKind::Secret => follow_kind::<Secret>(client, shared, object, known).await,
    }
}

/// A kind of object with data that may be declared immutable.
trait Immutable {
    fn is_immutable(&self) -> bool;
}

impl Immutable for ConfigMap {
    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

impl Immutable for Secret {
    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

async fn follow_kind<K>(
    client: &Client,
    shared: &Shared,
    object: &ObjectRef,
    known: &watch::Sender<ObjectState>,
) where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Into<Object> + Immutable + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let api = |client| TypedApi::<K>::namespaced(client, &object.namespace);
    let config = Config::default().fields(&format!("metadata.name={}", object.name));
    let requested_at = Instant::now();
    let mut is_listed = false;
    follow(client.clone(), api, config, |event| {
        match event {
            Ok(Event::Init) => is_listed = false,
            Ok(Event::InitApply(found) | Event::Apply(found)) => {
                is_listed = true;
                let is_immutable = found.is_immutable();
                let found = Arc::new(found.into());
                shared.answered.set();
                shared.offline.put_object(object, &found);
                publish(known, ObjectState::Found(found));
                if is_immutable {
                    return ControlFlow::Break(());
                }
            }
            Ok(Event::InitDone) if is_listed => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                shared.answered.set();
                shared.offline.remove_object(object);
                publish(known, ObjectState::Failed(ObjectError::not_found(object)));
            }
            Err(error) => {
                tracing::debug!(?object, ?error, "cannot watch an object; trying again");
                if requested_at.elapsed() >= TOLERANCE {
                    publish_error(shared, known, object, error);
                }
            }
        }
        ControlFlow::Continue(())
    })
    .await;
}

/// Publishes the stored copy of an object, or why it is not available, unless its data is known.
fn publish_error(
    shared: &Shared,
    known: &watch::Sender<ObjectState>,
    object: &ObjectRef,
    error: FollowError,
) {
    // Where nothing is permitted, the node's credentials are wrong, which says nothing about the object.
    let is_denied = error.error_kind == ApiErrorKind::Forbidden && shared.answered.has();
    if is_known(known) || (!is_denied && serve_stored(shared, object, known)) {
        return;
    }
    let error = match object_error(error.error_kind, error.message) {
        ObjectError::Unavailable(text) => {
            ObjectError::Unavailable(format!("cannot read {} {:?}: {text}", object.kind, object.name))
        }
        error => error,
    };
    publish(known, ObjectState::Failed(error));
}

/// The TokenRequest, bound to the pod, so that the token expires with it.
fn token_request(request: &TokenRequest) -> authentication::TokenRequest {
    authentication::TokenRequest {
        metadata: ObjectMeta { uid: request.service_account_uid.clone(), ..Default::default() },
        spec: Some(authentication::TokenRequestSpec {
            audiences: Some(request.audiences.clone()).filter(|audiences| !audiences.is_empty()),
            expiration_seconds: Some(request.expiration_seconds),
            bound_object_ref: Some(authentication::BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(request.pod_name.clone()),
                uid: Some(request.pod_uid.clone()),
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The token in a response. The server may grant a different lifetime than requested.
fn issued_token(
    response: authentication::TokenRequest,
    request: &TokenRequest,
) -> Result<Token, ObjectError> {
    let status = response.status.unwrap_or_default();
    let (Some(value), Some(expires)) = (status.token, status.expiration_timestamp) else {
        return Err(ObjectError::Unavailable("the API server sent no token".to_owned()));
    };
    let granted = response.spec.and_then(|spec| spec.expiration_seconds);
    let lifetime =
        Duration::from_secs(u64::try_from(granted.unwrap_or(request.expiration_seconds)).unwrap_or_default());
    let issued = expires.0.saturating_sub(lifetime).unwrap_or(expires.0);
    Ok(Token { value, issued, expires: expires.0 })
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
