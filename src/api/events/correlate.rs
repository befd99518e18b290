//! Which event objects happenings become (client-go `EventCorrelator`): equal ones are counted in one object, many
//! similar ones are combined into one, and of an object that never stops only a trickle is told. Pure.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use crate::types::EventKind;

/// Different messages of one reason about one object within [`SIMILAR_WITHIN`], beyond which they are combined.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
const COMBINED: &str = "(combined from similar events): ";

/// Events of one object at once, and how long until one more.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// Entries remembered of each kind. The oldest are forgotten beyond that: their next event is a new object.
const REMEMBERED: usize = 4096;

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// What it happened to.
    pub object: ObjectReference,
    /// Trouble or not.
    pub kind: EventKind,
    /// Machine-readable cause.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What an event object is to say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Count {
    /// Where it is remembered.
    pub(super) key: Key,
    /// Name of the object that says it already; none if it is to be made.
    pub(super) name: Option<String>,
    /// How often it happened.
    pub(super) count: i32,
    /// When it happened first.
    pub(super) first: Timestamp,
    /// The message, combined or not.
    pub(super) message: String,
}

/// What makes two happenings equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    similar: Similar,
    message: String,
}

/// What makes two happenings similar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similar {
    object: String,
    kind: &'static str,
    reason: String,
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

#[derive(Debug)]
struct Bucket {
    left: f64,
    last: Instant,
}

/// Remembers what was told.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    known: HashMap<Key, KnownEvent>,
    similar: HashMap<Similar, Messages>,
    buckets: HashMap<String, Bucket>,
}

impl Correlator {
    /// What to tell of a happening; nothing if its object has told too much.
    pub(super) fn observe(
        &mut self,
        happening: &EventRecord,
        clock: Timestamp,
        now: Instant,
    ) -> Option<Count> {
        let object = identity(&happening.object);
        let similar = Similar {
            object: object.clone(),
            kind: happening.kind.as_str(),
            reason: happening.reason.clone(),
        };
        // Upstream's order: what is combined and counted is so even if nobody is told.
        let combined = self.combined(&similar, &happening.message, now);
        // All that is combined is one event, whatever it says last.
        let message = if combined.is_some() { COMBINED } else { &*happening.message };
        let key = Key { similar, message: message.to_owned() };
        let known = self.known.entry(key.clone()).or_insert(KnownEvent {
            name: None,
            count: 0,
            first: clock,
            last: now,
        });
        known.count = known.count.saturating_add(1);
        known.last = now;
        let told = Count {
            key,
            name: known.name.clone(),
            count: known.count,
            first: known.first,
            message: combined.unwrap_or_else(|| happening.message.clone()),
        };
        forget_oldest(&mut self.known, |known| known.last);
        self.may_tell(object, now).then_some(told)
    }

    /// The object of this name says it now.
    pub(super) fn told(&mut self, key: &Key, name: String) {
        if let Some(known) = self.known.get_mut(key) {
            known.name = Some(name);
        }
    }

    /// The object that said it is gone.
    pub(super) fn lost(&mut self, key: &Key) {
        if let Some(known) = self.known.get_mut(key) {
            known.name = None;
        }
    }

    /// The combined message, if there are too many different ones.
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
            if messages.different.len() >= SIMILAR {
                messages.different.remove(0);
            }
            messages.different.push(message.to_owned());
        }
        let is_many = messages.different.len() >= SIMILAR;
        forget_oldest(&mut self.similar, |messages| messages.last);
        is_many.then(|| format!("{COMBINED}{message}"))
    }

    fn may_tell(&mut self, object: String, now: Instant) -> bool {
        let bucket = self.buckets.entry(object).or_insert(Bucket { left: BURST, last: now });
        let refilled = now.saturating_duration_since(bucket.last).as_secs_f64() / REFILL.as_secs_f64();
        bucket.left = (bucket.left + refilled).min(BURST);
        bucket.last = now;
        let may = bucket.left >= 1.0;
        if may {
            bucket.left -= 1.0;
        }
        forget_oldest(&mut self.buckets, |bucket| bucket.last);
        may
    }
}

fn identity(object: &ObjectReference) -> String {
    let parts = [&object.kind, &object.namespace, &object.name, &object.uid, &object.field_path];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("\n")
}

/// Once there are too many, forgets the older half: rarely, so that it costs little each time.
fn forget_oldest<K: Eq + std::hash::Hash, V>(all: &mut HashMap<K, V>, last: impl Fn(&V) -> Instant) {
    if all.len() <= REMEMBERED {
        return;
    }
    let mut moments: Vec<Instant> = all.values().map(&last).collect();
    let (_, middle, _) = moments.select_nth_unstable(REMEMBERED / 2);
    let middle = *middle;
    all.retain(|_, value| last(value) > middle);
}
