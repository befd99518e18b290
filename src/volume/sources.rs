//! The sources of one pod's volumes, kept up to date: referenced objects and tokens. Reports when volumes need an update; does
//! not update them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::desired::{Snapshot, TokenKey, references, token_requests};
use super::layout::{DATA, Kind, PodLayout};
use super::token::{is_due, read_token, refresh_at};
use crate::objects::{ObjectError, ObjectSource, Token, TokenRequest, Watched};
use crate::sys::file_work;
use crate::types::error_chain;

/// A token of the pod.
#[derive(Debug)]
struct Held {
    request: TokenRequest,
    token: Option<Token>,
    /// The jitter of its renewal, from 0 to 1.
    jitter: f64,
    /// Why its renewal failed.
    error: Option<ObjectError>,
}

/// The sources of a pod's volumes.
pub(super) struct Sources {
    objects: Arc<dyn ObjectSource>,
    watched: Watched,
    tokens: BTreeMap<TokenKey, Held>,
}

impl Sources {
    /// Without any sources.
    pub(super) fn new(objects: Arc<dyn ObjectSource>) -> Self {
        Self { objects, watched: Watched::default(), tokens: BTreeMap::new() }
    }

    /// Watches exactly the objects that `pod` refers to. Existing tokens are read from their files.
    pub(super) async fn follow(&mut self, pod: &Pod, layout: &PodLayout) {
        self.watched.follow(&references(pod), &*self.objects);
        let requests = token_requests(pod);
        self.tokens.retain(|key, held| requests.get(key) == Some(&held.request));
        let new: Vec<_> = requests.into_iter().filter(|(key, _)| !self.tokens.contains_key(key)).collect();
        for (key, request) in new {
            let path = token_path(layout, &key);
            let seconds = request.expiration_seconds;
            let read = file_work(move || read_token(&path, seconds)).await;
            let held = Held { request, token: read.ok().flatten(), jitter: rand::random(), error: None };
            self.tokens.insert(key, held);
        }
    }

    /// Waits, up to a timeout, for requested objects that were never known. Cancel-safe.
    pub(super) async fn first_answers(&mut self) {
        self.watched.first_answers().await;
    }

    /// Renews due tokens. Cancel-safe: a token lost in transit is requested again.
    pub(super) async fn renew(&mut self, now: Timestamp) {
        join_all(self.tokens.iter_mut().map(|(key, held)| renew(&*self.objects, key, held, now))).await;
    }

    /// A snapshot of the sources. Later changes wake [`Sources::changed`].
    pub(super) fn snapshot(&mut self, now: Timestamp) -> Snapshot {
        let tokens = self.tokens.iter().map(|(key, held)| {
            let usable = held.token.as_ref().filter(|token| now < token.expires);
            let absent = || ObjectError::Unavailable("the token has expired".to_owned());
            let value = usable.map(|token| token.value.clone());
            (key.clone(), value.ok_or_else(|| held.error.clone().unwrap_or_else(absent)))
        });
        Snapshot { objects: self.watched.snapshot(), tokens: tokens.collect() }
    }

    /// When the next token is due.
    pub(super) fn next_renewal(&self) -> Option<Timestamp> {
        self.tokens
            .values()
            .filter_map(|held| held.token.as_ref().map(|token| refresh_at(token, held.jitter)))
            .min()
    }

    /// Whether a token could not be renewed.
    pub(super) fn has_failed_tokens(&self) -> bool {
        self.tokens.values().any(|held| held.error.is_some())
    }

    /// Waits for a change of an object. Cancel-safe: changes stay pending until they are in a snapshot.
    pub(super) async fn changed(&mut self) {
        self.watched.changed().await;
    }
}

/// Renews a due token. One that cannot be renewed is used while it is valid.
async fn renew(objects: &dyn ObjectSource, key: &TokenKey, held: &mut Held, now: Timestamp) {
    if held.token.as_ref().is_some_and(|token| !is_due(token, now, held.jitter)) {
        return;
    }
    match objects.request_token(&held.request).await {
        Ok(token) => {
            (held.token, held.error) = (Some(token), None);
            held.jitter = rand::random();
        }
        Err(error) => {
            let (volume, path) = key;
            let pod = format!("{}/{}", held.request.namespace, held.request.pod_name);
            tracing::warn!(pod, volume, path, error = error_chain(&error), "cannot get a token");
            held.error = Some(error);
        }
    }
}

fn token_path(layout: &PodLayout, (volume, path): &TokenKey) -> PathBuf {
    layout.volume(Kind::Projected, volume).join(DATA).join(path)
}
