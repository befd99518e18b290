//! Event correlation (client-go `EventCorrelator`): equal events are counted in one object, many similar ones are aggregated
//! into one, and events of a noisy object are rate-limited. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use hostlet_base::{EventKind, TokenBucket};

/// Number of different messages with the same reason and object within [`SIMILAR_WITHIN`] that makes them one aggregated event.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
const COMBINED: &str = "(combined from similar events): ";

/// Burst of one object's events, and the interval of further ones.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// Maximum number of entries of each kind. Beyond it the oldest are dropped: their next event is a new object.
const MAX_ENTRIES: usize = 4096;

/// An event before repetitions of it are counted in one object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// The involved object.
    pub object: ObjectReference,
    /// Normal or warning.
    pub kind: EventKind,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Annotations of the event object.
    pub annotations: BTreeMap<String, String>,
}

/// The content of an event object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventContent {
    /// Its key in the correlator.
    pub(super) key: Key,
    /// Name of the existing event object; `None` if it must be created.
    pub(super) name: Option<String>,
    /// Number of occurrences.
    pub(super) count: i32,
    /// Time of the first occurrence.
    pub(super) first: Timestamp,
    /// The message, aggregated or not.
    pub(super) message: String,
}

/// Key of equal events. Aggregated events are equal whatever part of the object they are about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    similar: Similar,
    field_path: Option<String>,
    message: String,
}

/// Key of similar events: events of all containers of a pod are similar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similar {
    limited: Limited,
    reason: String,
}

/// Key of events that share a rate limit: the normal ones of an object, or its warnings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Limited {
    object: String,
    kind: &'static str,
}

#[derive(Debug)]
struct KnownEvent {
    name: Option<String>,
    count: i32,
    first: Timestamp,
    last: Instant,
}

#[derive(Debug)]
struct Messages {
    different: Vec<String>,
    last: Instant,
}

/// State of the correlation.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    known: HashMap<Key, KnownEvent>,
    similar: HashMap<Similar, Messages>,
    buckets: HashMap<Limited, TokenBucket>,
}

impl Correlator {
    /// Returns the event object to write; `None` if the object's rate limit is exceeded.
    pub(super) fn observe(
        &mut self,
        record: &EventRecord,
        clock: Timestamp,
        now: Instant,
    ) -> Option<EventContent> {
        let limited = Limited { object: identity(&record.object), kind: record.kind.as_str() };
        let similar = Similar { limited: limited.clone(), reason: record.reason.clone() };
        // Upstream's order: events are aggregated and counted even if they are dropped.
        let combined = self.combined(&similar, &record.message, now);
        // All aggregated events are one event, whatever the last message.
        let (field_path, message) = match &combined {
            Some(_) => (None, COMBINED),
            None => (record.object.field_path.clone(), &*record.message),
        };
        let key = Key { similar, field_path, message: message.to_owned() };
        let known = self.known.entry(key.clone()).or_insert(KnownEvent {
            name: None,
            count: 0,
            first: clock,
            last: now,
        });
        known.count = known.count.saturating_add(1);
        known.last = now;
        let content = EventContent {
            key,
            name: known.name.clone(),
            count: known.count,
            first: known.first,
            message: combined.unwrap_or_else(|| record.message.clone()),
        };
        forget_oldest(&mut self.known, |known| known.last);
        self.within_limit(limited, now).then_some(content)
    }

    /// Records the name of the written event object.
    pub(super) fn written(&mut self, key: &Key, name: String) {
        if let Some(known) = self.known.get_mut(key) {
            known.name = Some(name);
        }
    }

    /// Records that the event object no longer exists.
    pub(super) fn lost(&mut self, key: &Key) {
        if let Some(known) = self.known.get_mut(key) {
            known.name = None;
        }
    }

    /// The aggregated message, if there are too many different ones.
    fn combined(&mut self, similar: &Similar, message: &str, now: Instant) -> Option<String> {
        let messages = self
            .similar
            .entry(similar.clone())
            .or_insert_with(|| Messages { different: Vec::new(), last: now });
        if now.saturating_duration_since(messages.last) > SIMILAR_WITHIN {
            messages.different.clear();
        }
        messages.last = now;
        if !messages.different.iter().any(|known| known == message) {
            messages.different.push(message.to_owned());
        }
        let is_many = messages.different.len() >= SIMILAR;
        if is_many {
            // As upstream: a message that is still known goes on being an event of its own.
            messages.different.remove(0);
        }
        forget_oldest(&mut self.similar, |messages| messages.last);
        is_many.then(|| format!("{COMBINED}{message}"))
    }

    fn within_limit(&mut self, limited: Limited, now: Instant) -> bool {
        let bucket = self.buckets.entry(limited).or_insert_with(|| TokenBucket::new(BURST, REFILL, now));
        let is_allowed = bucket.try_take(now);
        forget_oldest(&mut self.buckets, TokenBucket::last_use);
        is_allowed
    }
}

/// The object, without the part of it that an event is about.
fn identity(object: &ObjectReference) -> String {
    let parts = [&object.kind, &object.namespace, &object.name, &object.uid, &object.api_version];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("\n")
}

/// Drops the older half once there are too many: rarely, so that the amortized cost is small.
fn forget_oldest<K: Eq + std::hash::Hash, V>(all: &mut HashMap<K, V>, last: impl Fn(&V) -> Instant) {
    if all.len() <= MAX_ENTRIES {
        return;
    }
    let mut moments: Vec<Instant> = all.values().map(&last).collect();
    let (_, middle, _) = moments.select_nth_unstable(MAX_ENTRIES / 2);
    let middle = *middle;
    all.retain(|_, value| last(value) > middle);
}
