//! The worker tasks: started with a pod's first work, stopped when the pod has finished. Carries out the effects of the
//! lifecycles and decides nothing. Notices a task that died, so that its pod does not stay busy forever.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hostlet_base::{PodRef, PodUid};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Effect;
use crate::worker::{self, Job, PodSyncer, Report, Work, panic_text};

/// Capacity of the channel of reports. The table drains it as fast as they arrive; workers wait for a free slot.
const REPORTS: usize = 64;

struct Worker {
    inbox: mpsc::Sender<Job>,
    cancel: CancellationToken,
    task: Id,
}

/// What the table receives about a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerEvent {
    /// A report from the worker.
    Reported(Report),
    /// The worker died and will not report on its work. The next work starts a new one.
    Died,
}

/// The worker tasks of all pods.
pub(super) struct Workers {
    syncer: Arc<dyn PodSyncer>,
    workers: HashMap<PodUid, Worker>,
    /// Owns the tasks: they are aborted when the table is dropped.
    tasks: JoinSet<()>,
    /// Workers that died and were not returned yet.
    dead: VecDeque<PodUid>,
    /// When the last worker of a pod died, until the pod has a new one: its last calls may not show in the runtime yet.
    died: HashMap<PodUid, Instant>,
    reports_in: mpsc::Sender<(PodUid, Report)>,
    reports: mpsc::Receiver<(PodUid, Report)>,
}

impl Workers {
    pub(super) fn new(syncer: Arc<dyn PodSyncer>) -> Self {
        let (reports_in, reports) = mpsc::channel(REPORTS);
        Self {
            syncer,
            workers: HashMap::new(),
            tasks: JoinSet::new(),
            dead: VecDeque::new(),
            died: HashMap::new(),
            reports_in,
            reports,
        }
    }

    /// The next report from or about a worker. Cancel-safe.
    pub(super) async fn next_event(&mut self) -> (PodUid, WorkerEvent) {
        loop {
            // A worker's reports come before its death: its work may have completed.
            if let Ok((uid, report)) = self.reports.try_recv() {
                return (uid, WorkerEvent::Reported(report));
            }
            if let Some(uid) = self.dead.pop_front() {
                return (uid, WorkerEvent::Died);
            }
            tokio::select! {
                biased;
                // Cancel-safe: an item leaves the channel only when `recv` returns it. Never closed, as `self` holds a sender.
                Some((uid, report)) = self.reports.recv() => return (uid, WorkerEvent::Reported(report)),
                // Cancel-safe: a task leaves the set only when it is returned.
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
            }
        }
    }

    /// Handles the end of a task: expected once its inbox was closed, otherwise its death.
    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, panic) = match ended {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), error.try_into_panic().ok()),
        };
        let Some(uid) =
            self.workers.iter().find(|(_, worker)| worker.task == task).map(|(uid, _)| uid.clone())
        else {
            return;
        };
        let panic = panic.map_or_else(|| "none".to_owned(), |panic| panic_text(&*panic));
        tracing::error!(%uid, panic, "the pod's worker died; a new one starts with the pod's next work");
        self.workers.remove(&uid);
        self.died.insert(uid.clone(), Instant::now());
        self.dead.push_back(uid);
    }

    /// What performs the work.
    pub(super) fn syncer(&self) -> &Arc<dyn PodSyncer> {
        &self.syncer
    }

    /// Reports when a pod's next work begins.
    pub(super) fn scheduled(&self, uid: &PodUid, due: Option<Instant>) {
        self.syncer.scheduled(uid, due);
    }

    /// Cancels all work and waits for the workers to stop.
    pub(super) async fn end(mut self) {
        for worker in self.workers.values() {
            worker.cancel.cancel();
        }
        // Closing its inbox stops a worker, and dropping the receiver unblocks the workers that report.
        self.workers.clear();
        drop(self.reports);
        while self.tasks.join_next().await.is_some() {}
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Run(uid, work) => self.give(&uid, work),
            Effect::Cancel(uid) => {
                if let Some(worker) = self.workers.get(&uid) {
                    worker.cancel.cancel();
                }
            }
            Effect::Stop(uid) => {
                // Closing the inbox stops the task.
                self.workers.remove(&uid);
                self.died.remove(&uid);
            }
        }
    }

    fn give(&mut self, uid: &PodUid, work: Work) {
        let pod = work.pod().clone();
        let cancel = CancellationToken::new();
        let job = Job { work, cancel: cancel.clone() };
        let job = match self.workers.get_mut(uid) {
            None => job,
            Some(worker) => {
                worker.cancel = cancel.clone();
                // The slot is free: lifecycles give work only to an idle worker.
                match worker.inbox.try_send(job) {
                    Ok(()) => return,
                    // It died a moment ago, while idle.
                    Err(error) => {
                        self.died.insert(uid.clone(), Instant::now());
                        error.into_inner()
                    }
                }
            }
        };
        // An earlier death must not count as the failure of this work.
        self.dead.retain(|dead| dead != uid);
        let (inbox, task) = self.start(pod, &job.work);
        // A new inbox has room for one job.
        if inbox.try_send(job).is_ok() {
            self.workers.insert(uid.clone(), Worker { inbox, cancel, task });
        }
    }

    fn start(&mut self, pod: PodRef, first: &Work) -> (mpsc::Sender<Job>, Id) {
        // One slot: a worker has one piece of work at a time.
        let (inbox, jobs) = mpsc::channel(1);
        let died = self.died.remove(&pod.uid);
        let expected = if died.is_none() { self.syncer.expect(first) } else { None };
        let worker = worker::run(pod, self.syncer.clone(), jobs, self.reports_in.clone(), died, expected);
        (inbox, self.tasks.spawn(worker).id())
    }
}
