//! Reconciles the volumes of one pod: sets them up at the worker's request, updates them when their sources change, and tears
//! them down. One task per pod, so that work on its volumes never overlaps, and a disk or API server that hangs delays only
//! this pod.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::apply::{self, PodVolumes};
use super::desired::{Context, NodeAmounts, desired, typed_host_paths};
use super::error::{VolumeError, VolumeProblem};
use super::layout::PodLayout;
use super::sources::Sources;
use crate::objects::ObjectSource;
use crate::pod::AdmittedPod;
use crate::sys::{Mounts, PathWork, file_work};
use crate::types::{Backoff, BackoffPolicy, Conflated, PodUid, WallClock, sleep_until};

/// Delay until a failure is retried without a request. Changes of objects are handled at once.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(120),
};

/// The pod whose volumes are requested.
#[derive(Clone, Debug)]
pub struct VolumeOwner {
    /// The current pod: its labels and annotations may be in its volumes.
    pub pod: Arc<AdmittedPod>,
    /// Memory limit of the pod in bytes, which includes volumes in memory.
    pub memory_limit: Option<u64>,
}

/// What all reconcilers share.
pub(super) struct Shared {
    pub(super) root: std::path::PathBuf,
    pub(super) node: NodeAmounts,
    pub(super) mounts: Arc<dyn Mounts>,
    pub(super) paths: PathWork,
    pub(super) objects: Arc<dyn ObjectSource>,
    pub(super) clock: WallClock,
    pub(super) changed: Conflated<()>,
}

/// A request to a reconciler.
pub(super) enum Job {
    SetUp { subject: VolumeOwner, reply: oneshot::Sender<PodVolumes> },
    TearDown { reply: oneshot::Sender<Result<(), VolumeError>> },
}

/// The reconciler of one pod, a task.
pub(super) struct VolumeReconciler {
    uid: PodUid,
    layout: PodLayout,
    shared: Arc<Shared>,
    sources: Sources,
    subject: Option<VolumeOwner>,
    /// The problems of the last setup.
    problems: Vec<VolumeProblem>,
    retry: Option<Backoff<Instant>>,
}

impl VolumeReconciler {
    pub(super) fn new(uid: PodUid, layout: PodLayout, shared: Arc<Shared>) -> Self {
        let sources = Sources::new(shared.objects.clone());
        Self { uid, layout, shared, sources, subject: None, problems: Vec::new(), retry: None }
    }

    /// Runs until the volumes are torn down or no more requests can come.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        loop {
            let due = self.due();
            tokio::select! {
                biased;
                // Cancel-safe: a job is received only when it is returned.
                job = inbox.recv() => match job {
                    Some(Job::SetUp { subject, reply }) => self.set_up(subject, reply).await,
                    Some(Job::TearDown { reply }) => {
                        let done = self.tear_down().await;
                        let is_down = done.is_ok();
                        // The requester may have given up; the next one gets the result again.
                        let _ = reply.send(done);
                        if is_down {
                            return;
                        }
                    }
                    None => return,
                },
                // Cancel-safe: a change stays pending until it is handled.
                () = self.sources.changed() => self.refresh().await,
                // Cancel-safe: a sleep until a fixed time takes nothing.
                () = sleep_until(due) => self.refresh().await,
            }
        }
    }

    async fn set_up(&mut self, subject: VolumeOwner, mut reply: oneshot::Sender<PodVolumes>) {
        self.sources.follow(&subject.pod, &self.layout).await;
        self.subject = Some(subject.clone());
        let now = self.shared.clock.now();
        let path_problems = tokio::select! {
            // Cancel-safe: nothing was changed yet. A new request of the worker takes precedence.
            () = reply.closed() => return,
            // Cancel-safe: what arrived is kept.
            path_problems = async {
                self.sources.renew(now).await;
                self.sources.first_answers().await;
                host_path_problems(&subject.pod, &self.shared).await
            } => path_problems,
        };
        let volumes = self.apply(subject, path_problems).await;
        let _ = reply.send(volumes);
    }

    /// Updates the volumes after a change of their sources.
    async fn refresh(&mut self) {
        let Some(subject) = self.subject.clone() else { return };
        self.sources.renew(self.shared.clock.now()).await;
        let path_problems = host_path_problems(&subject.pod, &self.shared).await;
        let before = std::mem::take(&mut self.problems);
        self.apply(subject, path_problems).await;
        if self.problems != before {
            for problem in &self.problems {
                tracing::warn!(uid = %self.uid, "{problem}");
            }
            self.shared.changed.push(&self.uid, |()| {});
        }
    }

    /// Sets up the volumes. `path_problems` are the problems of host paths.
    async fn apply(&mut self, subject: VolumeOwner, path_problems: Vec<VolumeProblem>) -> PodVolumes {
        let now = self.shared.clock.now();
        let snapshot = self.sources.snapshot(now);
        let (layout, shared) = (self.layout.clone(), self.shared.clone());
        let applied = file_work(move || {
            let context = Context {
                pod: &subject.pod,
                memory_limit: subject.memory_limit,
                node: &shared.node,
                snapshot: &snapshot,
            };
            let volumes = subject.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            let desired_volumes =
                volumes.map(|volume| (volume.name.clone(), desired(volume, &context))).collect();
            apply::set_up(&layout, desired_volumes, &*shared.mounts, now, rand::random())
        });
        let mut volumes = applied.await.unwrap_or_else(|error| PodVolumes {
            problems: vec![VolumeProblem::new("", &error)],
            ..PodVolumes::default()
        });
        for problem in path_problems {
            volumes.mounted.remove(&problem.volume);
            volumes.problems.push(problem);
        }
        let failed = !volumes.problems.is_empty() || self.sources.has_failed_tokens();
        self.retry = failed.then(|| {
            let now = Instant::now();
            Backoff::next(self.retry, &RETRY, now, now)
        });
        self.problems = volumes.problems.clone();
        volumes
    }

    async fn tear_down(&mut self) -> Result<(), VolumeError> {
        self.subject = None;
        self.sources = Sources::new(self.shared.objects.clone());
        self.retry = None;
        let (shared, uid) = (self.shared.clone(), self.uid.clone());
        let down = file_work(move || apply::tear_down(&shared.root, &uid, &*shared.mounts));
        // The panic itself is logged by the panic hook.
        down.await.unwrap_or(Err(VolumeError::Ended))
    }

    /// When the volumes are processed without a change: a token is due, or something failed.
    fn due(&self) -> Option<Instant> {
        if let Some(retry) = &self.retry {
            return Some(retry.updated + retry.delay);
        }
        let renewal = self.sources.next_renewal()?;
        Some(Instant::now() + until(self.shared.clock.now(), renewal))
    }
}

/// The problems of a pod's host paths. A path on a server that does not respond delays only this pod.
async fn host_path_problems(pod: &Pod, shared: &Arc<Shared>) -> Vec<VolumeProblem> {
    let typed = typed_host_paths(pod);
    if typed.is_empty() {
        return Vec::new();
    }
    let mounts = shared.mounts.clone();
    // Without the mount table, each path counts as a separate filesystem.
    let mounts = file_work(move || mounts.table()).await.ok().and_then(Result::ok).unwrap_or_default();
    let checks = typed.into_iter().map(async |(name, path, path_type)| {
        let checked_path = path.clone();
        let checked =
            shared.paths.run(&path, &mounts, move || apply::check_host_path(&checked_path, path_type)).await;
        match checked {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(VolumeProblem::new(&name, &error)),
            Err(error) => Some(VolumeProblem::new(&name, &error)),
        }
    });
    join_all(checks).await.into_iter().flatten().collect()
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
