//! What the worker of a volume does next. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::{Backoff, PodUid};
use tokio::time::Instant;

use super::record::{Done, Record};
use crate::Publish;

/// Which pod has a volume, under which name.
pub(super) type Key = (PodUid, String);

/// When something is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// At once.
    Now,
    /// At this time.
    At(Instant),
    /// After a change: a driver is registered, or another pod releases the volume.
    OnChange,
    /// Not any more: it is done.
    Never,
}

impl Due {
    fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Now => true,
            Self::At(due) => due <= now,
            Self::OnChange | Self::Never => false,
        }
    }

    fn at(self) -> Option<Instant> {
        match self {
            Self::At(due) => Some(due),
            Self::Now | Self::OnChange | Self::Never => None,
        }
    }
}

/// A desired publication.
#[derive(Clone, Debug)]
pub(super) struct DesiredPublication {
    pub(super) publish: Arc<Publish>,
    /// When it is published, or published again.
    pub(super) due: Due,
    /// After failures.
    pub(super) backoff: Option<Backoff<Instant>>,
}

/// When what concerns the whole volume is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dues {
    pub(super) unstage: Due,
    /// If a pod uses the volume.
    pub(super) expand: Due,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Publish for a pod, after everything that it requires.
    Publish(Key),
    /// Look whether the volume, which this pod uses, is to grow.
    Expand(Key),
    /// Unpublish for a removed pod that nobody releases.
    Unpublish(Key),
    /// Unstage the volume.
    Unstage,
    /// Nothing is staged, published or desired.
    Forget,
    /// Nothing to do before this time, without a change.
    Wait(Option<Instant>),
}

/// The next step. `orphaned` are the publications of removed pods. Other publications without a request stay: their pods run, and have not
/// been synced since the daemon started.
pub(super) fn next(
    record: &Record,
    desired: &BTreeMap<Key, DesiredPublication>,
    orphaned: &BTreeMap<Key, Due>,
    dues: Dues,
    now: Instant,
) -> Step {
    if let Some((key, _)) = orphaned.iter().find(|(key, due)| due.is_due(now) && !desired.contains_key(*key))
    {
        return Step::Unpublish(key.clone());
    }
    if desired.is_empty() && record.publications.is_empty() {
        return match record.staged {
            Done::No => Step::Forget,
            Done::Maybe | Done::Yes if dues.unstage.is_due(now) => Step::Unstage,
            Done::Maybe | Done::Yes => Step::Wait(dues.unstage.at()),
        };
    }
    // The one that has waited longest, so that one that always fails does not keep others waiting.
    let first =
        desired.iter().filter(|(_, desired)| desired.due.is_due(now)).min_by_key(|(_, desired)| desired.due);
    if let Some((key, _)) = first {
        return Step::Publish(key.clone());
    }
    let expandable = expandable(record, desired);
    if let Some(key) = expandable.filter(|_| dues.expand.is_due(now)) {
        return Step::Expand(key.clone());
    }
    let all = desired.values().map(|desired| desired.due).chain(orphaned.values().copied());
    let all = all.chain(expandable.map(|_| dues.expand));
    Step::Wait(all.filter_map(Due::at).min())
}

/// A pod that uses the volume of its claim and may write it, as upstream grows none that is only read.
fn expandable<'a>(record: &Record, desired: &'a BTreeMap<Key, DesiredPublication>) -> Option<&'a Key> {
    let is_expandable = |(key, desired): &(&Key, &DesiredPublication)| {
        let publish = &desired.publish;
        publish.claim.is_some() && !publish.read_only && record.published(&key.0, &key.1) == Done::Yes
    };
    desired.iter().find(is_expandable).map(|(key, _)| key)
}
