//! What the owner of a volume does next. Pure.

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
    /// When something changes: a driver comes, a pod that is in the way goes.
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

/// A wanted publication.
#[derive(Clone, Debug)]
pub(super) struct Want {
    /// What is wanted.
    pub(super) wanted: Arc<Publish>,
    /// When it is published, or published again.
    pub(super) due: Due,
    /// After failures.
    pub(super) backoff: Option<Backoff<Instant>>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Publish for a pod, after everything that it takes.
    Publish(Key),
    /// Take back a publication of a pod that is gone, and that nobody releases.
    Unpublish(Key),
    /// Take the volume from the node.
    Unstage,
    /// Nothing of it is left, and nobody wants it.
    Forget,
    /// Nothing to do before this time, without a change.
    Wait(Option<Instant>),
}

/// What is next. `lost` has the publications of pods that are gone. Those without a want otherwise are kept: their pods run, and nobody
/// has asked for them since the daemon started.
pub(super) fn next(
    record: &Record,
    wants: &BTreeMap<Key, Want>,
    lost: &BTreeMap<Key, Due>,
    unstage: Due,
    now: Instant,
) -> Step {
    if let Some((key, _)) = lost.iter().find(|(key, due)| due.is_due(now) && !wants.contains_key(*key)) {
        return Step::Unpublish(key.clone());
    }
    if wants.is_empty() && record.publications.is_empty() {
        return match record.staged {
            Done::No => Step::Forget,
            Done::Maybe | Done::Yes if unstage.is_due(now) => Step::Unstage,
            Done::Maybe | Done::Yes => Step::Wait(unstage.at()),
        };
    }
    // The one that has waited longest, so that one that always fails does not keep others waiting.
    let first = wants.iter().filter(|(_, want)| want.due.is_due(now)).min_by_key(|(_, want)| want.due);
    if let Some((key, _)) = first {
        return Step::Publish(key.clone());
    }
    let dues = wants.values().map(|want| want.due).chain(lost.values().copied());
    Step::Wait(dues.filter_map(Due::at).min())
}
