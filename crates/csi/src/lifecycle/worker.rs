//! The worker of one volume, a task: takes jobs, performs the next step of the plan, and publishes the result. The steps are in
//! `publishing` and `teardown`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy, PodUid, error_chain, sleep_until, watching};
use hostlet_host::{PathWork, PodDirs, file_work, is_missing};
use hostlet_store::Table;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::layout;
use super::node_size::Expanding;
use super::plan::{DesiredPublication, Due, Dues, Key, Step, next};
use super::record::{Done, Record};
use super::vol_data;
use crate::volumes::{CsiSettings, ReleaseError, Services, States};
use crate::{
    Attachments, Expansions, NodeService, Publish, PublishState, VolumeId, VolumePhase, VolumePod, VolumeView,
};

/// Pauses between attempts after a failure (upstream `exponentialbackoff`, but for its first 500 ms).
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(122),
    reset_after: Duration::MAX,
};

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) settings: CsiSettings,
    pub(crate) attachments: Arc<dyn Attachments>,
    /// `None` without a cluster, in which nobody asks for other sizes.
    pub(crate) expansions: Option<Arc<dyn Expansions>>,
    pub(crate) states: States,
    /// For work on what drivers mounted, which may be on a server that does not respond.
    pub(crate) paths: PathWork,
}

/// A job for a worker.
pub(crate) enum Job {
    /// A pod needs the volume.
    Publish(Box<Publish>),
    /// All containers of a pod have terminated: its publications are removed.
    Release { id: VolumeId, pod: PodUid, reply: oneshot::Sender<Result<(), ReleaseError>> },
}

impl Job {
    /// Whose volume it is for.
    pub(crate) fn volume(&self) -> &VolumeId {
        match self {
            Self::Publish(desired) => &desired.id,
            Self::Release { id, .. } => id,
        }
    }

    /// Answers that there is nothing to do.
    pub(crate) fn done(self) {
        match self {
            Self::Publish(_) => {}
            // The requester may have given up.
            Self::Release { reply, .. } => drop(reply.send(Ok(()))),
        }
    }
}

/// The worker of a volume.
pub(crate) struct VolumeWorker {
    pub(super) shared: Arc<Shared>,
    pub(super) record: Record,
    pub(super) desired: BTreeMap<Key, DesiredPublication>,
    /// Publications of pods without a directory.
    orphaned: BTreeMap<Key, Due>,
    orphan_backoff: Option<Backoff<Instant>>,
    pub(super) unstage: Due,
    /// The publish context from the attacher, once the volume is attached.
    pub(super) context: Option<BTreeMap<String, String>>,
    unstage_backoff: Option<Backoff<Instant>>,
    pub(super) expanding: Expanding,
    inbox: mpsc::Receiver<Job>,
    /// A job that interrupted a wait.
    waiting: Option<Job>,
    services: watch::Receiver<Services>,
    /// What it does, and since when.
    phase: (VolumePhase, Timestamp),
    /// Why the last attempt failed.
    pub(super) last_error: Option<String>,
}

/// A job interrupted a wait.
pub(super) struct Interrupted;

impl VolumeWorker {
    /// The worker of the volume of `record`, which takes the jobs of `inbox`.
    pub(crate) fn new(shared: Arc<Shared>, record: Record, inbox: mpsc::Receiver<Job>) -> Self {
        let services = shared.settings.services.clone();
        let now = shared.settings.clock.now();
        let worker = Self {
            shared,
            record,
            desired: BTreeMap::new(),
            orphaned: BTreeMap::new(),
            orphan_backoff: None,
            unstage: Due::Now,
            context: None,
            unstage_backoff: None,
            expanding: Expanding::new(),
            inbox,
            waiting: None,
            services,
            phase: (VolumePhase::Idle, now),
            last_error: None,
        };
        worker.report_use();
        worker
    }

    /// Runs until nothing of the volume is left, or no more jobs can come. Returns the jobs that came too late.
    pub(crate) async fn run(mut self) -> Vec<Job> {
        self.find_orphaned().await;
        loop {
            if let Some(job) = self.waiting.take() {
                self.take(job).await;
            }
            let dues = Dues { unstage: self.unstage, expand: self.expanding.due };
            match next(&self.record, &self.desired, &self.orphaned, dues, Instant::now()) {
                Step::Publish(key) => self.publish(key).await,
                Step::Expand(key) => self.expand(&key).await,
                Step::Unpublish(key) => self.unpublish_orphaned(key).await,
                Step::Unstage => self.try_unstage().await,
                Step::Forget => match self.inbox.try_recv() {
                    Ok(job) => self.waiting = Some(job),
                    Err(_) => return self.forget().await,
                },
                Step::Wait(due) => {
                    self.rest(due);
                    tokio::select! {
                        // Cancel-safe: a job is received only when it is returned.
                        job = self.inbox.recv() => match job {
                            Some(job) => self.waiting = Some(job),
                            None => return Vec::new(),
                        },
                        // Cancel-safe as documented there.
                        () = watching::changed(&mut self.services) => self.changed(),
                        // Cancel-safe as documented there.
                        () = sleep_until(due) => {}
                    }
                }
            }
        }
    }

    async fn take(&mut self, job: Job) {
        match job {
            Job::Publish(desired) => {
                self.want(desired);
            }
            Job::Release { id: _, pod, reply } => {
                let released = self.release(&pod).await;
                // The requester may have given up; the next request finds what is left.
                let _ = reply.send(released);
            }
        }
    }

    /// Records a pod's request. A published volume stays as it is, unless its driver requires republishing. Returns whether the request
    /// changes whether a controller attaches the volume.
    fn want(&mut self, desired: Box<Publish>) -> bool {
        let key = (desired.pod.clone(), desired.spec_name.clone());
        self.orphaned.remove(&key);
        // Deleting the CSIDriver object does not make a volume in use an attached one.
        let is_unused = self.record.staged == Done::No && self.record.publications.is_empty();
        let is_otherwise =
            self.record.is_attached != desired.is_attached && (self.record.is_attached || is_unused);
        if is_otherwise {
            self.record.is_attached = desired.is_attached;
            self.report_use();
            if !is_unused {
                self.save();
            }
        }
        let is_published = self.record.published(&key.0, &key.1) == Done::Yes;
        match self.desired.get_mut(&key) {
            Some(known) => {
                let is_new = known.publish.as_ref() != desired.as_ref();
                known.publish = Arc::from(desired);
                if is_new && (!is_published || known.publish.is_republished) {
                    known.due = Due::Now;
                }
            }
            None => {
                let publish = Arc::from(desired);
                self.desired.insert(key, DesiredPublication { publish, due: Due::Now, backoff: None });
            }
        }
        is_otherwise
    }

    /// A driver was registered or deregistered, or another pod released the volume.
    pub(super) fn changed(&mut self) {
        let waiting =
            self.desired.values_mut().map(|desired| &mut desired.due).filter(|due| **due == Due::OnChange);
        let orphaned = self.orphaned.values_mut().filter(|due| **due == Due::OnChange);
        waiting.chain(orphaned).for_each(|due| *due = Due::Now);
        for due in [&mut self.unstage, &mut self.expanding.due] {
            if *due == Due::OnChange {
                *due = Due::Now;
            }
        }
    }

    /// The node service of the volume's driver.
    pub(super) fn service(&self) -> Result<Arc<dyn NodeService>, NoDriver> {
        let services = self.services.borrow();
        services.get(&self.record.id.driver).cloned().ok_or_else(|| NoDriver(self.record.id.driver.clone()))
    }

    /// Waits for what may take long, unless a pod is released meanwhile, which never waits for another pod's request, or a request changes
    /// whether the volume is attached. `work` must be cancel-safe.
    pub(super) async fn unless_released<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupted> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                // Cancel-safe: a job is received only when it is returned.
                Some(job) = self.inbox.recv() => match job {
                    Job::Publish(desired) => {
                        if self.want(desired) {
                            return Err(Interrupted);
                        }
                    }
                    release @ Job::Release { .. } => {
                        self.waiting = Some(release);
                        return Err(Interrupted);
                    }
                },
                // Cancel-safe, says its caller; it is polled until it is done otherwise.
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits for what no pod waits for, unless a job arrives. `work` must be cancel-safe.
    pub(super) async fn unless_asked<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        tokio::select! {
            biased;
            // Cancel-safe: a job is received only when it is returned.
            Some(job) = self.inbox.recv() => {
                self.waiting = Some(job);
                Err(Interrupted)
            }
            // Cancel-safe, says its caller.
            done = work => Ok(done),
        }
    }

    /// Publishes the state of a pod's volume.
    pub(super) fn report(&self, key: &Key, state: PublishState) {
        self.shared.states.set(&key.0, &key.1, state);
    }

    /// Shows what is done now.
    pub(super) fn enter(&mut self, phase: VolumePhase) {
        if self.phase.0 != phase {
            self.phase = (phase, self.shared.settings.clock.now());
        }
        self.show(None);
    }

    /// Shows that nothing is done until `due`.
    fn rest(&mut self, due: Option<Instant>) {
        let is_failing = self.last_error.is_some();
        let phase = match (self.service(), is_failing, self.desired.is_empty()) {
            (Err(NoDriver(_)), _, _) => VolumePhase::WaitingForDriver,
            (Ok(_), true, _) => VolumePhase::Failing,
            (Ok(_), false, false) => VolumePhase::Published,
            (Ok(_), false, true) => VolumePhase::Idle,
        };
        if self.phase.0 != phase {
            self.phase = (phase, self.shared.settings.clock.now());
        }
        self.show(due.filter(|_| is_failing));
    }

    fn show(&self, due: Option<Instant>) {
        let keys = self.desired.keys().cloned();
        let kept = self
            .record
            .publications
            .iter()
            .map(|own| (PodUid::from(own.pod.as_str()), own.spec_name.clone()));
        let keys: BTreeSet<Key> = keys.chain(kept).collect();
        let pods = keys.iter().map(|key| VolumePod {
            uid: key.0.as_str().to_owned(),
            pod: None,
            published: self.record.published(&key.0, &key.1) == Done::Yes,
            path: (self.record.published(&key.0, &key.1) != Done::No)
                .then(|| self.target(key))
                .flatten()
                .map(|path| path.display().to_string()),
        });
        let now = self.shared.settings.clock.now();
        let moment =
            |due: Instant| now.checked_add(due.saturating_duration_since(Instant::now())).unwrap_or(now);
        let view = VolumeView {
            driver: self.record.id.driver.clone(),
            handle: self.record.id.handle.clone(),
            name: self.record.spec_name.clone(),
            phase: self.phase.0,
            since: self.phase.1,
            attached: self.record.is_attached,
            staging: (self.record.staged != Done::No).then(|| self.staging().display().to_string()),
            last_error: self.last_error.clone(),
            next_retry: due.map(moment),
            pods: pods.collect(),
        };
        self.shared.states.show(&self.record.id, Some(view));
    }

    /// Writes the record to the store, always before the call that it describes.
    pub(super) fn save(&self) {
        let (store, name) = (&self.shared.settings.store, self.record.id.unique_name());
        store.put(Table::CsiVolumes, &name, &self.record);
    }

    fn report_use(&self) {
        self.shared.states.set_in_use(&self.record.id, self.record.is_attached);
    }

    async fn forget(mut self) -> Vec<Job> {
        if self.record.is_block {
            self.discard(&self.device_data().join(vol_data::FILE)).await;
        }
        self.shared.settings.store.remove(Table::CsiVolumes, &self.record.id.unique_name());
        self.shared.states.set_in_use(&self.record.id, false);
        self.shared.states.show(&self.record.id, None);
        // Last: once it is closed, another worker may begin, whose state must not be removed.
        self.inbox.close();
        std::iter::from_fn(|| self.inbox.try_recv().ok()).collect()
    }

    /// Where the volume is staged.
    pub(super) fn staging(&self) -> PathBuf {
        let root = &self.shared.settings.root;
        if self.record.is_block {
            layout::device_staging(root, &self.record.spec_name)
        } else {
            layout::staging(root, &self.record.id)
        }
    }

    /// Where it is published for a pod; `None` if the pod's UID is no name of a directory.
    pub(super) fn target(&self, (pod, spec_name): &Key) -> Option<PathBuf> {
        let root = &self.shared.settings.root;
        if self.record.is_block {
            layout::device_target(root, pod, spec_name)
        } else {
            layout::target(root, pod, spec_name)
        }
    }

    /// Where upstream's file about a block device is.
    pub(super) fn device_data(&self) -> PathBuf {
        layout::device_data(&self.shared.settings.root, &self.record.spec_name)
    }

    /// Finds publications of pods without a directory, which nobody will release.
    async fn find_orphaned(&mut self) {
        let root = self.shared.settings.root.clone();
        let keys: BTreeSet<Key> = self
            .record
            .publications
            .iter()
            .map(|own| (PodUid::from(own.pod.as_str()), own.spec_name.clone()))
            .collect();
        let is_gone = move |(pod, _): &Key| PodDirs::new(&root, pod).is_none_or(|dirs| is_gone(dirs.path()));
        let gone = file_work(move || keys.into_iter().filter(is_gone).collect::<Vec<_>>()).await;
        self.orphaned = gone.unwrap_or_default().into_iter().map(|key| (key, Due::Now)).collect();
    }

    async fn unpublish_orphaned(&mut self, key: Key) {
        let unpublished = self.unpublish(&key).await;
        self.last_error = unpublished.as_ref().err().map(|error| error_chain(error));
        let due = match unpublished {
            Ok(()) => {
                self.orphaned.remove(&key);
                return;
            }
            Err(error) => {
                let (volume, pod) = (&self.record.id, &key.0);
                tracing::warn!(%volume, %pod, error = error_chain(&error), "cannot unpublish the volume of a removed pod");
                self.later(self.orphan_backoff)
            }
        };
        self.orphan_backoff = Some(due);
        self.orphaned.insert(key, Due::At(due.updated + due.delay));
    }

    async fn try_unstage(&mut self) {
        let unstaged = self.unstage().await;
        self.last_error = unstaged.as_ref().err().map(|error| error_chain(error));
        if let Err(error) = unstaged {
            let volume = &self.record.id;
            tracing::warn!(%volume, error = error_chain(&error), "cannot unstage a volume; it is tried again");
            let next = self.later(self.unstage_backoff);
            self.unstage_backoff = Some(next);
            self.unstage = match self.service() {
                Ok(_) => Due::At(next.updated + next.delay),
                Err(NoDriver(_)) => Due::OnChange,
            };
        }
    }

    /// The pause after another failure.
    pub(super) fn later(&self, backoff: Option<Backoff<Instant>>) -> Backoff<Instant> {
        let now = Instant::now();
        Backoff::next(backoff, &RETRY, now, now)
    }
}

/// The driver is not registered. The text is upstream's.
#[derive(Debug, thiserror::Error)]
#[error("driver name {0} not found in the list of registered CSI drivers")]
pub(super) struct NoDriver(pub(super) String);

fn is_gone(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_err_and(|error| is_missing(&error))
}
