//! The task that measures the storage of pods: containers and volumes apart, each only a few at a time, as the schedule says.
//! Without pods to measure it only waits for some.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::containers;
use super::error::MeasureError;
use super::places::{PodPlaces, VolumePlace};
use super::schedule::{Part, PartKind, Schedule};
use super::storage::{ContainersStorage, PodStorage};
use crate::cri::RuntimeService;
use crate::log::LogLayout;
use crate::pleg::Cache;
use crate::sys::{slow_work, tree_usage};
use crate::types::{PodUid, error_chain, sleep_until};

/// Maximum number of parallel measurements of each kind: one that takes long delays no other pod's.
const PARALLEL: usize = 2;

/// Dependencies of the measurements.
#[derive(Clone)]
pub struct StorageSettings {
    /// The runtime, which measures writable layers.
    pub runtime: Arc<dyn RuntimeService>,
    /// The observed pods.
    pub observed: Cache,
    /// The directories of logs.
    pub logs: LogLayout,
    /// The daemon's directory.
    pub root_dir: PathBuf,
}

/// The measured storage of pods.
type PodsStorage = BTreeMap<PodUid, PodStorage>;

/// The handle of the measurements. Clones share them.
#[derive(Clone)]
pub struct StorageStats {
    places: watch::Sender<BTreeMap<PodUid, Arc<PodPlaces>>>,
    storage: watch::Receiver<PodsStorage>,
}

impl StorageStats {
    /// The task and its handle.
    pub fn new(settings: StorageSettings) -> (StorageStatsTask, Self) {
        let (places, measured) = watch::channel(BTreeMap::new());
        let (found, storage) = watch::channel(PodsStorage::new());
        let task = StorageStatsTask {
            settings: Arc::new(settings),
            places: measured,
            storage: found,
            schedule: Schedule::default(),
            failing: BTreeSet::new(),
        };
        (task, Self { places, storage })
    }

    /// Replaces what is measured.
    pub fn measure(&self, places: BTreeMap<PodUid, PodPlaces>) {
        self.places.send_if_modified(|known| {
            let is_same = known.len() == places.len()
                && known.iter().zip(&places).all(|((a, known), (b, new))| a == b && **known == *new);
            if !is_same {
                *known = places.into_iter().map(|(uid, places)| (uid, Arc::new(places))).collect();
            }
            !is_same
        });
    }

    /// The storage of the measured pods.
    pub fn storage(&self) -> watch::Receiver<PodsStorage> {
        self.storage.clone()
    }
}

/// The task, which the app runs.
pub struct StorageStatsTask {
    settings: Arc<StorageSettings>,
    places: watch::Receiver<BTreeMap<PodUid, Arc<PodPlaces>>>,
    storage: watch::Sender<PodsStorage>,
    schedule: Schedule,
    /// The parts whose last measurement failed, which was logged.
    failing: BTreeSet<(PodUid, Part)>,
}

/// A finished measurement.
struct Measured {
    uid: PodUid,
    part: Part,
    took: Duration,
    found: Option<Found>,
    problem: Option<MeasureError>,
}

enum Found {
    Containers(ContainersStorage),
    Volume(String, u64),
}

type Running = FuturesUnordered<BoxFuture<'static, Measured>>;

impl StorageStatsTask {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let (mut containers, mut volumes) = (Running::new(), Running::new());
        loop {
            let next_containers = self.start(PartKind::Containers, &containers);
            let next_volume = self.start(PartKind::Volume, &volumes);
            let next = next_containers.into_iter().chain(next_volume).min();
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.places.changed() => self.follow(),
                // These are cancel-safe: a finished measurement leaves its set only when returned.
                Some(measured) = containers.next() => self.finish(measured),
                Some(measured) = volumes.next() => self.finish(measured),
                // Cancel-safe: only waits.
                () = sleep_until(next) => {}
            }
        }
    }

    /// Starts what is due. Returns when the next part is due that could start then.
    fn start(&mut self, kind: PartKind, running: &Running) -> Option<Instant> {
        while running.len() < PARALLEL {
            let Some((uid, part)) = self.schedule.take(kind, Instant::now()) else {
                return self.schedule.next(kind);
            };
            let places = self.places.borrow().get(&uid).cloned();
            if let Some(places) = places {
                running.push(Box::pin(measure(self.settings.clone(), places, part)));
            }
        }
        None
    }

    /// Adopts what is to be measured.
    fn follow(&mut self) {
        let places = self.places.borrow_and_update();
        self.schedule.set(places.values().map(|places| &**places), Instant::now());
        self.failing.retain(|(uid, _)| places.contains_key(uid));
        self.storage.send_if_modified(|storage| {
            let before = storage.len();
            storage.retain(|uid, _| places.contains_key(uid));
            storage.len() != before
        });
    }

    fn finish(&mut self, measured: Measured) {
        let Measured { uid, part, took, found, problem } = measured;
        self.schedule.done(&uid, &part, took, Instant::now());
        let Some(places) = self.places.borrow().get(&uid).cloned() else { return };
        if let Some(found) = found {
            self.storage.send_if_modified(|all| all.entry(uid.clone()).or_default().set(found));
        }
        let key = (uid, part);
        let Some(problem) = problem else {
            self.failing.remove(&key);
            return;
        };
        if self.failing.insert(key) {
            let (pod, error) = (&places.pod, error_chain(&problem));
            tracing::warn!(%pod, uid = %pod.uid, error, "the storage of a pod cannot be measured; retried");
        }
    }
}

impl PodStorage {
    /// Sets a part; whether that changed something.
    fn set(&mut self, found: Found) -> bool {
        match found {
            Found::Volume(name, bytes) => self.volumes.insert(name, bytes) != Some(bytes),
            Found::Containers(found) => {
                let is_changed = self.containers.as_ref() != Some(&found);
                self.containers = Some(found);
                is_changed
            }
        }
    }
}

async fn measure(settings: Arc<StorageSettings>, places: Arc<PodPlaces>, part: Part) -> Measured {
    let began = Instant::now();
    let measured = match &part {
        Part::Containers => match &places.containers {
            Some(hosts) => containers::measure(&settings, &places.pod, hosts.clone())
                .await
                .map(|found| (Some(Found::Containers(found)), None)),
            None => Ok((None, None)),
        },
        Part::Volume(name) => match places.volumes.get(name) {
            Some(place) => volume(name, place).await,
            None => Ok((None, None)),
        },
    };
    let (found, problem) = measured.unwrap_or_else(|problem| (None, Some(problem)));
    Measured { uid: places.pod.uid.clone(), part, took: began.elapsed(), found, problem }
}

async fn volume(
    name: &str,
    place: &VolumePlace,
) -> Result<(Option<Found>, Option<MeasureError>), MeasureError> {
    let (path, enough) = (place.path.clone(), place.enough);
    let usage = slow_work("measuring a volume", move || tree_usage(&path, enough)).await;
    let usage = usage.and_then(|usage| usage).map_err(|source| MeasureError::Files { source })?;
    let is_exact_enough = usage.is_complete || usage.bytes > enough;
    let problem = (!is_exact_enough).then(|| MeasureError::TooDeep { path: place.path.clone() });
    Ok((Some(Found::Volume(name.to_owned(), usage.bytes)), problem))
}
