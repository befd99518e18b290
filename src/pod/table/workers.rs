//! The worker tasks: started when a pod gets its first work, ended when it finished. Carries out the effects of the
//! lives, decides nothing.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Effect;
use crate::pod::pod_ref;
use crate::pod::worker::{self, Job, PodSyncer, Report, Work};
use crate::types::{PodRef, PodUid};

/// Reports that may wait to be taken in. The table takes them in as fast as they come; workers wait for a place.
const REPORTS: usize = 64;

struct Worker {
    inbox: mpsc::Sender<Job>,
    cancel: CancellationToken,
}

/// The worker tasks of all pods.
pub(super) struct Workers {
    syncer: Arc<dyn PodSyncer>,
    workers: HashMap<PodUid, Worker>,
    /// Owns the tasks: dropped with the table, they end.
    tasks: JoinSet<()>,
    reports_in: mpsc::Sender<(PodUid, Report)>,
    reports: mpsc::Receiver<(PodUid, Report)>,
}

impl Workers {
    pub(super) fn new(syncer: Arc<dyn PodSyncer>) -> Self {
        let (reports_in, reports) = mpsc::channel(REPORTS);
        Self { syncer, workers: HashMap::new(), tasks: JoinSet::new(), reports_in, reports }
    }

    /// The next word of a worker; `None` never, as this end keeps a sender. Cancel-safe.
    pub(super) async fn next_report(&mut self) -> Option<(PodUid, Report)> {
        self.reports.recv().await
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
        // Ended tasks are taken off the set as we go; a worker catches its own panics.
        while self.tasks.try_join_next().is_some() {}
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
            }
        }
    }

    fn give(&mut self, uid: &PodUid, work: Work) {
        let pod = match &work {
            Work::Sync(pod) | Work::Terminate { pod, .. } | Work::Finish { pod, .. } => pod_ref(pod),
            Work::Reap { pod, .. } => pod.clone(),
        };
        let cancel = CancellationToken::new();
        let job = Job { work, cancel: cancel.clone() };
        let job = match self.workers.get_mut(uid) {
            None => job,
            Some(worker) => {
                worker.cancel = cancel.clone();
                // The place is free: the lives give out work only to an idle worker.
                match worker.inbox.try_send(job) {
                    Ok(()) => return,
                    Err(refused) => refused.into_inner(),
                }
            }
        };
        let inbox = self.start(pod);
        // A fresh inbox has room for one.
        if inbox.try_send(job).is_ok() {
            self.workers.insert(uid.clone(), Worker { inbox, cancel });
        }
    }

    fn start(&mut self, pod: PodRef) -> mpsc::Sender<Job> {
        // One place: a worker has one piece of work at a time.
        let (inbox, jobs) = mpsc::channel(1);
        self.tasks.spawn(worker::run(pod, self.syncer.clone(), jobs, self.reports_in.clone()));
        inbox
    }
}
