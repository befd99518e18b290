//! The entry point to volumes of CSI drivers: accepts pods' requests and publishes their states. Starts a worker for each volume
//! (`lifecycle`), and decides nothing about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::{PodUid, WallClock};
use hostlet_host::{Mounts, PathWork};
use hostlet_store::{Store, Table};
use parking_lot::Mutex;
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::lifecycle::{self, Job, Record, Shared, VolumeWorker, VolumesOnDisk};
use crate::{
    Attachments, CallError, Expansions, NodeService, Publish, PublishState, VolumeId, VolumeStats, VolumeView,
};

/// Bound of pending requests to the task, which only forwards them; senders wait for capacity.
const REQUESTS: usize = 16;

/// Bound of pending jobs per worker: of a few pods that use one volume.
const JOBS: usize = 16;

/// The node services of the registered drivers, by the driver's name.
pub type Services = BTreeMap<String, Arc<dyn NodeService>>;

/// The volumes of a pod by the name that they have in the spec ([`Publish::spec_name`]), and their states.
pub type PodStates = BTreeMap<String, PublishState>;

/// Dependencies of the volumes.
pub struct CsiSettings {
    /// The daemon's directory.
    pub root: PathBuf,
    /// The node's name, of which upstream's files and the names of VolumeAttachments are made.
    pub node: String,
    /// This boot of the host, which tells whether mounts survived (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// What is staged and published survives in it.
    pub store: Store,
    /// The registered drivers.
    pub services: watch::Receiver<Services>,
    /// The clock of what people read.
    pub clock: WallClock,
}

/// Why a pod's volumes are not all released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The daemon is shutting down.
    #[error("the volumes of CSI drivers are shut down")]
    Ended,
    /// The worker of a volume has too much to do, or has panicked.
    #[error("earlier work on the pod's volumes has not ended")]
    Busy,
    /// A volume could not be unpublished. The text is upstream's.
    #[error("UnmountVolume.TearDown failed for volume {volume:?} : {cause}")]
    Volume {
        /// Its name in the spec.
        volume: String,
        /// Why.
        cause: String,
    },
}

/// A request to the task.
pub(crate) enum Request {
    Publish(Box<Publish>),
    Release { pod: PodUid, reply: oneshot::Sender<Result<(), ReleaseError>> },
}

/// The handle. Clones share the task.
#[derive(Clone)]
pub struct CsiVolumes {
    requests: mpsc::Sender<Request>,
    states: States,
    services: watch::Receiver<Services>,
}

/// What is known of pods' volumes, and which volumes must not be detached.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    pods: Arc<Mutex<BTreeMap<PodUid, Pod>>>,
    in_use: watch::Sender<BTreeSet<String>>,
    views: Arc<Mutex<BTreeMap<VolumeId, VolumeView>>>,
}

/// A pod with volumes.
#[derive(Debug, Default)]
struct Pod {
    states: watch::Sender<PodStates>,
    /// The volumes that it requested, or that are published for it.
    volumes: BTreeSet<VolumeId>,
}

impl States {
    /// Publishes the state of a pod's volume.
    pub(crate) fn set(&self, pod: &PodUid, spec_name: &str, state: PublishState) {
        self.pods.lock().entry(pod.clone()).or_default().states.send_if_modified(|known| {
            let is_news = known.get(spec_name) != Some(&state);
            if is_news {
                known.insert(spec_name.to_owned(), state);
            }
            is_news
        });
    }

    /// Records that a pod has or requests a volume.
    fn holds(&self, pod: &PodUid, id: &VolumeId) {
        self.pods.lock().entry(pod.clone()).or_default().volumes.insert(id.clone());
    }

    /// The volumes that a pod has or requests.
    fn volumes(&self, pod: &PodUid) -> BTreeSet<VolumeId> {
        self.pods.lock().get(pod).map(|pod| pod.volumes.clone()).unwrap_or_default()
    }

    /// Records a request, as `Working` unless the volume has a state.
    fn begin(&self, desired: &Publish) {
        self.holds(&desired.pod, &desired.id);
        let pods = self.pods.lock();
        let Some(pod) = pods.get(&desired.pod) else { return };
        pod.states.send_if_modified(|known| {
            let is_new = !known.contains_key(&desired.spec_name);
            if is_new {
                known.insert(desired.spec_name.clone(), PublishState::Working);
            }
            is_new
        });
    }

    /// Removes a pod whose volumes are all released.
    fn forget(&self, pod: &PodUid) {
        self.pods.lock().remove(pod);
    }

    /// Publishes the view of a volume; `None` removes it.
    pub(crate) fn show(&self, id: &VolumeId, view: Option<VolumeView>) {
        let mut views = self.views.lock();
        match view {
            Some(view) => drop(views.insert(id.clone(), view)),
            None => drop(views.remove(id)),
        }
    }

    /// Records whether a controller must not detach a volume.
    pub(crate) fn set_in_use(&self, id: &VolumeId, is_used: bool) {
        self.in_use.send_if_modified(|names| {
            if is_used { names.insert(id.unique_name()) } else { names.remove(&id.unique_name()) }
        });
    }
}

impl CsiVolumes {
    /// The task and its handle. `found` are the volumes on disk, from [`crate::found_on_disk`]. From now on
    /// [`CsiVolumes::in_use`] has the volumes of earlier daemons.
    pub fn new(settings: CsiSettings, found: VolumesOnDisk) -> (CsiTask, Self) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let states = States::default();
        let records = lifecycle::stored(&settings.store, &settings.boot);
        let records = lifecycle::merged(records, found, &settings.boot);
        for record in records.values() {
            states.set_in_use(&record.id, record.is_attached);
            for own in &record.publications {
                states.holds(&own.pod.as_str().into(), &record.id);
            }
        }
        let services = settings.services.clone();
        let task = CsiTask { settings, states: states.clone(), records, inbox };
        (task, Self { requests, states, services })
    }

    /// Of a host on which no driver can be registered: every volume fails, and there is nothing to release.
    pub fn none() -> Self {
        // Without a receiver.
        let (requests, services) = (mpsc::channel(1).0, watch::channel(Services::default()).1);
        Self { requests, states: States::default(), services }
    }

    /// A handle whose requests a test answers.
    #[cfg(feature = "fakes")]
    pub(crate) fn of_test() -> (Self, mpsc::Receiver<Request>, States) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let states = States::default();
        let services = watch::channel(Services::default()).1;
        (Self { requests, states: states.clone(), services }, inbox, states)
    }

    /// Requests a volume for a pod until it is released. Returns at once; [`CsiVolumes::follow`] has the state. Repeating a request is
    /// cheap: changed tokens, options or secrets are used from the next call on.
    pub async fn publish(&self, desired: Publish) {
        self.states.begin(&desired);
        if let Err(SendError(Request::Publish(desired))) =
            self.requests.send(Request::Publish(Box::new(desired))).await
        {
            let text = ReleaseError::Ended.to_string();
            self.states.set(&desired.pod, &desired.spec_name, PublishState::Failed(text));
        }
    }

    /// The states of a pod's volumes. A volume that was never requested is not in it.
    pub fn follow(&self, pod: &PodUid) -> watch::Receiver<PodStates> {
        self.states.pods.lock().entry(pod.clone()).or_default().states.subscribe()
    }

    /// Unpublishes all volumes of a pod whose containers have all terminated, whichever daemon published them. Succeeds for pods without
    /// such volumes. Dropping the future stops waiting, not the work.
    ///
    /// # Errors
    /// A volume could not be unpublished: its driver is not there, or says no. Then retry.
    pub async fn release(&self, pod: &PodUid) -> Result<(), ReleaseError> {
        if self.states.volumes(pod).is_empty() {
            self.states.forget(pod);
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Request::Release { pod: pod.clone(), reply }).await;
        sent.map_err(|_| ReleaseError::Ended)?;
        answer.await.unwrap_or(Err(ReleaseError::Ended))
    }

    /// How full a volume is that is published at this path, as its driver says; `None` if the driver does not know (no `GET_VOLUME_STATS`), or is not
    /// registered. May be called during other calls for the volume.
    pub async fn stats(&self, id: &VolumeId, path: &Path) -> Option<Result<VolumeStats, CallError>> {
        let service = self.services.borrow().get(&id.driver).cloned()?;
        match service.capabilities().await {
            Ok(can) if can.stats => Some(service.stats(&id.handle, path).await),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// The volumes on this node, and those that pods requested, by driver and handle.
    pub fn views(&self) -> Vec<VolumeView> {
        self.states.views.lock().values().cloned().collect()
    }

    /// The unique names of the volumes that a controller must not detach, those of earlier daemons included: `status.volumesInUse` of the Node.
    pub fn in_use(&self) -> watch::Receiver<BTreeSet<String>> {
        self.states.in_use.subscribe()
    }
}

/// The inboxes of the workers.
type Workers = BTreeMap<VolumeId, mpsc::Sender<Job>>;

/// The task, which the app runs.
pub struct CsiTask {
    settings: CsiSettings,
    states: States,
    /// Volumes of earlier daemons.
    records: BTreeMap<VolumeId, Record>,
    inbox: mpsc::Receiver<Request>,
}

impl CsiTask {
    /// Runs until cancelled. Volumes stay in place, as their pods keep running. `attachments` says what the cluster knows of attached
    /// volumes, `expansions` what it knows of their sizes, if there is one.
    pub async fn run(
        mut self,
        attachments: Arc<dyn Attachments>,
        expansions: Option<Arc<dyn Expansions>>,
        cancel: CancellationToken,
    ) {
        let Self { settings, states, .. } = self;
        let shared = Shared { settings, attachments, expansions, states, paths: PathWork::default() };
        let mut running =
            Running { shared: Arc::new(shared), workers: Workers::default(), tasks: JoinSet::new() };
        for (_, record) in self.records {
            running.start(record);
        }
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a request is received only when it is returned.
                Some(request) = self.inbox.recv() => match request {
                    Request::Publish(desired) => running.forward(desired.id.clone(), Job::Publish(desired)),
                    Request::Release { pod, reply } => running.release(pod, reply),
                },
                // Cancel-safe: a finished worker leaves the set only when it is returned.
                Some(ended) = running.tasks.join_next() => running.ended(ended),
            }
        }
    }
}

/// The workers at work.
struct Running {
    shared: Arc<Shared>,
    workers: Workers,
    /// The workers, which end with the task. The next daemon finds their records. They return jobs that arrived too late.
    tasks: JoinSet<Vec<Job>>,
}

impl Running {
    fn ended(&mut self, ended: Result<Vec<Job>, JoinError>) {
        self.workers.retain(|_, inbox| !inbox.is_closed());
        match ended {
            Ok(late) => late.into_iter().for_each(|job| self.forward(job.volume().clone(), job)),
            Err(error) => {
                tracing::error!(%error, "the worker of a volume panicked; the next request starts another");
            }
        }
    }

    /// Sends a job to the worker of a volume. If it is dropped, the requester receives an error, or repeats the request with its next sync.
    fn forward(&mut self, id: VolumeId, job: Job) {
        let job = match self.workers.get(&id) {
            None => job,
            Some(inbox) => match inbox.try_send(job) {
                Ok(()) | Err(TrySendError::Full(_)) => return,
                Err(TrySendError::Closed(job)) => job,
            },
        };
        let settings = &self.shared.settings;
        let row = settings.store.get::<Record>(Table::CsiVolumes, &id.unique_name());
        let record = match (row, &job) {
            (Some(row), _) => row.in_boot(&settings.boot),
            (None, Job::Publish(desired)) => Record::new(desired, &settings.boot),
            // Nothing of it is left.
            (None, Job::Release { .. }) => return job.done(),
        };
        // A new inbox has capacity for one.
        let _ = self.start(record).try_send(job);
    }

    fn start(&mut self, record: Record) -> mpsc::Sender<Job> {
        let (inbox, jobs) = mpsc::channel(JOBS);
        let id = record.id.clone();
        self.tasks.spawn(VolumeWorker::new(self.shared.clone(), record, jobs).run());
        self.workers.insert(id, inbox.clone());
        inbox
    }

    /// Releases the pod's volumes through their workers. A driver that hangs delays only pods with its volumes.
    fn release(&mut self, pod: PodUid, reply: oneshot::Sender<Result<(), ReleaseError>>) {
        let mut answers = Vec::new();
        for id in self.shared.states.volumes(&pod) {
            let (reply, answer) = oneshot::channel();
            self.forward(id.clone(), Job::Release { id, pod: pod.clone(), reply });
            answers.push(answer);
        }
        let states = self.shared.states.clone();
        self.tasks.spawn(async move {
            let answers = join_all(answers).await.into_iter();
            let answers = answers.map(|answer| answer.unwrap_or(Err(ReleaseError::Busy)));
            let result = answers.collect::<Result<(), ReleaseError>>();
            if result.is_ok() {
                states.forget(&pod);
            }
            // The requester may have given up.
            let _ = reply.send(result);
            Vec::new()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_remembered_of_a_pod_that_is_released() {
        let volumes = CsiVolumes::none();
        // A pod whose volumes never became complete requests.
        let states = volumes.follow(&"a".into());
        volumes.release(&"a".into()).await.unwrap();
        assert!(volumes.states.pods.lock().is_empty() && states.borrow().is_empty());
    }
}
