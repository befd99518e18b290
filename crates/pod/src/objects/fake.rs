//! An in-memory object source for tests. Tests set its objects; receivers see changes at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::WallClock;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    CertificateRef, CertificateState, ClaimError, ClaimRef, ClaimState, Object, ObjectError, ObjectKind,
    ObjectRef, ObjectSource, ObjectState, ServiceAccountInfo, Token, TokenRequest, TrustBundleRef,
    TrustBundleState,
};

/// The source. Clones share its objects.
#[derive(Clone)]
pub struct FakeObjects {
    clock: WallClock,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    objects: HashMap<ObjectRef, watch::Sender<ObjectState>>,
    claims: HashMap<ClaimRef, watch::Sender<ClaimState>>,
    trust_bundles: HashMap<TrustBundleRef, watch::Sender<TrustBundleState>>,
    /// By volume.
    certificates: HashMap<String, watch::Sender<CertificateState>>,
    accounts: HashMap<(String, String), ServiceAccountInfo>,
    tokens: u32,
    token_error: Option<ObjectError>,
    stored_token: Option<Token>,
}

impl FakeObjects {
    /// An empty source. Tokens are issued by `clock`.
    pub fn new(clock: WallClock) -> Self {
        Self { clock, inner: Arc::default() }
    }

    /// Sets the state of an object.
    pub fn set(&self, kind: ObjectKind, namespace: &str, name: &str, known: ObjectState) {
        let object = ObjectRef { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        self.with(|inner| inner.objects.entry(object).or_default().send_replace(known));
    }

    /// Sets the data of an object to these entries.
    pub fn put(&self, kind: ObjectKind, namespace: &str, name: &str, entries: &[(&str, &str)]) {
        let (mut text, mut binary) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in entries {
            match kind {
                ObjectKind::ConfigMap => drop(text.insert(key.to_string(), value.to_string())),
                ObjectKind::Secret => drop(binary.insert(key.to_string(), value.as_bytes().to_vec())),
            }
        }
        self.set(
            kind,
            namespace,
            name,
            ObjectState::Found(Arc::new(Object { text, binary, ..Object::default() })),
        );
    }

    /// Removes an object.
    pub fn remove(&self, kind: ObjectKind, namespace: &str, name: &str) {
        let object = ObjectRef { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        self.set(kind, namespace, name, ObjectState::Failed(ObjectError::not_found(&object)));
    }

    /// Sets the state of a claim, also of one that a pod must own.
    pub fn set_claim(&self, namespace: &str, name: &str, known: ClaimState) {
        let claim = ClaimRef { namespace: namespace.to_owned(), name: name.to_owned(), owner: None };
        self.with(|inner| inner.claims.entry(claim).or_default().send_replace(known));
    }

    /// Sets what is known of trust bundles.
    pub fn set_trust_bundles(&self, bundles: TrustBundleRef, known: TrustBundleState) {
        self.with(|inner| inner.trust_bundles.entry(bundles).or_default().send_replace(known));
    }

    /// Sets the state of the certificates in a volume.
    pub fn set_certificate(&self, volume: &str, known: CertificateState) {
        self.with(|inner| inner.certificates.entry(volume.to_owned()).or_default().send_replace(known));
    }

    /// Number of receivers of the certificates in a volume.
    pub fn certificate_watchers(&self, volume: &str) -> usize {
        self.with(|inner| inner.certificates.get(volume).map_or(0, watch::Sender::receiver_count))
    }

    /// Sets a service account.
    pub fn set_account(&self, namespace: &str, name: &str, account: ServiceAccountInfo) {
        self.with(|inner| inner.accounts.insert((namespace.to_owned(), name.to_owned()), account));
    }

    /// Number of token requests.
    pub fn tokens(&self) -> u32 {
        self.with(|inner| inner.tokens)
    }

    /// Makes token requests fail or succeed.
    pub fn fail_tokens(&self, error: Option<ObjectError>) {
        self.with(|inner| inner.token_error = error);
    }

    /// Sets the token that is stored for all requests.
    pub fn store_token(&self, token: Token) {
        self.with(|inner| inner.stored_token = Some(token));
    }

    /// Number of receivers of an object.
    pub fn watchers(&self, kind: ObjectKind, namespace: &str, name: &str) -> usize {
        let object = ObjectRef { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        self.with(|inner| inner.objects.get(&object).map_or(0, watch::Sender::receiver_count))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock())
    }
}

#[async_trait]
impl ObjectSource for FakeObjects {
    fn watch(&self, object: &ObjectRef) -> watch::Receiver<ObjectState> {
        self.with(|inner| {
            let absent = || watch::Sender::new(ObjectState::Failed(ObjectError::not_found(object)));
            inner.objects.entry(object.clone()).or_insert_with(absent).subscribe()
        })
    }

    fn watch_claim(&self, claim: &ClaimRef) -> watch::Receiver<ClaimState> {
        let absent = || {
            let text = format!("persistentvolumeclaims {:?} not found", claim.name);
            watch::Sender::new(ClaimState::Failed(ClaimError::FetchClaim(ObjectError::NotFound(text))))
        };
        let claim = ClaimRef { owner: None, ..claim.clone() };
        self.with(|inner| inner.claims.entry(claim).or_insert_with(absent).subscribe())
    }

    fn watch_trust_bundles(&self, bundles: &TrustBundleRef) -> watch::Receiver<TrustBundleState> {
        let none = || watch::Sender::new(TrustBundleState::Known(Arc::default()));
        self.with(|inner| inner.trust_bundles.entry(bundles.clone()).or_insert_with(none).subscribe())
    }

    fn watch_certificate(&self, certificate: &CertificateRef) -> watch::Receiver<CertificateState> {
        self.with(|inner| inner.certificates.entry(certificate.volume.clone()).or_default().subscribe())
    }

    async fn service_account(&self, namespace: &str, name: &str) -> Result<ServiceAccountInfo, ObjectError> {
        let known = self.with(|inner| inner.accounts.get(&(namespace.to_owned(), name.to_owned())).cloned());
        known.ok_or_else(|| ObjectError::NotFound(format!("serviceaccounts {name:?} not found")))
    }

    async fn request_token(&self, request: &TokenRequest) -> Result<Token, ObjectError> {
        let issued: Timestamp = self.clock.now();
        let (number, error) = self.with(|inner| {
            inner.tokens += 1;
            (inner.tokens, inner.token_error.clone())
        });
        if let Some(error) = error {
            return Err(error);
        }
        let lifetime = Duration::from_secs(request.expiration_seconds.unsigned_abs());
        let expires = issued.saturating_add(lifetime).unwrap_or(issued);
        Ok(Token { value: format!("token-{number}"), issued, expires })
    }
    fn stored_token(&self, _: &TokenRequest) -> Option<Token> {
        self.with(|inner| inner.stored_token.clone())
    }
}
