//! The trust anchors of ClusterTrustBundles, followed by the name of one or by signer and labels, while a pod uses them. Like other
//! objects they have stored copies. Normalized as upstream: each certificate once, in an order that changes with each start of the
//! daemon, so that nobody relies on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::watching::publish;
use hostlet_base::{Backoff, BackoffPolicy};
use hostlet_net::tls::{ders_of, pem_of};
use hostlet_pod::objects::{ObjectError, TrustAnchors, TrustBundleRef, TrustBundleState};
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::answered::{Answered, SILENCE, TOLERANCE};
use super::certificates_api::{CertificatesResource, TrustBundle};
use super::offline::OfflineObjects;
use super::read::object_error;
use crate::api::{ApiErrorKind, follow, pause};

/// Pause before the server is asked again for a resource that it does not have.
const PAUSE: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(120),
};

/// The trust bundles that are followed.
pub(super) struct TrustBundles {
    resource: CertificatesResource,
    /// Gives the certificates their order.
    order: RandomState,
    answered: Answered,
    offline: OfflineObjects,
    known: Mutex<HashMap<TrustBundleRef, Arc<watch::Sender<TrustBundleState>>>>,
}

impl TrustBundles {
    /// None are followed yet.
    pub(super) fn new(answered: Answered, offline: OfflineObjects) -> Self {
        let resource = CertificatesResource::trust_bundles();
        Self { resource, order: RandomState::new(), answered, offline, known: Mutex::default() }
    }

    /// The state of bundles, and whether nobody follows them yet.
    pub(super) fn subscribe(&self, bundles: &TrustBundleRef) -> (watch::Receiver<TrustBundleState>, bool) {
        let mut known = self.known.lock();
        if let Some(known) = known.get(bundles) {
            return (known.subscribe(), false);
        }
        let (sender, receiver) = watch::channel(TrustBundleState::Pending);
        known.insert(bundles.clone(), Arc::new(sender));
        (receiver, true)
    }

    /// Removes bundles that have no receivers; returns whether it did. A later request follows them again.
    fn forget(&self, bundles: &TrustBundleRef, sender: &watch::Sender<TrustBundleState>) -> bool {
        let mut known = self.known.lock();
        let is_idle = sender.receiver_count() == 0;
        if is_idle {
            known.remove(bundles);
        }
        is_idle
    }
}

/// Certificates of bundles by their names.
type Bundles = BTreeMap<String, Vec<Vec<u8>>>;

/// Keeps the state of these bundles up to date until it has no receivers.
pub(super) async fn keep_trust_bundles(client: Client, all: Arc<TrustBundles>, bundles: TrustBundleRef) {
    let Some(known) = all.known.lock().get(&bundles).cloned() else { return };
    let follower = Follower { all: &all, bundles: &bundles, known: &known };
    loop {
        tokio::select! {
            // Cancel-safe: only waits.
            () = known.closed() => {}
            // Cancel-safe: each value is published as soon as it is known.
            never = follower.run(&client) => match never {},
            // Cancel-safe: only waits.
            never = follower.serve_in_silence() => match never {},
        }
        if all.forget(&bundles, &known) {
            return;
        }
    }
}

/// What to follow; `None` if that is nothing.
fn selection(bundles: &TrustBundleRef) -> Option<Config> {
    match bundles {
        TrustBundleRef::Named(name) => Some(Config::default().fields(&format!("metadata.name={name}"))),
        TrustBundleRef::OfSigner { signer, selector } => {
            let of_signer = Config::default().fields(&format!("spec.signerName={signer}"));
            let selector = selector.as_ref()?;
            Some(if selector.is_empty() { of_signer } else { of_signer.labels(selector) })
        }
    }
}

/// Follows bundles.
struct Follower<'a> {
    all: &'a TrustBundles,
    bundles: &'a TrustBundleRef,
    known: &'a watch::Sender<TrustBundleState>,
}

impl Follower<'_> {
    /// Follows the bundles, in whichever version the server has.
    async fn run(&self, client: &Client) -> Infallible {
        let Some(selection) = selection(self.bundles) else {
            publish(self.known, TrustBundleState::Known(Arc::default()));
            return std::future::pending().await;
        };
        let (mut backoff, requested_at) = (None, Instant::now());
        loop {
            match self.all.resource.served(client).await {
                Ok(resource) => {
                    self.follow(client, selection.clone(), resource).await;
                    self.all.resource.forget();
                }
                Err(error) => self.fail(requested_at, error),
            }
            let now = Instant::now();
            let next = Backoff::next(backoff, &PAUSE, now, now);
            backoff = Some(next);
            sleep(pause(next.delay, Duration::ZERO, rand::random())).await;
        }
    }

    /// Follows the bundles until the server does not have this version any more.
    async fn follow(&self, client: &Client, selection: Config, resource: ApiResource) {
        let (mut current, mut listing) = (Bundles::new(), Bundles::new());
        let requested_at = Instant::now();
        let api = |client| Api::all_with(client, &resource);
        follow::<TrustBundle>(client.clone(), api, selection, |event| {
            match event {
                Ok(event) => {
                    if apply(&mut current, &mut listing, event) {
                        self.publish(&current);
                    }
                }
                Err(error) if error.error_kind == ApiErrorKind::NotFound => return ControlFlow::Break(()),
                Err(error) => self.fail(requested_at, object_error(error.error_kind, error.message)),
            }
            ControlFlow::Continue(())
        })
        .await;
    }

    fn publish(&self, current: &Bundles) {
        let TrustBundles { order, answered, offline, .. } = self.all;
        answered.set();
        let state = match anchors(current, order) {
            Ok(anchors) => {
                let anchors = Arc::new(anchors);
                if anchors.bundles == 0 {
                    offline.remove_trust_bundles(self.bundles);
                } else {
                    offline.put_trust_bundles(self.bundles, &anchors);
                }
                TrustBundleState::Known(anchors)
            }
            Err(error) => TrustBundleState::Failed(error),
        };
        publish(self.known, state);
    }

    /// Publishes the stored copy, or why the anchors are not available, unless they are known or were requested just now.
    fn fail(&self, requested_at: Instant, error: ObjectError) {
        tracing::debug!(bundles = %self.bundles, %error, "cannot watch trust bundles; trying again");
        if requested_at.elapsed() < TOLERANCE || self.is_known() {
            return;
        }
        // Where nothing is permitted, the node's credentials are wrong, which says nothing about the bundles.
        let is_denied = matches!(error, ObjectError::Forbidden(_)) && self.all.answered.has();
        if is_denied || !self.serve_stored() {
            publish(self.known, TrustBundleState::Failed(error));
        }
    }

    /// Uses the stored copy after [`SILENCE`]: a connection that is lost in the network reports no failure for long.
    async fn serve_in_silence(&self) -> Infallible {
        sleep(SILENCE).await;
        if !self.all.answered.has() && !self.is_known() {
            self.serve_stored();
        }
        std::future::pending().await
    }

    /// Publishes the stored copy. Returns whether there is one.
    fn serve_stored(&self) -> bool {
        let stored = self.all.offline.serve_trust_bundles(self.bundles);
        let is_stored = stored.is_some();
        if let Some(stored) = stored {
            publish(self.known, TrustBundleState::Known(stored));
        }
        is_stored
    }

    fn is_known(&self) -> bool {
        matches!(&*self.known.borrow(), TrustBundleState::Known(_))
    }
}

/// Applies an event. Returns whether `current` may have changed, and has all bundles.
fn apply(current: &mut Bundles, listing: &mut Bundles, event: Event<TrustBundle>) -> bool {
    let name = |bundle: &TrustBundle| bundle.metadata.name.clone().unwrap_or_default();
    let certificates = |bundle: &TrustBundle| ders_of(&bundle.spec.trust_bundle);
    match event {
        Event::Init => {
            *listing = Bundles::new();
            return false;
        }
        Event::InitApply(bundle) => {
            listing.insert(name(&bundle), certificates(&bundle));
            return false;
        }
        Event::InitDone => *current = std::mem::take(listing),
        Event::Apply(bundle) => drop(current.insert(name(&bundle), certificates(&bundle))),
        Event::Delete(bundle) => drop(current.remove(&name(&bundle))),
    }
    true
}

/// The certificates of all bundles, each once.
fn anchors(bundles: &Bundles, order: &RandomState) -> Result<TrustAnchors, ObjectError> {
    let certificates: BTreeSet<&[u8]> = bundles.values().flatten().map(Vec::as_slice).collect();
    let mut certificates = Vec::from_iter(certificates);
    certificates.sort_by_key(|certificate| order.hash_one(certificate));
    let pem = pem_of(certificates).map_err(|error| ObjectError::Unavailable(error.to_string()))?;
    Ok(TrustAnchors { bundles: bundles.len(), pem })
}

#[cfg(test)]
#[path = "trust_bundles_tests.rs"]
mod tests;
