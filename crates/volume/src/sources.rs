//! The sources of one pod's volumes, kept up to date: referenced objects, claims, tokens, trust bundles and certificates. Reports when volumes need an update; does
//! not update them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::error_chain;
use hostlet_host::file_work;
use hostlet_pod::objects::{
    CertificateRef, CertificateState, ClaimRef, ClaimState, ObjectError, ObjectReferences, ObjectSource,
    Token, TokenRequest, TrustBundleRef, TrustBundleState, Watched,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod};

use super::desired::references;
use super::kinds::claim::claims;
use super::kinds::projected::{self, token_requests};
use super::kinds::{pod_certificate, trust_bundle};
use super::layout::{DATA, PodLayout};
use super::model::{Snapshot, TokenKey};
use super::remembered::recall;
use super::token::{is_due, read_token, received, refresh_at};

/// The objects, tokens and trust bundles that the volumes of a pod need.
pub fn volume_references(pod: &Pod) -> ObjectReferences {
    let tokens = token_requests(pod).into_values().collect();
    let trust_bundles = trust_bundle::references(pod).into_iter().collect();
    ObjectReferences { objects: references(pod).into_iter().collect(), tokens, trust_bundles }
}

/// A token of the pod.
#[derive(Debug)]
struct Held {
    request: TokenRequest,
    token: Option<Token>,
    /// It is the copy that an earlier daemon stored, and not from its file: used only if no new one can be requested.
    is_stored: bool,
    /// The jitter of its renewal, from 0 to 1.
    jitter: f64,
    /// Why its renewal failed.
    error: Option<ObjectError>,
}

/// The sources of a pod's volumes.
pub(super) struct Sources {
    objects: Arc<dyn ObjectSource>,
    watched: Watched,
    claims: Watched<ClaimRef, ClaimState>,
    /// The volumes that the pod's claims were bound to earlier, by claim; `None` if that is not remembered.
    remembered: BTreeMap<String, Option<Arc<PersistentVolume>>>,
    tokens: BTreeMap<TokenKey, Held>,
    trust_bundles: Watched<TrustBundleRef, TrustBundleState>,
    certificates: Watched<CertificateRef, CertificateState>,
}

impl Sources {
    /// Without any sources.
    pub(super) fn new(objects: Arc<dyn ObjectSource>) -> Self {
        Self {
            objects,
            watched: Watched::default(),
            claims: Watched::default(),
            remembered: BTreeMap::new(),
            tokens: BTreeMap::new(),
            trust_bundles: Watched::default(),
            certificates: Watched::default(),
        }
    }

    /// Watches exactly the objects, claims, trust bundles and certificates that `pod` refers to. Existing tokens, and the volumes of claims, are read from their
    /// files. After a reboot there is no file of a token, but perhaps a stored one.
    pub(super) async fn follow(&mut self, pod: &Pod, layout: &PodLayout) {
        self.watched.follow(&references(pod), |object| self.objects.watch(object));
        let claims = claims(pod);
        self.remembered.retain(|name, _| claims.iter().any(|claim| claim.name == *name));
        for claim in &claims {
            if !self.remembered.contains_key(&claim.name) {
                let (layout, name) = (layout.clone(), claim.name.clone());
                let recalled = file_work(move || recall(&layout, &name)).await;
                self.remembered.insert(claim.name.clone(), recalled.ok().flatten().map(Arc::new));
            }
        }
        self.claims.follow(&claims, |claim| self.objects.watch_claim(claim));
        let bundles = trust_bundle::references(pod);
        self.trust_bundles.follow(&bundles, |bundles| self.objects.watch_trust_bundles(bundles));
        let certificates = pod_certificate::references(pod);
        self.certificates.follow(&certificates, |one| self.objects.watch_certificate(one));
        let requests = token_requests(pod);
        self.tokens.retain(|key, held| requests.get(key) == Some(&held.request));
        let new: Vec<_> = requests.into_iter().filter(|(key, _)| !self.tokens.contains_key(key)).collect();
        for (key, request) in new {
            let path = token_path(layout, &key);
            let seconds = request.expiration_seconds;
            let read = file_work(move || read_token(&path, seconds)).await;
            let read = read.ok().flatten();
            let is_stored = read.is_none();
            let token = read.or_else(|| self.objects.stored_token(&request));
            self.tokens.insert(key, Held { request, token, is_stored, jitter: rand::random(), error: None });
        }
    }

    /// Waits, up to a timeout, for whatever was requested and was never known. Cancel-safe.
    pub(super) async fn first_answers(&mut self) {
        let is_all_remembered = self.remembered.values().all(Option::is_some);
        let claims = async {
            if !is_all_remembered {
                self.claims.first_answers().await;
            }
        };
        tokio::join!(
            self.watched.first_answers(),
            claims,
            self.trust_bundles.first_answers(),
            self.certificates.first_answers()
        );
    }

    /// Renews due tokens. Cancel-safe: a token lost in transit is requested again.
    pub(super) async fn renew(&mut self, now: Timestamp) {
        join_all(self.tokens.iter_mut().map(|(key, held)| renew(&*self.objects, key, held, now))).await;
    }

    /// A snapshot of the sources. Later changes wake [`Sources::changed`].
    pub(super) fn snapshot(&mut self, now: Timestamp) -> Snapshot {
        let tokens = self.tokens.iter().map(|(key, held)| (key.clone(), usable(held, now))).collect();
        let claims = self.claims.snapshot().into_iter().map(|(claim, state)| {
            // A pod keeps its volume, whatever becomes of the claim.
            let remembered = self.remembered.get(&claim.name).cloned().flatten();
            let state = match (state, remembered) {
                (ClaimState::Pending | ClaimState::Failed(_), Some(volume)) => ClaimState::Bound(volume),
                (state, _) => state,
            };
            (claim.name, state)
        });
        let claims = claims.collect();
        Snapshot {
            objects: self.watched.snapshot(),
            claims,
            tokens,
            trust_bundles: self.trust_bundles.snapshot(),
            certificates: self.certificates.snapshot(),
        }
    }

    /// The volumes of claims in `snapshot` that are to be remembered, by claim. They count as remembered from now on.
    pub(super) fn unsaved(&mut self, snapshot: &Snapshot) -> Vec<(String, Arc<PersistentVolume>)> {
        let mut unsaved = Vec::new();
        for (claim, state) in &snapshot.claims {
            let ClaimState::Bound(volume) = state else { continue };
            if self.remembered.get(claim).is_none_or(|known| known.as_ref() != Some(volume)) {
                self.remembered.insert(claim.clone(), Some(volume.clone()));
                unsaved.push((claim.clone(), volume.clone()));
            }
        }
        unsaved
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

    /// Waits for a change of an object, claim, trust bundle or certificate. Cancel-safe: changes stay pending until they are in a snapshot.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            // Cancel-safe: only waits.
            () = self.watched.changed() => {}
            // Cancel-safe: only waits.
            () = self.claims.changed() => {}
            // Cancel-safe: only waits.
            () = self.trust_bundles.changed() => {}
            // Cancel-safe: only waits.
            () = self.certificates.changed() => {}
        }
    }
}

/// The token that a file gets now, or why there is none.
fn usable(held: &Held, now: Timestamp) -> Result<String, ObjectError> {
    let expired = |token: &Token| format!("the token has expired at {:.0}", token.expires);
    match (&held.token, &held.error) {
        (Some(token), _) if now < token.expires => Ok(token.value.clone()),
        (Some(token), Some(ObjectError::Unavailable(error))) => Err(ObjectError::Unavailable(format!(
            "{}, and no new one can be requested: {error}",
            expired(token)
        ))),
        (_, Some(error)) => Err(error.clone()),
        (Some(token), None) => Err(ObjectError::Unavailable(expired(token))),
        (None, None) => Err(ObjectError::Unavailable("no token was requested yet".to_owned())),
    }
}

/// Renews a due token. One that cannot be renewed is used while it is valid.
async fn renew(objects: &dyn ObjectSource, key: &TokenKey, held: &mut Held, now: Timestamp) {
    let is_fresh = |token: &Token| !held.is_stored && !is_due(token, now, held.jitter);
    if held.token.as_ref().is_some_and(is_fresh) {
        return;
    }
    match objects.request_token(&held.request).await {
        Ok(token) => {
            (held.token, held.is_stored, held.error) = (Some(received(token, now)), false, None);
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
    layout.volume(projected::DIRECTORY, volume).join(DATA).join(path)
}
