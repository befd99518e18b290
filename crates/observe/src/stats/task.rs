//! The task that measures the storage of pods: containers, volumes, and filesystems of volumes that outlive pods apart, each only a few
//! at a time, as the schedule says. Without pods to measure it only waits for some.

use std::collections::{BTreeMap, BTreeSet};
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
use super::places::{DesiredPlaces, PACE_OF_LIMITS, Places, PodPlaces, VolumePlace, add_external};
use super::schedule::{Part, PartKind, Schedule};
use super::settings::StorageSettings;
use super::storage::{ContainersStorage, PodStorage, VolumeUsage};
use hostlet_base::{PodUid, WallClock, error_chain, sleep_until};
use hostlet_host::{PathWork, SpaceUsage, filesystem_usage, slow_work, tree_usage};
use hostlet_pod::{ExternalVolume, ExternalVolumes};

/// Maximum number of parallel measurements of each kind: one that takes long delays no other pod's.
const PARALLEL: usize = 2;

/// The measured storage of pods.
type PodsStorage = BTreeMap<PodUid, PodStorage>;

/// The handle of the measurements. Clones share them.
#[derive(Clone)]
pub struct StorageStats {
    desired: watch::Sender<DesiredPlaces>,
    storage: watch::Receiver<PodsStorage>,
}

impl StorageStats {
    /// The task and its handle.
    pub fn new(settings: StorageSettings) -> (StorageStatsTask, Self) {
        let (desired, measured) = watch::channel(DesiredPlaces::default());
        let (found, storage) = watch::channel(PodsStorage::new());
        let task = StorageStatsTask {
            external: settings.external.clone(),
            settings: Arc::new(settings),
            paths: PathWork::default(),
            desired: measured,
            places: Places::new(),
            forget_at: None,
            storage: found,
            schedule: Schedule::default(),
            failing: BTreeSet::new(),
            asked: BTreeSet::new(),
        };
        (task, Self { desired, storage })
    }

    /// Replaces what is measured because of limits.
    pub fn measure(&self, places: BTreeMap<PodUid, PodPlaces>) {
        self.desired.send_if_modified(|desired| replace(&mut desired.limited, places));
    }

    /// Says that somebody needs to know the size of these volumes. They are measured for some time from now on.
    pub fn ask(&self, places: BTreeMap<PodUid, PodPlaces>) {
        self.desired.send_if_modified(|desired| {
            let now = Instant::now();
            let is_forgotten = desired.forgotten_at().is_none_or(|at| at <= now);
            let (known, at) = desired.asked.get_or_insert_with(|| (Places::new(), now));
            *at = now;
            replace(known, places) || is_forgotten
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
    /// The threads for volumes that outlive their pods.
    paths: PathWork,
    desired: watch::Receiver<DesiredPlaces>,
    external: watch::Receiver<ExternalVolumes>,
    /// What is measured now.
    places: Places,
    /// When some of the places is no longer desired.
    forget_at: Option<Instant>,
    storage: watch::Sender<PodsStorage>,
    schedule: Schedule,
    /// The parts whose last measurement failed, which was logged.
    failing: BTreeSet<(PodUid, Part)>,
    /// The drivers that are asked now.
    asked: BTreeSet<Arc<str>>,
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
    Volume(String, VolumeUsage),
}

/// What a measurement found, and why that may not be all.
type Outcome = Result<(Option<Found>, Option<MeasureError>), MeasureError>;

type Running = FuturesUnordered<BoxFuture<'static, Measured>>;

impl StorageStatsTask {
    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let (mut containers, mut volumes, mut external) = (Running::new(), Running::new(), Running::new());
        let mut drivers = Running::new();
        self.external.mark_changed();
        loop {
            let next_containers = self.start(PartKind::Containers, &containers);
            let next_volume = self.start(PartKind::Volume, &volumes);
            let next_external = self.start(PartKind::External, &external);
            let next_of_drivers = self.ask_drivers(&drivers);
            let next = [next_containers, next_volume, next_external, next_of_drivers, self.forget_at];
            let next = next.into_iter().flatten().min();
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                Ok(()) = self.desired.changed() => self.follow(),
                // Cancel-safe: see above.
                Ok(()) = self.external.changed() => self.follow(),
                // These are cancel-safe: a finished measurement leaves its set only when returned.
                Some(measured) = containers.next() => self.finish(measured),
                Some(measured) = volumes.next() => self.finish(measured),
                Some(measured) = external.next() => self.finish(measured),
                Some(measured) = drivers.next() => self.finish(measured),
                // Cancel-safe: only waits.
                () = sleep_until(next) => {
                    if self.forget_at.is_some_and(|at| at <= Instant::now()) {
                        self.follow();
                    }
                }
            }
        }
    }

    /// Starts what is due. Returns when the next part is due that could start then.
    fn start(&mut self, kind: PartKind, running: &Running) -> Option<Instant> {
        while running.len() < PARALLEL {
            let Some((uid, part)) = self.schedule.take(&kind, Instant::now()) else {
                return self.schedule.next(&kind);
            };
            if let Some(places) = self.places.get(&uid).cloned() {
                running.push(Box::pin(measure(self.settings.clone(), self.paths.clone(), places, part)));
            }
        }
        None
    }

    /// Asks each driver about the volume that is due, one at a time: one that does not answer delays no other's. Returns when the next one
    /// is due of a driver that is not asked now.
    fn ask_drivers(&mut self, running: &Running) -> Option<Instant> {
        let drivers = self.schedule.drivers();
        let mut next: Option<Instant> = None;
        for driver in drivers {
            if self.asked.contains(&driver) {
                continue;
            }
            let kind = PartKind::Driver(driver.clone());
            let Some((uid, part)) = self.schedule.take(&kind, Instant::now()) else {
                next = next.into_iter().chain(self.schedule.next(&kind)).min();
                continue;
            };
            if let Some(places) = self.places.get(&uid).cloned() {
                running.push(Box::pin(measure(self.settings.clone(), self.paths.clone(), places, part)));
                self.asked.insert(driver);
            }
        }
        next
    }

    /// Adopts what is to be measured.
    fn follow(&mut self) {
        let now = Instant::now();
        let desired = self.desired.borrow_and_update();
        self.places = desired.places(now);
        self.forget_at = desired.forgotten_at().filter(|at| *at > now);
        drop(desired);
        let external = self.external.borrow_and_update();
        if self.settings.external_pace.is_some() {
            add_external(&mut self.places, &external);
        }
        drop(external);
        let places = &self.places;
        self.schedule.set(places.values().map(|places| &**places), now);
        self.failing.retain(|(uid, _)| places.contains_key(uid));
        self.storage.send_if_modified(|storage| {
            let before = storage.len();
            storage.retain(|uid, storage| {
                let Some(places) = places.get(uid) else { return false };
                storage.volumes.retain(|name, _| {
                    places.volumes.contains_key(name) || places.external.contains_key(name)
                });
                true
            });
            storage.len() != before
        });
    }

    fn finish(&mut self, measured: Measured) {
        let Measured { uid, part, took, found, problem } = measured;
        if let Part::Driver { driver, .. } = &part {
            self.asked.remove(driver);
        }
        let Some(places) = self.places.get(&uid).cloned() else { return };
        let pace = match &part {
            Part::Containers => PACE_OF_LIMITS,
            Part::Volume(name) => places.volumes.get(name).map_or(PACE_OF_LIMITS, |place| place.pace),
            Part::External(_) | Part::Driver { .. } => self.settings.external_pace.unwrap_or(PACE_OF_LIMITS),
        };
        self.schedule.done(&uid, &part, took, pace, Instant::now());
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
    /// Sets a part; whether that changed something but the time.
    fn set(&mut self, found: Found) -> bool {
        match found {
            Found::Volume(name, usage) => {
                let before = self.volumes.insert(name, usage);
                before.is_none_or(|before| before.space != usage.space)
            }
            Found::Containers(found) => {
                let is_changed = self.containers.as_ref() != Some(&found);
                self.containers = Some(found);
                is_changed
            }
        }
    }
}

/// Replaces places; whether that changed something.
fn replace(known: &mut Places, places: BTreeMap<PodUid, PodPlaces>) -> bool {
    let is_same = known.len() == places.len()
        && known.iter().zip(&places).all(|((a, known), (b, new))| a == b && **known == *new);
    if !is_same {
        *known = places.into_iter().map(|(uid, places)| (uid, Arc::new(places))).collect();
    }
    !is_same
}

async fn measure(
    settings: Arc<StorageSettings>,
    paths: PathWork,
    places: Arc<PodPlaces>,
    part: Part,
) -> Measured {
    let began = Instant::now();
    let nothing = Ok((None, None));
    let outcome = match &part {
        Part::Containers => match &places.containers {
            Some(hosts) => containers::measure(&settings, &places.pod, hosts.clone())
                .await
                .map(|found| (Some(Found::Containers(found)), None)),
            None => nothing,
        },
        Part::Volume(name) => match places.volumes.get(name) {
            Some(place) => volume(&settings.clock, name, place).await,
            None => nothing,
        },
        Part::External(name) => match places.external.get(name) {
            Some(volume) => external(&settings.clock, &paths, &places.pod.uid, name, volume).await,
            None => nothing,
        },
        Part::Driver { volume: name, .. } => match places.external.get(name) {
            Some(volume) => of_driver(&settings, &paths, &places.pod.uid, name, volume).await,
            None => nothing,
        },
    };
    let (found, problem) = outcome.unwrap_or_else(|problem| (None, Some(problem)));
    Measured { uid: places.pod.uid.clone(), part, took: began.elapsed(), found, problem }
}

async fn volume(clock: &WallClock, name: &str, place: &VolumePlace) -> Outcome {
    let (path, enough) = (place.path.clone(), place.enough);
    let work = move || {
        let tree = tree_usage(&path, enough)?;
        // A directory that is missing has no filesystem of its own.
        Ok((tree, filesystem_usage(&path).unwrap_or_default()))
    };
    let usage = slow_work("measuring a volume", work).await;
    let (tree, filesystem) =
        usage.and_then(|usage| usage).map_err(|source| MeasureError::Files { source })?;
    let is_exact_enough = tree.is_complete || tree.space.bytes > enough;
    let problem = (!is_exact_enough).then(|| MeasureError::TooDeep { path: place.path.clone() });
    let usage = VolumeUsage { at: clock.now(), space: tree.space, filesystem };
    Ok((Some(Found::Volume(name.to_owned(), usage)), problem))
}

/// Asks the driver. If it does not know, the mount is measured, which a block device is not.
async fn of_driver(
    settings: &StorageSettings,
    paths: &PathWork,
    uid: &PodUid,
    name: &str,
    volume: &ExternalVolume,
) -> Outcome {
    let Some(of) = &volume.driver else { return Ok((None, None)) };
    match (settings.drivers)(of.clone(), volume.dir.clone()).await {
        Some(Ok((space, filesystem))) => {
            let usage = VolumeUsage { at: settings.clock.now(), space, filesystem };
            Ok((Some(Found::Volume(name.to_owned(), usage)), None))
        }
        Some(Err(source)) => Err(MeasureError::Driver { driver: of.driver.clone(), source }),
        None if of.is_block => Ok((None, None)),
        None => external(&settings.clock, paths, uid, name, volume).await,
    }
}

/// A server that does not respond blocks a thread for its volumes, but no measurement of others.
async fn external(
    clock: &WallClock,
    paths: &PathWork,
    uid: &PodUid,
    name: &str,
    volume: &ExternalVolume,
) -> Outcome {
    let dir = volume.dir.clone();
    let work = move || filesystem_usage(&dir);
    let measured = paths.run(uid.as_str(), &volume.unit, &volume.dir, work).await;
    let measured = measured.map_err(|source| MeasureError::Volume { source })?;
    let filesystem = measured.map_err(|source| MeasureError::Files { source })?;
    let space = SpaceUsage { bytes: filesystem.used, inodes: filesystem.inodes_used() };
    let usage = VolumeUsage { at: clock.now(), space, filesystem };
    Ok((Some(Found::Volume(name.to_owned(), usage)), None))
}
