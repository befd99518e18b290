//! The door to the volumes of CSI drivers: takes what pods want, tells what became of it. Starts an owner for each volume (`life`), and
//! decides nothing about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
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

use crate::life::{self, FoundVolumes, Job, Owner, Record, Shared};
use crate::{Attachments, NodeService, Publish, PublishState, VolumeId, VolumeView};

/// Bound of pending requests to the task, which only forwards them; senders wait for capacity.
const REQUESTS: usize = 16;

/// Bound of pending jobs per owner: of a few pods that use one volume.
const JOBS: usize = 16;

/// The node services of the registered drivers, by the driver's name.
pub type Services = BTreeMap<String, Arc<dyn NodeService>>;

/// The volumes of a pod by the name that they have in the spec ([`Publish::spec_name`]), and what became of them.
pub type PodStates = BTreeMap<String, PublishState>;

/// Dependencies of the volumes.
pub struct CsiSettings {
    /// The daemon's directory.
    pub root: PathBuf,
    /// The node's name, of which upstream's files and the names of VolumeAttachments are made.
    pub node: String,
    /// This boot of the host, by which it is known that mounts are gone (`/proc/sys/kernel/random/boot_id`).
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

/// Why a pod's volumes are not all taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The daemon is shutting down.
    #[error("the volumes of CSI drivers are shut down")]
    Ended,
    /// The owner of a volume has too much to do, or has panicked.
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
}

/// What is known of pods' volumes, and which volumes must not be detached.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    pods: Arc<Mutex<BTreeMap<PodUid, Pod>>>,
    in_use: watch::Sender<Option<BTreeSet<String>>>,
    views: Arc<Mutex<BTreeMap<VolumeId, VolumeView>>>,
}

/// A pod with volumes.
#[derive(Debug, Default)]
struct Pod {
    states: watch::Sender<PodStates>,
    /// The volumes that it wants, or that are published for it.
    volumes: BTreeSet<VolumeId>,
}

impl States {
    /// Notes what became of a pod's volume.
    pub(crate) fn set(&self, pod: &PodUid, spec_name: &str, state: PublishState) {
        self.pods.lock().entry(pod.clone()).or_default().states.send_if_modified(|known| {
            let is_news = known.get(spec_name) != Some(&state);
            if is_news {
                known.insert(spec_name.to_owned(), state);
            }
            is_news
        });
    }

    /// Notes that a pod has a volume, or wants it.
    fn holds(&self, pod: &PodUid, id: &VolumeId) {
        self.pods.lock().entry(pod.clone()).or_default().volumes.insert(id.clone());
    }

    /// The volumes that a pod has, or wants.
    fn volumes(&self, pod: &PodUid) -> BTreeSet<VolumeId> {
        self.pods.lock().get(pod).map(|pod| pod.volumes.clone()).unwrap_or_default()
    }

    /// Notes that work on a pod's volume begins, unless something is known of it.
    fn begin(&self, wanted: &Publish) {
        self.holds(&wanted.pod, &wanted.id);
        let pods = self.pods.lock();
        let Some(pod) = pods.get(&wanted.pod) else { return };
        pod.states.send_if_modified(|known| {
            let is_new = !known.contains_key(&wanted.spec_name);
            if is_new {
                known.insert(wanted.spec_name.clone(), PublishState::Working);
            }
            is_new
        });
    }

    /// Notes that a pod has no volumes any more.
    fn forget(&self, pod: &PodUid) {
        self.pods.lock().remove(pod);
    }

    /// Notes how a volume stands; `None` if it is gone.
    pub(crate) fn show(&self, id: &VolumeId, view: Option<VolumeView>) {
        let mut views = self.views.lock();
        match view {
            Some(view) => drop(views.insert(id.clone(), view)),
            None => drop(views.remove(id)),
        }
    }

    /// Notes whether a controller must not detach a volume.
    pub(crate) fn set_in_use(&self, id: &VolumeId, is_used: bool) {
        self.in_use.send_if_modified(|names| {
            let names = names.get_or_insert_default();
            if is_used { names.insert(id.unique_name()) } else { names.remove(&id.unique_name()) }
        });
    }
}

impl CsiVolumes {
    /// The task and its handle. `found` are the volumes that the disk tells of, from [`crate::found_on_disk`]. From now on
    /// [`CsiVolumes::in_use`] has the volumes of earlier daemons.
    pub fn new(settings: CsiSettings, found: FoundVolumes) -> (CsiTask, Self) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let states = States::default();
        let records = life::stored(&settings.store, &settings.boot);
        let records = life::merged(records, found, &settings.boot);
        states.in_use.send_replace(Some(BTreeSet::new()));
        for record in records.values() {
            states.set_in_use(&record.id, record.is_attached);
            for own in &record.publications {
                states.holds(&own.pod.as_str().into(), &record.id);
            }
        }
        let task = CsiTask { settings, states: states.clone(), records, inbox };
        (task, Self { requests, states })
    }

    /// Of a host on which no driver can be registered: every volume fails, and there is nothing to take back.
    pub fn none() -> Self {
        // Without a receiver.
        Self { requests: mpsc::channel(1).0, states: States::default() }
    }

    /// A handle whose requests a test answers.
    #[cfg(feature = "fakes")]
    pub(crate) fn of_test() -> (Self, mpsc::Receiver<Request>, States) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let states = States::default();
        (Self { requests, states: states.clone() }, inbox, states)
    }

    /// Says that a pod wants a volume, until it is released. Returns at once; [`CsiVolumes::follow`] tells what becomes of it. Saying it
    /// again is cheap: with other tokens, options or secrets than before these are used from the next call on.
    pub async fn publish(&self, wanted: Publish) {
        self.states.begin(&wanted);
        if let Err(SendError(Request::Publish(wanted))) =
            self.requests.send(Request::Publish(Box::new(wanted))).await
        {
            let text = ReleaseError::Ended.to_string();
            self.states.set(&wanted.pod, &wanted.spec_name, PublishState::Failed(text));
        }
    }

    /// What became of the volumes of a pod. A volume that was never wanted is not in it.
    pub fn follow(&self, pod: &PodUid) -> watch::Receiver<PodStates> {
        self.states.pods.lock().entry(pod.clone()).or_default().states.subscribe()
    }

    /// Takes back all volumes that are published for a pod of which nothing runs any more, whichever daemon published them. Succeeds for
    /// pods without such volumes. Dropping the future stops waiting, not the work.
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

    /// The volumes on this node, and those that are wanted here, by driver and handle.
    pub fn views(&self) -> Vec<VolumeView> {
        self.states.views.lock().values().cloned().collect()
    }

    /// The unique names of the volumes that a controller must not detach: `status.volumesInUse` of the Node. `None` until those of earlier
    /// daemons are known.
    pub fn in_use(&self) -> watch::Receiver<Option<BTreeSet<String>>> {
        self.states.in_use.subscribe()
    }
}

/// The inboxes of the owners.
type Owners = BTreeMap<VolumeId, mpsc::Sender<Job>>;

/// The task, which the app runs.
pub struct CsiTask {
    settings: CsiSettings,
    states: States,
    /// What earlier daemons left.
    records: BTreeMap<VolumeId, Record>,
    inbox: mpsc::Receiver<Request>,
}

impl CsiTask {
    /// Runs until cancelled. Volumes stay in place, as their pods keep running. `attachments` says what the cluster knows of attached
    /// volumes.
    pub async fn run(mut self, attachments: Arc<dyn Attachments>, cancel: CancellationToken) {
        let Self { settings, states, .. } = self;
        let shared = Shared { settings, attachments, states, paths: PathWork::default() };
        let mut running =
            Running { shared: Arc::new(shared), owners: Owners::default(), tasks: JoinSet::new() };
        for (_, record) in self.records {
            running.start(record);
        }
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a request is received only when it is returned.
                Some(request) = self.inbox.recv() => match request {
                    Request::Publish(wanted) => running.forward(wanted.id.clone(), Job::Publish(wanted)),
                    Request::Release { pod, reply } => running.release(pod, reply),
                },
                // Cancel-safe: a finished owner leaves the set only when it is returned.
                Some(ended) = running.tasks.join_next() => running.ended(ended),
            }
        }
    }
}

/// The owners at work.
struct Running {
    shared: Arc<Shared>,
    owners: Owners,
    /// The owners, which end with the task. The next daemon finds what they recorded. They return jobs that came too late.
    tasks: JoinSet<Vec<Job>>,
}

impl Running {
    fn ended(&mut self, ended: Result<Vec<Job>, JoinError>) {
        self.owners.retain(|_, inbox| !inbox.is_closed());
        match ended {
            Ok(late) => late.into_iter().for_each(|job| self.forward(job.volume().clone(), job)),
            Err(error) => {
                tracing::error!(%error, "the owner of a volume panicked; the next request starts another");
            }
        }
    }

    /// Gives a job to the owner of a volume. If it is dropped, the requester receives an error, or says it again with its next sync.
    fn forward(&mut self, id: VolumeId, job: Job) {
        let job = match self.owners.get(&id) {
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
            (None, Job::Publish(wanted)) => Record::new(wanted, &settings.boot),
            // Nothing of it is left.
            (None, Job::Release { .. }) => return job.done(),
        };
        // A new inbox has capacity for one.
        let _ = self.start(record).try_send(job);
    }

    fn start(&mut self, record: Record) -> mpsc::Sender<Job> {
        let (inbox, jobs) = mpsc::channel(JOBS);
        let id = record.id.clone();
        self.tasks.spawn(Owner::new(self.shared.clone(), record, jobs).run());
        self.owners.insert(id, inbox.clone());
        inbox
    }

    /// Asks the owners of the pod's volumes. A driver that hangs delays only pods with its volumes.
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
