//! What is measured of a pod, and where it is. Plain values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use hostlet_base::{PodRef, PodUid};
use hostlet_pod::{ExternalVolume, ExternalVolumes};

/// Shortest interval between measurements of what has a limit (upstream's interval of the eviction manager).
pub(super) const PACE_OF_LIMITS: Duration = Duration::from_secs(10);
/// How long volumes are measured after somebody last asked for what they take: longer than the interval of those who ask regularly.
const LEASE: Duration = Duration::from_secs(10 * 60);

/// The storage of a pod that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlaces {
    /// The pod whose storage it is.
    pub pod: PodRef,
    /// Its volumes whose files are measured, by name.
    pub volumes: BTreeMap<String, VolumePlace>,
    /// Its volumes that are mounts of what outlives it, by name: only how full their filesystems are is measured.
    pub external: BTreeMap<String, ExternalVolume>,
    /// The pod's hosts file, if its containers are measured too: their writable layers and logs.
    pub containers: Option<PathBuf>,
}

/// A volume that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// The directory whose files are counted.
    pub path: PathBuf,
    /// Bytes above which its exact size does not matter.
    pub enough: u64,
    /// Shortest interval between measurements.
    pub pace: Duration,
}

impl VolumePlace {
    /// A volume that is measured because of a limit, up to `enough` bytes.
    pub fn limited(path: PathBuf, enough: u64) -> Self {
        Self { path, enough, pace: PACE_OF_LIMITS }
    }
}

pub(super) type Places = BTreeMap<PodUid, Arc<PodPlaces>>;

/// What is measured, by who needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct DesiredPlaces {
    /// What has limits.
    pub(super) limited: Places,
    /// What somebody asked for, and when last.
    pub(super) asked: Option<(Places, Instant)>,
}

impl DesiredPlaces {
    /// When what was asked for is forgotten.
    pub(super) fn forgotten_at(&self) -> Option<Instant> {
        self.asked.as_ref().map(|(_, at)| *at + LEASE)
    }

    /// All that is measured at `now`: for each volume what satisfies all who need it.
    pub(super) fn places(&self, now: Instant) -> Places {
        let mut all = self.limited.clone();
        let asked = self.asked.as_ref().filter(|(_, at)| now < *at + LEASE);
        for (uid, asked) in asked.into_iter().flat_map(|(places, _)| places) {
            let Some(limited) = all.get_mut(uid) else {
                all.insert(uid.clone(), asked.clone());
                continue;
            };
            let limited = Arc::make_mut(limited);
            for (name, asked) in &asked.volumes {
                let place = limited.volumes.entry(name.clone()).or_insert_with(|| asked.clone());
                place.enough = place.enough.max(asked.enough);
                place.pace = place.pace.min(asked.pace);
            }
        }
        all
    }
}

/// Adds the mounts of what outlives pods to what is measured.
pub(super) fn add_external(all: &mut Places, external: &ExternalVolumes) {
    for (pod, volumes) in external.iter().filter(|(_, volumes)| !volumes.is_empty()) {
        let alone = || {
            let (volumes, external) = (BTreeMap::new(), BTreeMap::new());
            Arc::new(PodPlaces { pod: pod.clone(), volumes, external, containers: None })
        };
        let places = all.entry(pod.uid.clone()).or_insert_with(alone);
        Arc::make_mut(places).external = volumes.clone();
    }
}
