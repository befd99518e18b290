//! Reconciles the volumes of one pod: sets them up at the worker's request, updates them when their sources change, and tears
//! them down. One task per pod, so that work on its volumes never overlaps, and a disk or API server that hangs delays only
//! this pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use hostlet_base::{Backoff, PodRef, PodUid, error_chain, sleep_until, watching};
use hostlet_csi::PodStates;
use hostlet_host::file_work;
use hostlet_pod::{AdmittedPod, ExternalVolume};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::apply::{self, Applied, Outcome, PathResults, PathTask};
use super::desired::desired;
use super::error::{VolumeError, VolumeProblem, VolumeStep};
use super::growth::{self, Growing};
use super::kinds::claim;
use super::layout::PodLayout;
use super::metrics::PodShare;
use super::model::Context;
use super::published::Mapped;
use super::ready::PodVolumes;
use super::remembered::remember;
use super::shared::{RETRY, Shared, spread};
use super::sources::Sources;
use super::teardown::take_down;

/// How long the worker waits for drivers: less than its request takes at most.
const DRIVER_DEADLINE: Duration = Duration::from_secs(2 * 60);

/// The pod whose volumes are requested.
#[derive(Clone, Debug)]
pub struct VolumeOwner {
    /// The current pod: its labels and annotations may be in its volumes.
    pub pod: Arc<AdmittedPod>,
    /// Memory limit of the pod in bytes, which includes volumes in memory.
    pub memory_limit: Option<u64>,
}

/// A request to a reconciler.
pub(super) enum Job {
    SetUp { subject: VolumeOwner, reply: oneshot::Sender<PodVolumes> },
    TearDown { reply: oneshot::Sender<Result<(), VolumeError>> },
}

/// A request of the worker that waits for drivers.
struct Waiting {
    reply: oneshot::Sender<PodVolumes>,
    began: Instant,
    deadline: Instant,
}

/// What the worker knows of the volumes, or is told to look at.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    problems: Vec<VolumeProblem>,
    /// The names of those that can be used.
    ready: BTreeSet<String>,
}

impl Report {
    fn of(volumes: &PodVolumes) -> Self {
        let ready = volumes.mounted.keys().chain(volumes.devices.keys()).cloned().collect();
        Self { problems: volumes.problems.clone(), ready }
    }
}

/// The reconciler of one pod, a task.
pub(super) struct VolumeReconciler {
    uid: PodUid,
    layout: PodLayout,
    shared: Arc<Shared>,
    sources: Sources,
    subject: Option<VolumeOwner>,
    /// What the last setup did.
    outcome: Outcome,
    /// What became of the volumes of drivers, if the pod has some.
    states: Option<watch::Receiver<PodStates>>,
    /// Which of their devices are in place.
    mapped: Mapped,
    waiting: Option<Waiting>,
    /// What was last reported.
    reported: Report,
    /// Warnings about volumes with another group, which the worker has not received yet.
    shared_volumes: Vec<String>,
    retry: Option<Backoff<Instant>>,
    growing: Growing,
    /// What it counts of the volumes of this node.
    share: PodShare,
}

impl VolumeReconciler {
    pub(super) fn new(uid: PodUid, layout: PodLayout, shared: Arc<Shared>) -> Self {
        let sources =
            Sources::new(shared.objects.clone(), shared.drivers.clone(), shared.volume_needs.clone());
        let share = PodShare::new(shared.metrics.clone());
        let growing = Growing::new(shared.clone(), uid.clone());
        Self {
            uid,
            layout,
            shared,
            sources,
            subject: None,
            outcome: Outcome::default(),
            states: None,
            mapped: Mapped::new(),
            waiting: None,
            reported: Report::default(),
            shared_volumes: Vec::new(),
            retry: None,
            growing,
            share,
        }
    }

    /// Runs until the volumes are torn down or no more requests can come.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        loop {
            let due = self.due();
            let late = self.waiting.as_ref().map(|waiting| waiting.deadline);
            tokio::select! {
                biased;
                // Cancel-safe: a job is received only when it is returned.
                job = inbox.recv() => match job {
                    Some(Job::SetUp { subject, reply }) => self.set_up(subject, reply).await,
                    Some(Job::TearDown { reply }) => {
                        let began = Instant::now();
                        let done = self.tear_down().await;
                        let is_down = done.is_ok();
                        self.share.torn_down(is_down, began.elapsed());
                        if is_down {
                            self.withdraw();
                        }
                        // The requester may have given up; the next one gets the result again.
                        let _ = reply.send(done);
                        if is_down {
                            return;
                        }
                    }
                    None => return,
                },
                // Cancel-safe: only waits.
                () = given_up(&mut self.waiting) => self.waiting = None,
                // Cancel-safe: a change stays pending until it is handled.
                () = self.sources.changed() => self.refresh().await,
                // Cancel-safe: the new states are read when they are handled.
                () = states_changed(&mut self.states) => self.follow_up().await,
                // Cancel-safe: a sleep until a fixed time takes nothing.
                () = sleep_until(late) => self.answer_late(),
                // Cancel-safe: a sleep until a fixed time takes nothing.
                () = sleep_until(due) => self.refresh().await,
                // Cancel-safe: what was begun continues with the next call.
                () = self.growing.step() => {}
            }
        }
    }

    async fn set_up(&mut self, subject: VolumeOwner, mut reply: oneshot::Sender<PodVolumes>) {
        let deadline = Instant::now() + DRIVER_DEADLINE;
        self.waiting = None;
        self.sources.follow(&subject.pod, &self.layout).await;
        self.subject = Some(subject.clone());
        let now = self.shared.clock.steady();
        tokio::select! {
            // Cancel-safe: nothing was changed yet. A new request of the worker takes precedence.
            () = reply.closed() => return,
            // Cancel-safe: what arrived is kept.
            () = self.sources.settle(&subject.pod, &self.layout, now) => {}
        }
        let began = Instant::now();
        let applied = self.apply(subject).await;
        let results = tokio::select! {
            // Cancel-safe: work that was begun ends on its own thread. A new request of the worker takes precedence.
            () = reply.closed() => return,
            // Cancel-safe: see above.
            results = work_on_paths(&applied.tasks, &self.uid, &self.layout, &self.shared) => results,
        };
        self.finish(applied, results);
        self.waiting = Some(Waiting { reply, began, deadline });
        self.follow_up().await;
    }

    /// Does what remains once drivers are done, and reports.
    async fn follow_up(&mut self) {
        self.map_devices().await;
        self.report();
    }

    /// The volumes as they are now, and those on which a driver still works.
    fn volumes(&mut self) -> (PodVolumes, Vec<String>) {
        match &mut self.states {
            Some(states) => self.outcome.with(&states.borrow_and_update(), &self.mapped),
            None => self.outcome.with(&PodStates::new(), &self.mapped),
        }
    }

    /// Puts devices that drivers published where containers find them.
    async fn map_devices(&mut self) {
        let Some(states) = &self.states else { return };
        let devices = self.outcome.unmapped(&states.borrow(), &self.mapped);
        for (name, device) in devices {
            let (shared, layout, link) =
                (self.shared.clone(), self.layout.clone(), device.link(&self.layout));
            let threads = self.shared.threads.local_volumes.clone();
            let path = device.device.clone();
            let work = move || device.set_up(&shared.root, &layout, &*shared.mounts);
            let done = threads.run(self.uid.as_str(), &path, &path, work).await;
            let done = done
                .unwrap_or_else(|error| Err(VolumeProblem::at(VolumeStep::MapBlockVolume, &name, &error)));
            if done.is_err() {
                self.try_again();
            }
            self.mapped.insert(name, done.map(|()| link));
        }
    }

    /// Answers the worker if it waits and no driver keeps it waiting, or tells it to look if something else became of the volumes.
    fn report(&mut self) {
        let (volumes, working) = self.volumes();
        if self.waiting.is_some() {
            // A problem is reported at once, and drivers continue meanwhile.
            if working.is_empty() || !volumes.problems.is_empty() {
                self.answer(volumes);
            }
            return;
        }
        let report = Report::of(&volumes);
        if report != self.reported {
            if report.problems != self.reported.problems {
                for problem in &report.problems {
                    tracing::warn!(uid = %self.uid, "{problem}");
                }
            }
            self.reported = report;
            self.shared.changed.push(&self.uid, |()| {});
        }
    }

    /// Answers the worker although drivers still work.
    fn answer_late(&mut self) {
        let (mut volumes, working) = self.volumes();
        if !working.is_empty() {
            volumes.problems.push(VolumeProblem::Unpublished(working));
        }
        self.answer(volumes);
    }

    fn answer(&mut self, mut volumes: PodVolumes) {
        let Some(Waiting { reply, began, .. }) = self.waiting.take() else { return };
        self.reported = Report::of(&volumes);
        if let Some(subject) = &self.subject {
            self.share.set_up(&subject.pod, &volumes, &self.outcome.plugins, began.elapsed());
            self.publish(&subject.pod.reference, &volumes.external);
        }
        volumes.shared = std::mem::take(&mut self.shared_volumes);
        let _ = reply.send(volumes);
    }

    /// Publishes the pod's volumes that are mounts of what outlives it.
    fn publish(&self, pod: &PodRef, external: &BTreeMap<String, ExternalVolume>) {
        self.shared.external.send_if_modified(|all| {
            if all.get(pod).unwrap_or(&BTreeMap::new()) == external {
                return false;
            }
            all.insert(pod.clone(), external.clone());
            true
        });
    }

    /// Publishes that it has none any more.
    fn withdraw(&self) {
        self.shared.volume_needs.send_if_modified(|all| all.remove(&self.uid).is_some());
        let is_own = |pod: &PodRef| pod.uid == self.uid;
        self.shared.external.send_if_modified(|all| all.extract_if(.., |pod, _| is_own(pod)).count() > 0);
    }

    /// Updates the volumes after a change of their sources. Does not wait for drivers.
    async fn refresh(&mut self) {
        let Some(subject) = self.subject.clone() else { return };
        self.sources.follow_needs(&subject.pod, &self.layout).await;
        self.sources.renew(self.shared.clock.steady()).await;
        let applied = self.apply(subject).await;
        let results = work_on_paths(&applied.tasks, &self.uid, &self.layout, &self.shared).await;
        self.finish(applied, results);
        self.follow_up().await;
    }

    /// Sets up the volumes, except for work on paths that others named, and requests the volumes of drivers.
    async fn apply(&mut self, subject: VolumeOwner) -> Applied {
        let now = self.shared.clock.steady();
        let snapshot = self.sources.snapshot(now);
        let unsaved = self.sources.unsaved(&snapshot);
        let (layout, shared, uid) = (self.layout.clone(), self.shared.clone(), self.uid.clone());
        let applied = file_work(move || {
            for (claim, volume) in unsaved {
                if let Err(error) = remember(&layout, &claim, &volume) {
                    let error = error_chain(&error);
                    tracing::warn!(%uid, claim, error, "cannot remember which volume a claim is bound to");
                }
            }
            let labels = (shared.labels)();
            let context = Context {
                pod: &subject.pod,
                memory_limit: subject.memory_limit,
                node: &shared.node,
                labels: &labels,
                snapshot: &snapshot,
                file_label: shared.file_label.as_deref(),
            };
            let volumes = subject.pod.host_volumes();
            let desired_volumes =
                volumes.map(|volume| (volume.name.clone(), desired(volume, &context))).collect();
            let applied =
                apply::set_up(&shared.root, &layout, desired_volumes, &*shared.mounts, now, rand::random());
            applied.with_groups(claim::groups(&context))
        });
        let applied = applied.await.unwrap_or_else(|error| Applied::failed(VolumeProblem::new("", &error)));
        if !applied.drivers.is_empty() && self.states.is_none() {
            self.states = Some(self.shared.csi.follow(&self.uid));
        }
        for publish in applied.requests() {
            self.shared.csi.publish(publish.clone()).await;
        }
        applied
    }

    /// Takes the results of all work, and plans the next attempt if some failed. Drivers' volumes are tried again by their owners.
    fn finish(&mut self, applied: Applied, results: PathResults) {
        self.outcome = applied.finish(results);
        self.shared_volumes.extend(self.outcome.take_warnings());
        self.mapped.retain(|_, mapped| mapped.is_ok());
        self.growing.follow(self.outcome.growable.values().cloned());
        if self.outcome.has_failed() || self.sources.has_failed_tokens() {
            self.try_again();
        } else {
            self.retry = None;
        }
    }

    fn try_again(&mut self) {
        let now = Instant::now();
        self.retry = Some(Backoff::next(self.retry, &RETRY, now, now));
    }

    async fn tear_down(&mut self) -> Result<(), VolumeError> {
        self.subject = None;
        let Shared { objects, drivers, volume_needs, .. } = &*self.shared;
        self.sources = Sources::new(objects.clone(), drivers.clone(), volume_needs.clone());
        (self.retry, self.waiting, self.outcome) = (None, None, Outcome::default());
        self.mapped.clear();
        self.growing.follow([]);
        let Shared { root, mounts, threads, csi, .. } = &*self.shared;
        take_down(root, &self.uid, mounts, threads, Some(csi)).await
    }

    /// When the volumes are processed without a change: a token is due, or something failed.
    fn due(&self) -> Option<Instant> {
        if let Some(retry) = &self.retry {
            return Some(retry.updated + retry.delay.mul_f64(0.5 + spread(&self.uid) / 2.0));
        }
        let renewal = self.sources.next_renewal()?;
        Some(Instant::now() + until(self.shared.clock.steady(), renewal))
    }
}

/// Performs work on paths that others named. A path on a server that does not respond delays only this pod.
async fn work_on_paths(
    tasks: &[(String, PathTask)],
    uid: &PodUid,
    layout: &PodLayout,
    shared: &Arc<Shared>,
) -> PathResults {
    let works = tasks.iter().map(async |(name, task)| {
        let work = {
            let (task, name, layout, shared) = (task.clone(), name.clone(), layout.clone(), shared.clone());
            move || apply::perform(&task, &name, &shared.root, &layout, shared.means())
        };
        let done = match task {
            PathTask::Check { path, .. } => shared.on_path(uid, path, work).await,
            PathTask::Map(device) => {
                let threads = &shared.threads.local_volumes;
                threads.run(uid.as_str(), &device.device, &device.device, work).await
            }
            PathTask::Mount(external) => {
                let is_local = external.is_on_host();
                let threads = if is_local { &shared.threads.local_volumes } else { &shared.threads.paths };
                threads.run(uid.as_str(), &external.unit, &external.unit, work).await
            }
        };
        let done = match done {
            Ok(done) => done,
            Err(error) => Err(apply::delayed(task, name, layout, &shared.mount_table().await, error)),
        };
        let grown = match (&done, task.growable(layout)) {
            (Ok(_), Some(volume)) => growth::before_use(shared, uid, &volume).await,
            (Ok(_), None) | (Err(_), _) => Ok(()),
        };
        let done = grown.and(done);
        (name.clone(), done.map(|warning| (task.ready(layout), warning)))
    });
    join_all(works).await
}

/// Waits until the worker gives up; forever if it does not wait.
async fn given_up(waiting: &mut Option<Waiting>) {
    match waiting {
        Some(waiting) => waiting.reply.closed().await,
        None => std::future::pending().await,
    }
}

/// Waits for a change of the volumes of drivers; forever if the pod has none.
async fn states_changed(states: &mut Option<watch::Receiver<PodStates>>) {
    match states {
        Some(states) => watching::changed(states).await,
        None => std::future::pending().await,
    }
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_pauses_of_their_own() {
        let all: Vec<f64> =
            (0..1000).map(|pod| spread(&PodUid::from(format!("uid-{pod}").as_str()))).collect();
        assert!(all.iter().all(|part| (0.0..=1.0).contains(part)));
        for tenth in 0..10 {
            let range = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
            let number = all.iter().filter(|part| range.contains(*part)).count();
            assert!((50..150).contains(&number), "{number} of 1,000 pods in {range:?}");
        }
    }
}
