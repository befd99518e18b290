//! ConfigMaps, Secrets and tokens from an API server: each object that somebody asks for is watched by itself, as the Node
//! authorizer wants it, for as long as somebody listens. Keeps what is in an object, and nothing else of it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
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

use super::{Object, ObjectError, ObjectKind, ObjectRef, ObjectSource, ObjectState, Token, TokenRequest};
use crate::api::{ApiErrorKind, FollowError, Objects, error_kind, follow, message};

/// How long an object may be refused, or the server be away, before those who know nothing of the object are told: most of
/// it passes, and they wait.
const TOLERANCE: Duration = Duration::from_secs(1);

/// How long a request for a token may take.
const TOKEN: Duration = Duration::from_secs(10);

/// The objects of an API server. All clones are one source.
#[derive(Clone)]
pub struct ApiObjects {
    client: Client,
    shared: Arc<Shared>,
}

/// What the source and its task share.
#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    asked: Notify,
}

#[derive(Default)]
struct Inner {
    objects: HashMap<ObjectRef, Arc<watch::Sender<ObjectState>>>,
    /// Those of them that no watch was started for yet.
    asked: VecDeque<ObjectRef>,
}

impl ApiObjects {
    /// The source, and the task that watches for it.
    pub fn new(client: Client) -> (ObjectsTask, Self) {
        let shared = Arc::<Shared>::default();
        let task = ObjectsTask {
            client: client.clone(),
            shared: shared.clone(),
            watches: JoinSet::new(),
            watched: HashMap::new(),
        };
        (task, Self { client, shared })
    }
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
            inner.asked.push_back(object.clone());
            self.shared.asked.notify_one();
            receiver
        })
    }

    async fn request_token(&self, request: &TokenRequest) -> Result<Token, ObjectError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &request.namespace);
        let (parameters, wanted) = (PostParams::default(), wanted_token(request));
        let asking = accounts.create_token_request(&request.service_account, &parameters, &wanted);
        match tokio::time::timeout(TOKEN, asking).await {
            Ok(Ok(issued)) => issued_token(issued, request),
            Ok(Err(error)) => Err(object_error(error_kind(&error), message(&error))),
            Err(_) => {
                let text = format!("the API server did not answer within {} s", TOKEN.as_secs());
                Err(ObjectError::Unavailable(text))
            }
        }
    }
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock())
    }

    /// The next object to be watched. Cancel-safe: it is taken only when it is returned.
    async fn next(&self) -> ObjectRef {
        loop {
            if let Some(object) = self.with(|inner| inner.asked.pop_front()) {
                return object;
            }
            self.asked.notified().await;
        }
    }

    /// Forgets an object that nobody listens to; whether that was so. Who asks later starts anew.
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

/// Watches the objects that are asked for; to be run by the app.
pub struct ObjectsTask {
    client: Client,
    shared: Arc<Shared>,
    /// Owns the watches: dropped with the task, they end. What was known last stays known.
    watches: JoinSet<()>,
    watched: HashMap<Id, ObjectRef>,
}

impl ObjectsTask {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe: an object is taken only when it is returned.
                object = self.shared.next() => self.start(object),
                // Cancel-safe: an ended watch is taken off the set only when it is returned.
                Some(ended) = self.watches.join_next_with_id() => match ended {
                    Ok((id, ())) => drop(self.watched.remove(&id)),
                    Err(error) => if let Some(object) = self.watched.remove(&error.id()) {
                        tracing::error!(%error, ?object, "a watch ended early; it is started anew");
                        self.start(object);
                    }
                },
            }
        }
    }

    fn start(&mut self, object: ObjectRef) {
        let Some(known) = self.shared.with(|inner| inner.objects.get(&object).cloned()) else { return };
        let keeping = keep(self.client.clone(), self.shared.clone(), object.clone(), known);
        self.watched.insert(self.watches.spawn(keeping).id(), object);
    }
}

/// Keeps `known` true to an object, until nobody listens.
async fn keep(
    client: Client,
    shared: Arc<Shared>,
    object: ObjectRef,
    known: Arc<watch::Sender<ObjectState>>,
) {
    loop {
        tokio::select! {
            // Cancel-safe: waiting takes nothing.
            () = known.closed() => {}
            // Cancel-safe: what is known is told as soon as it is known.
            () = follow_object(&client, &object, &known) => known.closed().await,
        }
        if shared.forget(&object, &known) {
            return;
        }
    }
}

/// Keeps `known` true to an object, until it is found to be immutable.
async fn follow_object(client: &Client, object: &ObjectRef, known: &watch::Sender<ObjectState>) {
    match object.kind {
        ObjectKind::ConfigMap => follow_kind::<ConfigMap>(client, object, known).await,
        ObjectKind::Secret => follow_kind::<Secret>(client, object, known).await,
    }
}

/// A kind of object with content that may be declared immutable.
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

async fn follow_kind<K>(client: &Client, object: &ObjectRef, known: &watch::Sender<ObjectState>)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Into<Object> + Immutable + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let api = Objects::<K>::namespaced(client.clone(), &object.namespace);
    let config = Config::default().fields(&format!("metadata.name={}", object.name));
    let asked = Instant::now();
    let mut is_listed = false;
    follow(api, config, |news| {
        match news {
            Ok(Event::Init) => is_listed = false,
            Ok(Event::InitApply(found) | Event::Apply(found)) => {
                is_listed = true;
                let is_immutable = found.is_immutable();
                tell(known, ObjectState::Found(Arc::new(found.into())));
                if is_immutable {
                    return ControlFlow::Break(());
                }
            }
            Ok(Event::InitDone) if is_listed => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                tell(known, ObjectState::Failed(ObjectError::not_found(object)));
            }
            Err(trouble) => {
                tracing::debug!(?object, ?trouble, "cannot watch an object; trying again");
                if asked.elapsed() >= TOLERANCE {
                    troubled(known, object, trouble);
                }
            }
        }
        ControlFlow::Continue(())
    })
    .await;
}

/// Tells what is known of an object, if that is news.
fn tell(known: &watch::Sender<ObjectState>, now: ObjectState) {
    known.send_if_modified(|known| {
        let is_news = *known != now;
        *known = now;
        is_news
    });
}

/// Tells why an object cannot be had, unless something is known of it.
fn troubled(known: &watch::Sender<ObjectState>, object: &ObjectRef, trouble: FollowError) {
    let is_known = match &*known.borrow() {
        ObjectState::Found(_) | ObjectState::Failed(ObjectError::NotFound(_)) => true,
        ObjectState::Pending
        | ObjectState::Failed(ObjectError::Forbidden(_) | ObjectError::Unavailable(_)) => false,
    };
    if is_known {
        return;
    }
    let error = match object_error(trouble.error_kind, trouble.message) {
        ObjectError::Unavailable(text) => {
            ObjectError::Unavailable(format!("cannot read {} {:?}: {text}", object.kind, object.name))
        }
        error => error,
    };
    tell(known, ObjectState::Failed(error));
}

fn object_error(error_kind: ApiErrorKind, message: String) -> ObjectError {
    match error_kind {
        ApiErrorKind::NotFound => ObjectError::NotFound(message),
        ApiErrorKind::Forbidden => ObjectError::Forbidden(message),
        ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Invalid
        | ApiErrorKind::TooMany(_)
        | ApiErrorKind::Unavailable => ObjectError::Unavailable(message),
    }
}

/// The request as the API server wants it: for the pod alone, so that the token ends with the pod.
fn wanted_token(request: &TokenRequest) -> authentication::TokenRequest {
    authentication::TokenRequest {
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

/// The token in an answer. The server may have granted another life than it was asked for.
fn issued_token(answer: authentication::TokenRequest, request: &TokenRequest) -> Result<Token, ObjectError> {
    let status = answer.status.unwrap_or_default();
    let (Some(value), Some(expires)) = (status.token, status.expiration_timestamp) else {
        return Err(ObjectError::Unavailable("the API server sent no token".to_owned()));
    };
    let granted = answer.spec.and_then(|spec| spec.expiration_seconds);
    let life =
        Duration::from_secs(u64::try_from(granted.unwrap_or(request.expiration_seconds)).unwrap_or_default());
    let issued = expires.0.saturating_sub(life).unwrap_or(expires.0);
    Ok(Token { value, issued, expires: expires.0 })
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
