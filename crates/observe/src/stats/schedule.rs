//! When each part of a pod is measured next. Pure: `now` is an argument; measures nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::PodUid;
use tokio::time::Instant;

use super::PodPlaces;

/// Longest interval between measurements of the same part, unless its pace is slower.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// A part is measured for at most one of this many parts of the time, unless that is less often than the longest interval.
const SHARE: u32 = 20;

/// A part of a pod that is measured at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Writable layers, logs and the hosts file.
    Containers,
    /// The files of a volume.
    Volume(String),
    /// The filesystem of a volume that outlives the pod.
    External(String),
    /// A volume of a driver, which is asked about it.
    Driver {
        /// The driver's name.
        driver: Arc<str>,
        /// The volume's name in the pod.
        volume: String,
    },
}

/// The kinds of parts, which do not wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Containers,
    Volume,
    External,
    Driver(Arc<str>),
}

impl Part {
    fn kind(&self) -> PartKind {
        match self {
            Self::Containers => PartKind::Containers,
            Self::Volume(_) => PartKind::Volume,
            Self::External(_) => PartKind::External,
            Self::Driver { driver, .. } => PartKind::Driver(driver.clone()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Due(Instant),
    UnderWay,
}

/// The next measurement of every part of every pod.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    parts: BTreeMap<(PodUid, Part), Turn>,
}

impl Schedule {
    /// Replaces what is measured. New parts are due now.
    pub(super) fn set<'a>(&mut self, all: impl Iterator<Item = &'a PodPlaces>, now: Instant) {
        let mut parts = BTreeMap::new();
        for places in all {
            let containers = places.containers.iter().map(|_| Part::Containers);
            let volumes = places.volumes.keys().cloned().map(Part::Volume);
            let external = places.external.iter().map(|(name, volume)| match &volume.driver {
                Some(of) => Part::Driver { driver: of.driver.clone(), volume: name.clone() },
                None => Part::External(name.clone()),
            });
            for part in containers.chain(volumes).chain(external) {
                let key = (places.pod.uid.clone(), part);
                let turn = self.parts.get(&key).copied().unwrap_or(Turn::Due(now));
                parts.insert(key, turn);
            }
        }
        self.parts = parts;
    }

    /// Takes the part of this kind that has been due for the longest time.
    pub(super) fn take(&mut self, kind: &PartKind, now: Instant) -> Option<(PodUid, Part)> {
        let (at, key) = self.due(kind).min()?;
        let key = (at <= now).then(|| key.clone())?;
        self.parts.insert(key.clone(), Turn::UnderWay);
        Some(key)
    }

    /// When the next part of this kind is due.
    pub(super) fn next(&self, kind: &PartKind) -> Option<Instant> {
        self.due(kind).map(|(at, _)| at).min()
    }

    /// The drivers that are asked about volumes.
    pub(super) fn drivers(&self) -> BTreeSet<Arc<str>> {
        let drivers = self.parts.keys().filter_map(|(_, part)| match part {
            Part::Driver { driver, .. } => Some(driver.clone()),
            Part::Containers | Part::Volume(_) | Part::External(_) => None,
        });
        drivers.collect()
    }

    fn due<'a>(&'a self, kind: &'a PartKind) -> impl Iterator<Item = (Instant, &'a (PodUid, Part))> {
        self.parts.iter().filter(move |((_, part), _)| part.kind() == *kind).filter_map(|(key, turn)| {
            match turn {
                Turn::Due(at) => Some((*at, key)),
                Turn::UnderWay => None,
            }
        })
    }

    /// A part was measured, which took this long, and is measured again after at least `pace`. One that takes long is measured less
    /// often.
    pub(super) fn done(&mut self, pod: &PodUid, part: &Part, took: Duration, pace: Duration, now: Instant) {
        if let Some(turn) = self.parts.get_mut(&(pod.clone(), part.clone())) {
            *turn = Turn::Due(now + took.saturating_mul(SHARE).clamp(pace, LONGEST.max(pace)));
        }
    }
}
