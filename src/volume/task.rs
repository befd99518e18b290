//! The room's task: owns the keepers, one a pod with volumes, and passes on what is asked of them. Never waits for one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::apply::PodVolumes;
use super::desired::NodeAmounts;
use super::error::{HostError, VolumeError};
use super::layout::PodLayout;
use super::reconciler::{Job, Shared, VolumeOwner, VolumeReconciler};
use crate::objects::ObjectSource;
use crate::sys::{Mounts, PathWork};
use crate::types::{Conflated, PodUid, WallClock};

/// How long a pod's worker waits for its volumes (upstream's bound).
const DEADLINE: Duration = Duration::from_secs(2 * 60 + 3);

/// Requests that may wait for the task, which only passes them on; whoever asks waits for a place.
const REQUESTS: usize = 16;

/// Jobs that may wait for one keeper. Its pod's worker asks for one thing at a time; more than one wait only when it gave
/// up waiting.
const JOBS: usize = 4;

/// What the room needs of the host and its surroundings.
pub struct VolumeSettings {
    /// The daemon's own directory.
    pub root: PathBuf,
    /// What containers can use of this node.
    pub node: NodeAmounts,
    /// The host's mounts.
    pub mounts: Arc<dyn Mounts>,
    /// Where ConfigMaps, Secrets and tokens come from.
    pub objects: Arc<dyn ObjectSource>,
    /// The time of day, by which tokens expire.
    pub clock: WallClock,
}

struct Request {
    uid: PodUid,
    job: Job,
}

/// What others ask of the room. All clones share one task.
#[derive(Clone)]
pub struct Volumes {
    requests: mpsc::Sender<Request>,
    changed: Conflated<()>,
}

impl Volumes {
    /// The room's task, and the handle to it.
    pub fn new(settings: VolumeSettings) -> (VolumeTask, Self) {
        let (sender, requests) = mpsc::channel(REQUESTS);
        let changed = Conflated::default();
        let VolumeSettings { root, node, mounts, objects, clock } = settings;
        let shared = Arc::new(Shared {
            root,
            node,
            mounts,
            paths: PathWork::default(),
            objects,
            clock,
            changed: changed.clone(),
        });
        let task = VolumeTask { shared, requests, keepers: HashMap::new(), tasks: JoinSet::new() };
        (task, Self { requests: sender, changed })
    }

    /// Makes the volumes of a pod what they are to be, and keeps them so until they are taken down: call it whenever the
    /// pod is synced, with the pod as it then is. What is as it should be costs a look. A volume that cannot be had does not
    /// keep the others; it is not in `mounted` then, and [`Volumes::changed`] tells when there is news. Dropping the
    /// future gives up the wait, and leaves what was made.
    pub async fn set_up(&self, subject: VolumeOwner) -> Result<PodVolumes, VolumeError> {
        let has_volumes =
            subject.pod.spec.as_ref().is_some_and(|spec| spec.volumes.iter().flatten().next().is_some());
        if !has_volumes {
            return Ok(PodVolumes::default());
        }
        let uid = PodUid::from(subject.pod.metadata.uid.as_deref().unwrap_or_default());
        let (reply, answer) = oneshot::channel();
        self.ask(uid, Job::SetUp { subject, reply }, answer).await
    }

    /// Takes down the volumes of a pod: nothing of it may run any more. Those of a pod that has none, or is not known, are
    /// taken down already. An error is told when something keeps a volume busy; then try again.
    pub async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let (reply, answer) = oneshot::channel();
        self.ask(uid.clone(), Job::TearDown { reply }, answer).await?
    }

    /// The next pod whose volumes have news for its worker, which should sync it. Has one reader. Cancel-safe.
    pub async fn changed(&self) -> PodUid {
        self.changed.next().await.0
    }

    async fn ask<T>(&self, uid: PodUid, job: Job, answer: oneshot::Receiver<T>) -> Result<T, VolumeError> {
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

/// The task, to be run by the app.
pub struct VolumeTask {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    keepers: HashMap<PodUid, mpsc::Sender<Job>>,
    /// Owns the keepers: dropped with the task, they end. What they did to the host is found again.
    tasks: JoinSet<()>,
}

impl VolumeTask {
    /// Runs until cancelled. Volumes stay as they are: their pods go on running.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return,
                // Cancel-safe: a request is taken only when it is returned.
                request = self.requests.recv() => match request {
                    Some(request) => self.pass_on(request),
                    // Nobody can ask any more; what is there is still kept up to date.
                    None => return cancel.cancelled().await,
                },
                // Cancel-safe: an ended keeper is taken off the set only when it is returned.
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a keeper of volumes ended early; the pod's next sync starts another");
                    }
                    self.keepers.retain(|_, inbox| !inbox.is_closed());
                }
            }
        }
    }

    /// Dropping a job tells whoever asked that it is to be tried again.
    fn pass_on(&mut self, Request { uid, job }: Request) {
        let Some(layout) = PodLayout::new(&self.shared.root, &uid) else {
            return refuse(job, &uid);
        };
        let job = match self.keepers.get(&uid) {
            None => job,
            Some(inbox) => match inbox.try_send(job) {
                Ok(()) | Err(TrySendError::Full(_)) => return,
                Err(TrySendError::Closed(job)) => job,
            },
        };
        let (inbox, jobs) = mpsc::channel(JOBS);
        // A fresh inbox has room for one.
        let _ = inbox.try_send(job);
        self.tasks.spawn(VolumeReconciler::new(uid.clone(), layout, self.shared.clone()).run(jobs));
        self.keepers.insert(uid, inbox);
    }
}

fn refuse(job: Job, uid: &PodUid) {
    match job {
        Job::SetUp { .. } => {}
        Job::TearDown { reply } => {
            let _ = reply.send(Err(VolumeError::Look(HostError::Uid(uid.to_string()))));
        }
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
