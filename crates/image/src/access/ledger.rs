//! The records of all images, and the pulls in progress, in memory and in the store. A pull is recorded before it begins, so that an
//! image whose pull was cut short counts as pulled, never as preloaded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::settings::ImageVerification;
use hostlet_base::{ImageReference, Moment, WallClock};
use hostlet_runtime::cri::ImageInfo;
use hostlet_store::{Store, Table};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::metrics::AccessMetrics;
use super::policy::needs_check;
use super::record::{Access, Admission, ImageRecord};
use super::stock::StockRecords;
use crate::credentials::SourcedLogin;
use crate::names::qualified;

/// How long a pull that was cut short is remembered while its image is absent: a runtime may complete it by itself.
const CUT_SHORT_FOR: Duration = Duration::from_secs(3600);

/// Whether a pod may use a present image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Granted,
    /// It depends on its credentials: see [`PullRecords::admits`].
    Depends,
    /// Only a pull with its credentials can show it.
    MustPull,
}

/// A pull that has begun, in its stored form.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredIntent {
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preloaded: Option<String>,
}

#[derive(Clone, Debug)]
struct Intent {
    since: Timestamp,
    /// The ID of the image that had the name before, if nobody had pulled it. It stays preloaded until a pull succeeds.
    preloaded: Option<String>,
    /// How many requests are in progress; zero if it was cut short.
    running: usize,
}

#[derive(Default)]
struct State {
    /// By the runtime's ID of the image.
    records: HashMap<String, ImageRecord>,
    /// By fully qualified name with tag or digest.
    intents: HashMap<String, Intent>,
}

/// The records. Cheap to clone; clones share them.
#[derive(Clone)]
pub(crate) struct PullRecords {
    inner: Arc<Inner>,
}

struct Inner {
    policy: ImageVerification,
    state: Mutex<State>,
    store: Store,
    clock: WallClock,
    metrics: AccessMetrics,
}

impl PullRecords {
    /// Continues with the records in `store`.
    pub(crate) fn new(policy: ImageVerification, store: Store, clock: WallClock) -> Self {
        let intent = |(name, StoredIntent { since, preloaded }): (String, StoredIntent)| {
            (name, Intent { since, preloaded, running: 0 })
        };
        let state = State {
            records: store.all(Table::PulledImages).into_iter().collect(),
            intents: store.all(Table::PullIntents).into_iter().map(intent).collect(),
        };
        let (state, metrics) = (Mutex::new(state), AccessMetrics::default());
        Self { inner: Arc::new(Inner { policy, state, store, clock, metrics }) }
    }

    /// Whether there are none.
    pub(crate) fn are_empty(&self) -> bool {
        let state = self.inner.state.lock();
        state.records.is_empty() && state.intents.is_empty()
    }

    /// Adds the records of a stock kubelet, whose names of images are as in the specs of pods.
    pub(crate) fn take_over(&self, StockRecords { records, intents }: StockRecords) {
        if records.is_empty() && intents.is_empty() {
            return;
        }
        let mut state = self.inner.state.lock();
        let (images, pulls) = (records.len(), intents.len());
        tracing::info!(images, pulls, "adopted the stock kubelet's records of pulls");
        for (id, stock) in records {
            let mut record = ImageRecord { credential_mapping: Default::default(), ..stock };
            for (name, access) in stock.credential_mapping {
                record.credential_mapping.entry(name_of(&name)).or_default().merge(access);
            }
            self.inner.store.put(Table::PulledImages, &id, &record);
            state.records.insert(id, record);
        }
        let since = self.inner.clock.steady();
        for name in intents.iter().map(|image| qualified(image)) {
            self.inner.store.put(Table::PullIntents, &name, &StoredIntent { since, preloaded: None });
            state.intents.insert(name, Intent { since, preloaded: None, running: 0 });
        }
    }

    pub(crate) fn register(&self, metrics: &Metrics) {
        let (intents, records) = (self.clone(), self.clone());
        self.inner.metrics.register(
            metrics,
            move || intents.inner.state.lock().intents.len(),
            move || records.inner.state.lock().records.len(),
        );
    }

    /// Counts a request for an image, with what was found out about it.
    pub(crate) fn count(&self, policy: &str, is_present: Option<bool>, needs_pull: Option<bool>) {
        self.inner.metrics.requested(policy, is_present, needs_pull);
    }

    /// Whether images are verified at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.inner.policy != ImageVerification::Disabled
    }

    /// Whether a pod may use the present image `found`, which its spec names as `image`.
    pub(crate) fn verdict(&self, image: &str, found: &ImageInfo) -> Verdict {
        let mut state = self.inner.state.lock();
        let was_pulled = self.was_pulled(&mut state, found, Some(image));
        if !needs_check(&self.inner.policy, image, was_pulled) {
            self.inner.metrics.checked("credentialPolicyAllowed");
            return Verdict::Granted;
        }
        match state.records.get(&found.id).and_then(|record| record.credential_mapping.get(&name_of(image))) {
            Some(access) if access.is_open() => {
                self.inner.metrics.checked("credentialRecordFound");
                Verdict::Granted
            }
            Some(access) if access.has_owners() => Verdict::Depends,
            Some(_) | None => {
                self.inner.metrics.checked("mustAuthenticate");
                Verdict::MustPull
            }
        }
    }

    /// Whether this node pulled the present image `found`, or began to, by one of its names or by the one that was `requested`. If it
    /// was not there before a pull that was cut short, that pull has evidently succeeded.
    fn was_pulled(&self, state: &mut State, found: &ImageInfo, requested: Option<&str>) -> bool {
        let names = found.tags.iter().chain(&found.digests).cloned().chain(requested.map(qualified));
        let mut is_under_way = false;
        for name in names {
            match state.intents.get(&name) {
                Some(intent) if intent.running > 0 => is_under_way = true,
                Some(intent) if intent.preloaded.as_ref() == Some(&found.id) => {}
                Some(_) => {
                    self.record(state, &found.id, None);
                    self.forget_intent(state, &name);
                }
                None => {}
            }
        }
        is_under_way || state.records.contains_key(&found.id)
    }

    /// Whether the credentials of a pod suffice for the image with this ID, which its spec names as `image`.
    pub(crate) fn admits(&self, image: &str, id: &str, presented: &[SourcedLogin]) -> bool {
        let mut state = self.inner.state.lock();
        let name = name_of(image);
        let access = state.records.get(id).and_then(|record| record.credential_mapping.get(&name));
        match access.map_or(Admission::Unknown, |access| access.admission(presented)) {
            Admission::Unknown => {
                self.inner.metrics.checked("mustAuthenticate");
                false
            }
            Admission::Granted => {
                self.inner.metrics.checked("credentialRecordFound");
                true
            }
            Admission::GrantedBy(access) => {
                self.record(&mut state, id, Some((name, access)));
                self.inner.metrics.checked("credentialRecordFound");
                true
            }
        }
    }

    /// Counts a check that could not be made: the credentials of the pod are unknown.
    pub(crate) fn check_failed(&self) {
        self.inner.metrics.checked("error");
    }

    /// Records that a pull of `image` begins, before it does; `present` is what the runtime has by that name. Cancel-safe: the
    /// intent counts as cut short.
    pub(crate) async fn begin(&self, image: &str, present: Option<&ImageInfo>) -> PullIntent {
        let name = qualified(image);
        {
            let mut state = self.inner.state.lock();
            let preloaded = present.filter(|found| !self.was_pulled(&mut state, found, Some(image)));
            let (since, preloaded) = (self.inner.clock.steady(), preloaded.map(|found| found.id.clone()));
            let new = Intent { since, preloaded, running: 0 };
            let intent = state.intents.entry(name.clone()).or_insert(new);
            intent.running += 1;
            let stored = StoredIntent { since: intent.since, preloaded: intent.preloaded.clone() };
            self.inner.store.put(Table::PullIntents, &name, &stored);
        }
        let intent = PullIntent { records: self.clone(), image: image.to_owned(), name, is_settled: false };
        self.inner.store.written().await;
        intent
    }

    /// Removes the records of images that are not among `present`, which was read after `listed_at`.
    pub(super) fn prune(&self, present: &[ImageInfo], listed_at: Timestamp) {
        let mut state = self.inner.state.lock();
        for image in present {
            // For its effect on pulls that were cut short.
            self.was_pulled(&mut state, image, None);
        }
        state.records.retain(|id, record| {
            record.last_updated_time >= listed_at || present.iter().any(|image| image.id == *id)
        });
        state
            .intents
            .retain(|_, intent| intent.running > 0 || Moment::since(listed_at, intent.since) < CUT_SHORT_FOR);
        let (store, State { records, intents }) = (&self.inner.store, &*state);
        store.retain(Table::PulledImages, |id| records.contains_key(id));
        store.retain(Table::PullIntents, |name| intents.contains_key(name));
    }

    /// The time of a clock that nobody sets, by which records and intents are compared.
    pub(super) fn now(&self) -> Timestamp {
        self.inner.clock.steady()
    }

    /// Adds to the record of an image; without a name, it only counts as pulled.
    fn record(&self, state: &mut State, id: &str, access: Option<(String, Access)>) {
        let last_updated_time = self.inner.clock.steady();
        let new = || ImageRecord { last_updated_time, credential_mapping: Default::default() };
        let record = state.records.entry(id.to_owned()).or_insert_with(new);
        record.last_updated_time = last_updated_time;
        if let Some((name, access)) = access {
            record.credential_mapping.entry(name).or_default().merge(access);
        }
        self.inner.store.put(Table::PulledImages, id, record);
    }

    fn forget_intent(&self, state: &mut State, name: &str) {
        state.intents.remove(name);
        self.inner.store.remove(Table::PullIntents, name);
    }
}

/// A pull that has begun. If dropped before it is settled, it was cut short.
pub(crate) struct PullIntent {
    records: PullRecords,
    /// As in the spec.
    image: String,
    name: String,
    is_settled: bool,
}

impl PullIntent {
    /// The pull succeeded with this login, or anonymously; the image has this ID.
    pub(crate) fn succeeded(mut self, id: &str, login: Option<&SourcedLogin>) {
        let records = self.records.clone();
        let mut state = records.inner.state.lock();
        records.record(&mut state, id, Some((name_of(&self.image), Access::of(login))));
        self.settle(&mut state);
    }

    pub(crate) fn failed(mut self) {
        let records = self.records.clone();
        self.settle(&mut records.inner.state.lock());
    }

    /// Forgets the intent with the last request for the image.
    fn settle(&mut self, state: &mut State) {
        self.is_settled = true;
        match state.intents.get_mut(&self.name) {
            Some(intent) if intent.running > 1 => intent.running -= 1,
            Some(_) => self.records.forget_intent(state, &self.name),
            None => {}
        }
    }
}

impl Drop for PullIntent {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        if let Some(intent) = self.records.inner.state.lock().intents.get_mut(&self.name) {
            intent.running = intent.running.saturating_sub(1);
        }
    }
}

/// The fully qualified name without tag and digest.
fn name_of(image: &str) -> String {
    ImageReference::parse(image).map(|reference| reference.name).unwrap_or_default()
}
