//! The task that owns the reconcilers, one per pod with volumes, and forwards requests to them. Never waits for one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Conflated, PodUid, WallClock};
use hostlet_csi::{CsiVolumes, DriverObjects, Expansions};
use hostlet_host::Mounts;
use hostlet_pod::ExternalVolumes;
use hostlet_pod::objects::{ObjectSource, VolumeNeeds};
use hostlet_telemetry::Metrics;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::VolumeError;
use super::layout::PodLayout;
use super::metrics::VolumeMetrics;
use super::model::{NodeAmounts, NodeLabels};
use super::read::{self, ReadError};
use super::ready::PodVolumes;
use super::reconciler::{Job, VolumeOwner, VolumeReconciler};
use super::remembered::recall_needs;
use super::shared::{Shared, Sizes};
use super::sub_path::{self, SubPath, SubPathError};
use super::threads::VolumeThreads;

/// How long a worker waits for its pod's volumes (upstream's timeout).
const DEADLINE: Duration = Duration::from_secs(2 * 60 + 3);

/// Bound of pending requests to the task, which only forwards them; senders wait for capacity.
const REQUESTS: usize = 16;

/// Bound of pending jobs per reconciler. The pod's worker sends one at a time; more are pending only if it stopped waiting.
const JOBS: usize = 4;

/// Dependencies of the volumes.
pub struct VolumeSettings {
    /// The daemon's directory.
    pub root: PathBuf,
    /// The node's allocatable resources.
    pub node: NodeAmounts,
    /// The node's labels: a PersistentVolume may belong to some nodes only.
    pub labels: NodeLabels,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// The source of ConfigMaps, Secrets, claims and tokens.
    pub objects: Arc<dyn ObjectSource>,
    /// The volumes of CSI drivers.
    pub csi: CsiVolumes,
    /// What these drivers want.
    pub drivers: DriverObjects,
    /// What claims say of the sizes of volumes; `None` without an API server.
    pub expansions: Option<Arc<dyn Expansions>>,
    /// The label of containers' files by the host's SELinux policy ([`hostlet_host::container_file_label`]); `None` without SELinux.
    pub file_label: Option<String>,
    /// The clock by which tokens expire: they live as long as time passes on this host, whatever the clock is set to.
    pub clock: WallClock,
}

struct Request {
    uid: PodUid,
    job: Job,
}

/// The handle of the volume task. Clones share the task.
#[derive(Clone)]
pub struct Volumes {
    requests: mpsc::Sender<Request>,
    changed: Conflated<()>,
    shared: Arc<Shared>,
}

impl Volumes {
    /// The task and its handle. Blocking, briefly.
    pub fn new(settings: VolumeSettings) -> (VolumeTask, Self) {
        Self::with_threads(settings, VolumeThreads::default())
    }

    fn with_threads(settings: VolumeSettings, threads: VolumeThreads) -> (VolumeTask, Self) {
        let (sender, requests) = mpsc::channel(REQUESTS);
        let changed = Conflated::default();
        let VolumeSettings {
            root,
            node,
            labels,
            mounts,
            objects,
            csi,
            drivers,
            expansions,
            file_label,
            clock,
        } = settings;
        let volume_needs = watch::Sender::new(recall_needs(&root));
        let shared = Arc::new(Shared {
            root,
            node,
            labels,
            mounts,
            threads,
            objects,
            csi,
            drivers,
            expansions,
            sizes: Sizes::default(),
            file_label,
            clock,
            changed: changed.clone(),
            metrics: VolumeMetrics::default(),
            external: watch::Sender::new(ExternalVolumes::new()),
            volume_needs,
        });
        let handle = Self { requests: sender, changed, shared: shared.clone() };
        let task = VolumeTask { shared, requests, reconcilers: HashMap::new(), tasks: JoinSet::new() };
        (task, handle)
    }

    /// The mounts of what outlives pods, once they are set up.
    pub fn external(&self) -> watch::Receiver<ExternalVolumes> {
        self.shared.external.subscribe()
    }

    /// What the volumes of pods need and the pods do not name; of pods of earlier daemons, the Secrets that these remembered.
    pub fn needs(&self) -> watch::Receiver<VolumeNeeds> {
        self.shared.volume_needs.subscribe()
    }

    /// Adds its metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.shared.metrics.register(metrics);
    }

    /// Sets up the volumes of a pod and keeps them up to date until they are torn down. Call it in every sync with the current
    /// pod; it is cheap if nothing changed. A volume that is not available is not in `mounted` and does not affect the others;
    /// [`Volumes::changed`] reports when to retry. Dropping the future stops waiting, not the work.
    pub async fn set_up(&self, subject: VolumeOwner) -> Result<PodVolumes, VolumeError> {
        if subject.pod.host_volumes().next().is_none() {
            return Ok(PodVolumes::default());
        }
        let uid = PodUid::from(subject.pod.metadata.uid.as_deref().unwrap_or_default());
        let (reply, answer) = oneshot::channel();
        self.request(uid, Job::SetUp { subject, reply }, answer).await
    }

    /// Mounts a part of a volume of a pod for the next instance of a container. Returns where it is on the host. Removed with the
    /// pod's volumes.
    pub async fn mount_part(&self, part: SubPath) -> Result<PathBuf, SubPathError> {
        let Some(layout) = PodLayout::new(&self.shared.root, &part.uid) else {
            return Err(SubPathError::Uid(part.uid.to_string()));
        };
        let (mounts, path, uid) = (self.shared.mounts.clone(), part.host_path.clone(), part.uid.clone());
        let work = move || sub_path::prepare(&layout, &part, &*mounts);
        self.shared.on_path(&uid, &path, work).await?
    }

    /// The content of the file `path` in the volume of a pod at `host_path`, of at most `most` bytes.
    pub async fn read_file(
        &self,
        uid: &PodUid,
        host_path: &Path,
        path: PathBuf,
        most: u64,
    ) -> Result<Vec<u8>, ReadError> {
        let volume = host_path.to_owned();
        self.shared.on_path(uid, host_path, move || read::read_file(&volume, &path, most)).await?
    }

    /// Tears down the volumes of a pod that no longer runs anything. Succeeds for unknown pods and pods without volumes.
    /// Returns an error if a volume is busy; then retry.
    pub async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let (reply, answer) = oneshot::channel();
        self.request(uid.clone(), Job::TearDown { reply }, answer).await?
    }

    /// Waits for the next pod whose volumes changed and which its worker should sync. Has a single receiver. Cancel-safe.
    pub async fn changed(&self) -> PodUid {
        self.changed.next().await.0
    }

    async fn request<T>(
        &self,
        uid: PodUid,
        job: Job,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, VolumeError> {
        if self.requests.send(Request { uid, job }).await.is_err() {
            return Err(VolumeError::Ended);
        }
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(VolumeError::Busy),
            Err(_) => Err(VolumeError::TimedOut(DEADLINE)),
        }
    }
}

/// The task, which the app runs.
pub struct VolumeTask {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    reconcilers: HashMap<PodUid, mpsc::Sender<Job>>,
    /// The reconcilers, which end with the task. The next daemon finds what they did on the host.
    tasks: JoinSet<()>,
}

impl VolumeTask {
    /// Runs until cancelled. Volumes stay in place, as their pods keep running.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a request is received only when it is returned.
                request = self.requests.recv() => match request {
                    Some(request) => self.forward(request),
                    // No more requests can come; existing volumes are still kept up to date.
                    None => return cancel.cancelled().await,
                },
                // Cancel-safe: a finished reconciler leaves the set only when it is returned.
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a volume reconciler panicked; the pod's next sync starts another");
                    }
                    self.reconcilers.retain(|_, inbox| !inbox.is_closed());
                }
            }
        }
    }

    /// Forwards a job. If it is dropped, the requester receives an error and tries again.
    fn forward(&mut self, Request { uid, job }: Request) {
        let Some(layout) = PodLayout::new(&self.shared.root, &uid) else {
            return reject(job);
        };
        let job = match self.reconcilers.get(&uid) {
            None => job,
            Some(inbox) => match inbox.try_send(job) {
                Ok(()) | Err(TrySendError::Full(_)) => return,
                Err(TrySendError::Closed(job)) => job,
            },
        };
        let (inbox, jobs) = mpsc::channel(JOBS);
        // A new inbox has capacity for one.
        let _ = inbox.try_send(job);
        self.tasks.spawn(VolumeReconciler::new(uid.clone(), layout, self.shared.clone()).run(jobs));
        self.reconcilers.insert(uid, inbox);
    }
}

/// Answers for a pod whose UID is no name of a directory. It has no volumes, and cannot get any.
fn reject(job: Job) {
    match job {
        Job::SetUp { .. } => {}
        Job::TearDown { reply } => drop(reply.send(Ok(()))),
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
