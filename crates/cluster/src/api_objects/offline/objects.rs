//! The handle to the copies: everybody who hears of an object from the API server puts it here, and whoever gets no answer is served
//! from here. Every operation is short; the disk is the store's.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use hostlet_base::{PodUid, WallClock, error_chain};
use hostlet_pod::objects::{
    Object, ObjectRef, ObjectReferences, Token, TokenRequest, TrustAnchors, TrustBundleRef, VolumeNeeds,
};
use hostlet_pod::{AdmittedPod, DesiredPods};
use hostlet_store::{KeyPlace, SealedRows, Store, Table, UnreadableRow};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::copies::Copies;
use super::copy::{CopySubject, CopyValue, StoredCopy};
use super::row::{ObjectRow, Row, TokenRow, TrustBundlesRow};

/// The tables of copies.
const TABLES: [Table; 3] = [Table::OfflineObjects, Table::OfflineTokens, Table::OfflineTrustBundles];

/// The pods that use copies.
pub struct OfflineUsers {
    /// The admitted pods.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// What a pod needs by its spec.
    pub references: fn(&AdmittedPod) -> ObjectReferences,
    /// What its volumes need besides.
    pub volume_needs: watch::Receiver<VolumeNeeds>,
}

/// A copy on which a pod relies because the API server has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedCopy {
    /// What it is a copy of.
    pub subject: CopySubject,
    /// When the API server sent it, by this host's clock at that time.
    pub sent_at: Timestamp,
    /// When it expires, if it is a token.
    pub expires: Option<Timestamp>,
}

/// The copies. Clones share them. The default stores and serves none.
#[derive(Clone, Default)]
pub struct OfflineObjects(Option<Arc<Shared>>);

struct Shared {
    store: Store,
    place: KeyPlace,
    clock: WallClock,
    state: Mutex<State>,
    problem: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    copies: Copies,
    /// `None` while there is no key: copies are in memory only.
    rows: Option<SealedRows>,
    /// Why there is no key.
    key_problem: Option<String>,
    users: Option<OfflineUsers>,
}

impl OfflineObjects {
    /// The copies in `store`, with the key at `place`, which is made if it is missing. Blocking.
    pub fn new(store: Store, place: KeyPlace, clock: WallClock) -> Self {
        let shared =
            Shared { store, place, clock, state: Mutex::default(), problem: watch::Sender::new(None) };
        shared.open();
        Self(Some(Arc::new(shared)))
    }

    /// Removes all copies and their key's file. For a host that is to have none. Blocking.
    pub fn discard(store: &Store, place: &KeyPlace) -> io::Result<()> {
        SealedRows::discard(store, &TABLES, place)
    }

    /// What is used is known from now on.
    pub(super) fn set_users(&self, mut users: OfflineUsers) {
        let Some(shared) = &self.0 else { return };
        // The pods of now count as a change.
        users.desired_pods.mark_changed();
        shared.state.lock().users = Some(users);
    }

    /// The API server has sent an object.
    pub(crate) fn put_object(&self, object: &ObjectRef, value: &Arc<Object>) {
        self.put(CopySubject::Object(object.clone()), CopyValue::Object(value.clone()));
    }

    /// The API server has issued a token, with the times of its clock.
    pub(crate) fn put_token(&self, request: &TokenRequest, token: &Token) {
        let Some(shared) = &self.0 else { return };
        let (issued, lifetime) = (shared.clock.now(), token.expires.duration_since(token.issued));
        let expires = issued.saturating_add(lifetime).unwrap_or(issued);
        let token = Token { value: token.value.clone(), issued, expires };
        self.put(CopySubject::Token(request.clone()), CopyValue::Token(token));
    }

    /// The API server has sent bundles with these trust anchors.
    pub(crate) fn put_trust_bundles(&self, bundles: &TrustBundleRef, anchors: &Arc<TrustAnchors>) {
        self.put(CopySubject::TrustBundles(bundles.clone()), CopyValue::TrustBundles(anchors.clone()));
    }

    fn put(&self, subject: CopySubject, value: CopyValue) {
        let Some(shared) = &self.0 else { return };
        let now = shared.clock.now();
        shared.with(|State { copies, rows, .. }| {
            if let Some(copy) = copies.put(&subject, value, now)
                && let Some(rows) = rows
            {
                write(rows, &subject, copy);
            }
        });
    }

    /// The API server does not have this object.
    pub(crate) fn remove_object(&self, object: &ObjectRef) {
        self.remove(CopySubject::Object(object.clone()));
    }

    /// The API server has none of these bundles.
    pub(crate) fn remove_trust_bundles(&self, bundles: &TrustBundleRef) {
        self.remove(CopySubject::TrustBundles(bundles.clone()));
    }

    fn remove(&self, subject: CopySubject) {
        let Some(shared) = &self.0 else { return };
        shared.with(|state| state.copies.remove(&subject));
        shared.store.remove(subject.table(), &subject.row_key());
    }

    /// The copy of an object, for a pod that gets no answer about it.
    pub(crate) fn serve_object(&self, object: &ObjectRef) -> Option<Arc<Object>> {
        let (copy, sent_at) = match self.serve(&CopySubject::Object(object.clone()))? {
            StoredCopy { value: CopyValue::Object(copy), sent_at } => (copy, sent_at),
            StoredCopy { value: CopyValue::Token(_) | CopyValue::TrustBundles(_), .. } => return None,
        };
        let ObjectRef { kind, namespace, name } = object;
        tracing::info!(%kind, namespace, name, %sent_at, "no answer of the API server: using the stored copy");
        Some(copy)
    }

    /// The copy of a token, which may have expired, for a pod that gets no answer to its request.
    pub(crate) fn serve_token(&self, request: &TokenRequest) -> Option<Token> {
        match self.serve(&CopySubject::Token(request.clone()))?.value {
            CopyValue::Token(token) => Some(token),
            CopyValue::Object(_) | CopyValue::TrustBundles(_) => None,
        }
    }

    /// The copy of trust anchors, for a pod that gets no answer about their bundles.
    pub(crate) fn serve_trust_bundles(&self, bundles: &TrustBundleRef) -> Option<Arc<TrustAnchors>> {
        let StoredCopy { value, sent_at } = self.serve(&CopySubject::TrustBundles(bundles.clone()))?;
        match value {
            CopyValue::TrustBundles(anchors) => {
                tracing::info!(%bundles, %sent_at, "no answer of the API server: using the stored copy");
                Some(anchors)
            }
            CopyValue::Object(_) | CopyValue::Token(_) => None,
        }
    }

    fn serve(&self, subject: &CopySubject) -> Option<StoredCopy> {
        self.0.as_ref()?.with(|state| state.copies.serve(subject))
    }

    /// The copies on which a pod with these references, beside what its volumes need, relies at the moment.
    pub fn served(&self, pod: &PodUid, mut needed: ObjectReferences) -> Vec<ServedCopy> {
        let Some(shared) = &self.0 else { return Vec::new() };
        let state = shared.state.lock();
        let of_volumes = state.users.as_ref().and_then(|users| users.volume_needs.borrow().get(pod).cloned());
        needed.extend(of_volumes.unwrap_or_default());
        let served = state.copies.served_of(CopySubject::of_references(needed));
        let copy = |(subject, copy): (CopySubject, &StoredCopy)| ServedCopy {
            subject,
            sent_at: copy.sent_at,
            expires: match &copy.value {
                CopyValue::Object(_) | CopyValue::TrustBundles(_) => None,
                CopyValue::Token(token) => Some(token.expires),
            },
        };
        served.map(copy).collect()
    }

    /// What is wrong with the copies, as sentences; `None` if nothing is.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        match &self.0 {
            Some(shared) => shared.problem.subscribe(),
            None => watch::channel(None).1,
        }
    }

    /// Registers how many there are.
    pub fn register(&self, metrics: &Metrics) {
        let count = |of: fn([usize; 3]) -> usize| {
            let shared = self.0.clone();
            move || shared.as_ref().map_or(0, |shared| of(shared.state.lock().copies.counts())) as f64
        };
        metrics.register_value(
            "hostlet_offline_objects_stored",
            "Number of ConfigMaps, Secrets and tokens that are stored on this host for starts without the API server.",
            count(|[stored, _, _]| stored),
        );
        metrics.register_value(
            "hostlet_offline_objects_served",
            "Number of them that pods use now, because the API server has not answered.",
            count(|[_, served, _]| served),
        );
        metrics.register_value(
            "hostlet_offline_objects_unreadable",
            "Number of stored ones that cannot be decrypted.",
            count(|[_, _, unreadable]| unreadable),
        );
    }

    /// Removes what no pod uses any more.
    pub(super) fn remove_unused(&self) {
        if let Some(shared) = &self.0 {
            shared.with(|_| {});
        }
    }

    /// Tries what has failed: to open the key, and to remove a former one. Returns whether nothing is left of that.
    pub(super) async fn complete(&self) -> bool {
        let Some(shared) = self.0.clone() else { return true };
        let has_rows = shared.state.lock().rows.is_some();
        if !has_rows {
            let opening = shared.clone();
            // A panic is none of its own: the next attempt reports what is wrong.
            let _ = hostlet_host::file_work(move || opening.open()).await;
        }
        let rows = shared.state.lock().rows.clone();
        match rows {
            None => false,
            Some(rows) if rows.has_former_key() => match rows.remove_former_key().await {
                Ok(is_removed) => is_removed,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove the key's file, which a credential has replaced; trying again");
                    false
                }
            },
            Some(_) => true,
        }
    }
}

impl Shared {
    /// Works on the state, with current users, and publishes what is wrong afterwards.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        for (table, key) in state.refresh() {
            self.store.remove(table, &key);
        }
        let done = work(&mut state);
        self.publish_problem(&state);
        done
    }

    fn publish_problem(&self, state: &State) {
        let problems: Vec<String> =
            state.key_problem.iter().cloned().chain(state.copies.problems()).collect();
        let problem = Some(problems.join("; ")).filter(|text| !text.is_empty());
        hostlet_base::watching::publish(&self.problem, problem);
    }

    /// Opens the rows. What the API server has sent since the start is written, and newer than what they have. Blocking.
    fn open(&self) {
        let opened = SealedRows::open(self.store.clone(), &self.place);
        let mut state = self.state.lock();
        match opened {
            Err(error) => {
                let error = error_chain(&error);
                let text = "copies of ConfigMaps, Secrets, tokens and trust bundles for starts without the API server are not stored";
                let problem = format!("{text}: {error}");
                if state.key_problem.as_ref() != Some(&problem) {
                    tracing::error!(error, "{text}; trying again");
                }
                state.key_problem = Some(problem);
            }
            Ok(rows) => {
                let sent: Vec<CopySubject> = state.copies.all().map(|(subject, _)| subject.clone()).collect();
                let outdated = state.restore(&rows);
                let to_write = |subject: &CopySubject| sent.contains(subject) || outdated.contains(subject);
                for (subject, copy) in state.copies.all().filter(|(subject, _)| to_write(subject)) {
                    write(&rows, subject, copy);
                }
                (state.rows, state.key_problem) = (Some(rows), None);
            }
        }
        self.publish_problem(&state);
    }
}

impl State {
    /// Notes what is used now, if that has changed. Returns the rows to remove; none before all sources of pods were read.
    fn refresh(&mut self) -> Vec<(Table, String)> {
        let Some(users) = &mut self.users else { return Vec::new() };
        let has_changed = users.desired_pods.has_changed().unwrap_or_default()
            || users.volume_needs.has_changed().unwrap_or_default();
        if !has_changed {
            return Vec::new();
        }
        let volume_needs = users.volume_needs.borrow_and_update();
        let desired_pods = users.desired_pods.borrow_and_update();
        // Pods that have ended start nothing more.
        let pods = desired_pods.pods.iter().filter(|pod| !pod.has_ended());
        let (mut used, mut alive) = (BTreeSet::new(), BTreeSet::new());
        for pod in pods {
            let uid = &pod.reference.uid;
            let mut needed = (users.references)(pod);
            needed.extend(volume_needs.get(uid).cloned().unwrap_or_default());
            used.extend(CopySubject::of_references(needed));
            alive.insert(uid.clone());
        }
        self.copies.set_used(used, alive);
        if desired_pods.ready { self.copies.remove_unused() } else { Vec::new() }
    }

    /// Takes what an earlier daemon stored. Returns what is to be written again.
    fn restore(&mut self, rows: &SealedRows) -> Vec<CopySubject> {
        let mut outdated = Vec::new();
        let (objects, unreadable) = rows.all::<ObjectRow>(Table::OfflineObjects);
        self.add_unreadable(Table::OfflineObjects, unreadable);
        let (tokens, unreadable) = rows.all::<TokenRow>(Table::OfflineTokens);
        self.add_unreadable(Table::OfflineTokens, unreadable);
        let (bundles, unreadable) = rows.all::<TrustBundlesRow>(Table::OfflineTrustBundles);
        self.add_unreadable(Table::OfflineTrustBundles, unreadable);
        let objects = objects.into_iter().map(|row| (row.is_outdated, row.content.into()));
        let tokens = tokens.into_iter().map(|row| (row.is_outdated, row.content.into()));
        let bundles = bundles.into_iter().map(|row| (row.is_outdated, row.content.into()));
        for (is_outdated, (subject, copy)) in objects.chain(tokens).chain(bundles) {
            if is_outdated {
                outdated.push(CopySubject::clone(&subject));
            }
            self.copies.restore(subject, copy);
        }
        outdated
    }

    fn add_unreadable(&mut self, table: Table, unreadable: Vec<UnreadableRow>) {
        for UnreadableRow { key, reason } in unreadable {
            tracing::warn!(key, reason, "a stored copy of an object cannot be opened; it is not used");
            self.copies.add_unreadable(table, key, reason);
        }
    }
}

fn write(rows: &SealedRows, subject: &CopySubject, copy: &StoredCopy) {
    match Row::new(subject, copy) {
        Some(Row::Object(row)) => rows.put(subject.table(), &subject.row_key(), &row),
        Some(Row::Token(row)) => rows.put(subject.table(), &subject.row_key(), &row),
        Some(Row::TrustBundles(row)) => rows.put(subject.table(), &subject.row_key(), &row),
        None => {}
    }
}
