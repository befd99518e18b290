//! The sources of one pod's volumes, kept up to date: referenced objects, claims, tokens, trust bundles, certificates and CSIDriver
//! objects, and the Secrets and tokens that turn out to be needed once claims and drivers are known. Reports when volumes need an update;
//! does not update them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::{PodUid, error_chain, watching};
use hostlet_csi::{DriverObjects, KnownDrivers};
use hostlet_host::file_work;
use hostlet_pod::objects::{
    CertificateRef, CertificateState, ClaimRef, ClaimState, ObjectError, ObjectRef, ObjectReferences,
    ObjectSource, Token, TokenRequest, TrustBundleRef, TrustBundleState, VolumeNeeds, Watched,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use tokio::sync::watch;

use super::desired::references;
use super::kinds::claim::claims;
use super::kinds::csi::{Needs, needs};
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
    drivers: DriverObjects,
    /// Changes of the drivers, if the pod has volumes of some.
    driver_changes: Option<watch::Receiver<KnownDrivers>>,
    /// The names of these drivers.
    driver_names: Vec<String>,
    /// What all pods' volumes need beside their specs.
    volume_needs: watch::Sender<VolumeNeeds>,
    trust_bundles: Watched<TrustBundleRef, TrustBundleState>,
    certificates: Watched<CertificateRef, CertificateState>,
}

impl Sources {
    /// Without any sources.
    pub(super) fn new(
        objects: Arc<dyn ObjectSource>,
        drivers: DriverObjects,
        volume_needs: watch::Sender<VolumeNeeds>,
    ) -> Self {
        Self {
            objects,
            volume_needs,
            drivers,
            driver_changes: None,
            driver_names: Vec::new(),
            watched: Watched::default(),
            claims: Watched::default(),
            remembered: BTreeMap::new(),
            tokens: BTreeMap::new(),
            trust_bundles: Watched::default(),
            certificates: Watched::default(),
        }
    }

    /// Watches exactly the objects, claims, trust bundles and certificates that `pod` refers to. Existing tokens, and the volumes of
    /// claims, are read from their files. After a reboot there is no file of a token, but perhaps a stored one.
    pub(super) async fn follow(&mut self, pod: &Pod, layout: &PodLayout) {
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
        self.follow_needs(pod, layout).await;
    }

    /// Follows, too, what the pod needs by what is known of its claims and of drivers by now. Returns whether that is more than before.
    pub(super) async fn follow_needs(&mut self, pod: &Pod, layout: &PodLayout) -> bool {
        let Needs { drivers, secrets, tokens: mut requests } =
            needs(pod, &self.bound(self.claims.known()), &self.drivers.now());
        // Before the first answer about them, so that it is stored.
        self.publish_needs(&PodUid::from(layout.uid()), &secrets, requests.values());
        if !drivers.is_empty() && self.driver_changes.is_none() {
            self.driver_changes = Some(self.drivers.subscribe());
        }
        let mut is_more = drivers.iter().any(|driver| !self.driver_names.contains(driver));
        self.driver_names = drivers;
        let objects: Vec<ObjectRef> = references(pod).into_iter().chain(secrets).collect();
        is_more |= self.watched.follow(&objects, |object| self.objects.watch(object));
        let of_drivers: Vec<TokenKey> = requests.keys().cloned().collect();
        requests.extend(token_requests(pod));
        self.tokens.retain(|key, held| requests.get(key) == Some(&held.request));
        let new: Vec<_> = requests.into_iter().filter(|(key, _)| !self.tokens.contains_key(key)).collect();
        is_more |= !new.is_empty();
        for (key, request) in new {
            let read = if of_drivers.contains(&key) {
                // Drivers' tokens are in no file.
                None
            } else {
                let (path, seconds) = (token_path(layout, &key), request.expiration_seconds);
                file_work(move || read_token(&path, seconds)).await.ok().flatten()
            };
            let is_stored = read.is_none();
            let token = read.or_else(|| self.objects.stored_token(&request));
            self.tokens.insert(key, Held { request, token, is_stored, jitter: rand::random(), error: None });
        }
        is_more
    }

    /// Publishes what the volumes of a pod need beside its spec.
    fn publish_needs<'a>(
        &self,
        pod: &PodUid,
        secrets: &[ObjectRef],
        tokens: impl Iterator<Item = &'a TokenRequest>,
    ) {
        let objects = secrets.iter().cloned().collect();
        let needs =
            ObjectReferences { objects, tokens: tokens.cloned().collect(), ..ObjectReferences::default() };
        self.volume_needs.send_if_modified(|all| {
            if all.get(pod).unwrap_or(&ObjectReferences::default()) == &needs {
                return false;
            }
            all.insert(pod.clone(), needs);
            true
        });
    }

    /// Waits for all that `pod` needs: for first answers up to a timeout, and for due tokens. Cancel-safe: what arrived is kept.
    pub(super) async fn settle(&mut self, pod: &Pod, layout: &PodLayout, now: Timestamp) {
        loop {
            self.renew(now).await;
            self.first_answers().await;
            if !self.follow_needs(pod, layout).await {
                return;
            }
        }
    }

    /// Waits, up to a timeout, for whatever was requested and was never known. Cancel-safe.
    async fn first_answers(&mut self) {
        let is_all_remembered = self.remembered.values().all(Option::is_some);
        let claims = async {
            if !is_all_remembered {
                self.claims.first_answers().await;
            }
        };
        let drivers = async {
            if !self.driver_names.is_empty() {
                self.drivers.settled(&self.driver_names).await;
            }
        };
        tokio::join!(
            self.watched.first_answers(),
            claims,
            drivers,
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
        let claims = self.claims.snapshot();
        let claims = self.bound(claims);
        let drivers = if let Some(changes) = &mut self.driver_changes {
            changes.borrow_and_update().clone()
        } else {
            KnownDrivers::default()
        };
        Snapshot {
            objects: self.watched.snapshot(),
            claims,
            tokens,
            drivers,
            trust_bundles: self.trust_bundles.snapshot(),
            certificates: self.certificates.snapshot(),
        }
    }

    /// The state of each claim by name. A pod keeps its volume, whatever becomes of the claim.
    fn bound(&self, claims: BTreeMap<ClaimRef, ClaimState>) -> BTreeMap<String, ClaimState> {
        let claims = claims.into_iter().map(|(claim, state)| {
            let remembered = self.remembered.get(&claim.name).cloned().flatten();
            let state = match (state, remembered) {
                (ClaimState::Pending | ClaimState::Failed(_), Some(volume)) => ClaimState::Bound(volume),
                (state, _) => state,
            };
            (claim.name, state)
        });
        claims.collect()
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

    /// Waits for a change of any source. Cancel-safe: changes stay pending until they are in a snapshot.
    pub(super) async fn changed(&mut self) {
        let driver_changed = async {
            match &mut self.driver_changes {
                Some(changes) => watching::changed(changes).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Cancel-safe: only waits.
            () = self.watched.changed() => {}
            // Cancel-safe: only waits.
            () = self.claims.changed() => {}
            // Cancel-safe: only waits.
            () = driver_changed => {}
            // Cancel-safe: only waits.
            () = self.trust_bundles.changed() => {}
            // Cancel-safe: only waits.
            () = self.certificates.changed() => {}
        }
    }
}

/// The token that a file gets now, or why there is none.
fn usable(held: &Held, now: Timestamp) -> Result<Token, ObjectError> {
    let expired = |token: &Token| format!("the token has expired at {:.0}", token.expires);
    match (&held.token, &held.error) {
        (Some(token), _) if now < token.expires => Ok(token.clone()),
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
