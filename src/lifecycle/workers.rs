//! The worker tasks: started when a pod gets its first work, ended when it finished. Carries out the effects of the
//! lives, decides nothing. Sees that a task ended that should not have, so that its pod is not busy for ever.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Effect;
use crate::types::{PodRef, PodUid};
use crate::worker::{self, Job, PodSyncer, Report, Work, panic_text};

/// Reports that may wait to be taken in. The table takes them in as fast as they come; workers wait for a place.
const REPORTS: usize = 64;

struct Worker {
    inbox: mpsc::Sender<Job>,
    cancel: CancellationToken,
    task: Id,
}

/// What the table hears of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// What the worker says.
    Said(Report),
    /// It died, and will say nothing of the work it had. The next work starts another.
    Died,
}

/// The worker tasks of all pods.
pub(super) struct Workers {
    syncer: Arc<dyn PodSyncer>,
    workers: HashMap<PodUid, Worker>,
    /// Owns the tasks: dropped with the table, they end.
    tasks: JoinSet<()>,
    /// Workers that died and were not told of yet.
    dead: VecDeque<PodUid>,
    /// When the last worker of a pod died that has no other yet: what it did by then may not be seen yet.
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

    /// The next word of or about a worker. Cancel-safe.
    pub(super) async fn next_word(&mut self) -> (PodUid, Word) {
        loop {
            // What a worker said before it died comes first: it may be that its work ended.
            if let Ok((uid, report)) = self.reports.try_recv() {
                return (uid, Word::Said(report));
            }
            if let Some(uid) = self.dead.pop_front() {
                return (uid, Word::Died);
            }
            tokio::select! {
                biased;
                // Cancel-safe: a channel gives an item only when `recv` returns it. Never ends, as this end keeps a sender.
                Some((uid, report)) = self.reports.recv() => return (uid, Word::Said(report)),
                // Cancel-safe: an ended task is taken off the set only when it is returned.
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
            }
        }
    }

    /// Takes in that a task ended: as it should when its inbox was closed, or for no good reason.
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
        tracing::error!(%uid, panic, "the pod's worker died; its next work gets another");
        self.workers.remove(&uid);
        self.died.insert(uid.clone(), Instant::now());
        self.dead.push_back(uid);
    }

    /// What performs the work.
    pub(super) fn syncer(&self) -> &Arc<dyn PodSyncer> {
        &self.syncer
    }

    /// Passes on when a pod's next work begins.
    pub(super) fn scheduled(&self, uid: &PodUid, due: Option<Instant>) {
        self.syncer.scheduled(uid, due);
    }

    /// Cancels all work and waits until the workers have ended.
    pub(super) async fn end(mut self) {
        for worker in self.workers.values() {
            worker.cancel.cancel();
        }
        // Without their inboxes they end, and without a reader none waits to report.
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
                // Closing the inbox ends the task.
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
                // The place is free: the lives give out work only to an idle worker.
                match worker.inbox.try_send(job) {
                    Ok(()) => return,
                    // It died a moment ago, while it had nothing to do.
                    Err(refused) => {
                        self.died.insert(uid.clone(), Instant::now());
                        refused.into_inner()
                    }
                }
            }
        };
        // Whoever gives it work knows that it had none.
        self.dead.retain(|dead| dead != uid);
        let (inbox, task) = self.start(pod);
        // A fresh inbox has room for one.
        if inbox.try_send(job).is_ok() {
            self.workers.insert(uid.clone(), Worker { inbox, cancel, task });
        }
    }

    fn start(&mut self, pod: PodRef) -> (mpsc::Sender<Job>, Id) {
        // One place: a worker has one piece of work at a time.
        let (inbox, jobs) = mpsc::channel(1);
        let died = self.died.remove(&pod.uid);
        let worker = worker::run(pod, self.syncer.clone(), jobs, self.reports_in.clone(), died);
        (inbox, self.tasks.spawn(worker).id())
    }
}
