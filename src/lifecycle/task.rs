//! The table's task: brings together what the sources want, what the runtime has and where each pod is in its life.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::kills::Kills;
use super::lifecycles::{Effect, LifecycleView, PodLifecycles};
use super::state::{PodUpdate, UpdateKind, UpdateSubject};
use super::sweep::{Sweep, Swept};
use super::workers::{Word, Workers};
use crate::cri::ContainerState;
use crate::gate::StartPriority;
use crate::node::NodeAddresses;
use crate::pleg::PlegHandle;
use crate::pod::{AdmittedPod, DesiredPods, PodEvents};
use crate::status::StatusHandle;
use crate::types::{ContainerId, PodEvent, PodRef, PodUid, sleep_until};
use crate::worker::{Outcome, PodSyncer, Report, Retry};

/// Pause between two passes of housekeeping when nothing asks for one earlier: the kubelet's container GC period.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(60);

/// Pause between a change that asks for housekeeping and the pass, so that a burst needs one pass.
const HOUSEKEEPING_DELAY: Duration = Duration::from_millis(200);

/// Pause before the runtime's leftovers are looked at again when they could not be judged yet.
const UNREADY_RETRY: Duration = Duration::from_secs(1);

/// Keeps the host in order around the pods.
#[async_trait]
pub trait Janitor: Send + Sync + 'static {
    /// The pods that the host has something of: directories, logs, cgroups. Takes as long as the disk does.
    async fn found(&self) -> HashSet<PodUid>;

    /// Removes what the host has of pods that are `gone`; and links to logs that are gone, but for those of `running`
    /// containers. Errors are logged, and tried again at the next pass.
    async fn remove(&self, gone: HashSet<PodUid>, running: HashSet<ContainerId>);

    /// Takes in which pods may use resources, for what is shared between them.
    async fn share(&self, active: Vec<Arc<AdmittedPod>>);

    /// Forgets what is told of pods that are not in `known`.
    fn forget(&self, known: &HashSet<PodUid>);
}

/// Grace period of a pod of which nobody can say what its own is, seconds: the default of the API.
const UNKNOWN_GRACE_SECONDS: i64 = 30;

/// What the event about a killed pod says that does not end; upstream's.
const EXCEEDED_GRACE_PERIOD: &str = "Container runtime did not kill the pod within specified grace period.";

/// The table, to be run by the app.
pub struct PodTable {
    lives: PodLifecycles,
    workers: Workers,
    pleg: PlegHandle,
    wanted: watch::Receiver<DesiredPods>,
    janitor: Arc<dyn Janitor>,
    sweep: Sweep,
    desired: BTreeMap<PodUid, Arc<AdmittedPod>>,
    /// Pods of the daemon before this one that no source has named yet.
    adopted: BTreeMap<PodUid, Arc<AdmittedPod>>,
    /// Pods that are to be ended for good.
    kills: Kills,
    events: PodEvents,
    /// Whether every source had been read when `desired` was taken. Not read from `wanted`, which may know more by now.
    is_desired_complete: bool,
    /// When the next pass of housekeeping is due.
    housekeeping: Instant,
    /// Whether `desired` changed since what pods share was last told of it.
    is_share_due: bool,
    chance: StdRng,
    /// What statuses say of the node's addresses.
    addresses: NodeAddresses,
    /// Told what is desired and when something changed in the runtime, for the pods' statuses.
    statuses: StatusHandle,
}

impl PodTable {
    /// A table over what `wanted` names. `resync` is `syncFrequency`; `chance` keeps pods from marching in step.
    pub fn new(
        wanted: watch::Receiver<DesiredPods>,
        pleg: PlegHandle,
        syncer: Arc<dyn PodSyncer>,
        janitor: Arc<dyn Janitor>,
        resync: Duration,
        chance: StdRng,
    ) -> Self {
        Self {
            lives: PodLifecycles::new(resync),
            workers: Workers::new(syncer),
            pleg,
            wanted,
            sweep: Sweep::new(janitor.clone()),
            janitor,
            desired: BTreeMap::new(),
            adopted: BTreeMap::new(),
            kills: Kills::default(),
            events: Arc::new(|_, _, _| {}),
            is_desired_complete: false,
            housekeeping: Instant::now(),
            is_share_due: true,
            chance,
            addresses: NodeAddresses::fixed([]),
            statuses: StatusHandle::default(),
        }
    }

    /// The same with its pods' statuses made from what is left there.
    pub fn with_statuses(mut self, statuses: StatusHandle) -> Self {
        self.statuses = statuses;
        self
    }

    /// The same on a node with these addresses: when they change, all pods are worked on anew, as their statuses have them, and
    /// as a container may wait for one.
    pub fn at(mut self, addresses: NodeAddresses) -> Self {
        self.addresses = addresses;
        self
    }

    /// The same with `events` for what goes wrong with the end of a pod.
    pub fn reporting(mut self, events: PodEvents) -> Self {
        self.events = events;
        self
    }

    /// The same after a daemon that had admitted these, in that order. Those that no source names are ended, once every
    /// source was read: before a successor of the same full name starts, and though the runtime may have nothing of them.
    pub fn after(mut self, adopted: impl IntoIterator<Item = Arc<AdmittedPod>>) -> Self {
        for pod in adopted {
            self.lives.take_over(pod.clone());
            self.adopted.insert(pod.reference.uid.clone(), pod);
        }
        self
    }

    /// Runs until cancelled. Work under way is cancelled then: pods go on running.
    pub async fn run(mut self, cancel: CancellationToken) {
        self.take_wanted();
        let changes = self.pleg.changes().clone();
        let syncer = self.workers.syncer().clone();
        let mut wanted = self.wanted.clone();
        let mut wanted_ended = false;
        let mut addresses = self.addresses.clone();
        loop {
            let due = self.lives.next_due();
            // Biased, so that what happens at one moment is taken in in the same order in every run: orders first, what the
            // runtime tells last. None of them starves the others: wishes, changes and news are conflated, outcomes
            // and moments that are due come from work given out here.
            tokio::select! {
                biased;
                // Cancel-safe: waiting for a token takes nothing.
                () = cancel.cancelled() => return self.workers.end().await,
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                changed = wanted.changed(), if !wanted_ended => match changed {
                    Ok(()) => self.take_wanted(),
                    Err(_) => wanted_ended = true,
                },
                // Cancel-safe: a word is taken only when it is returned.
                (uid, word) = self.workers.next_word() => {
                    let effects = match word {
                        Word::Said(Report::Done(outcome)) => self.completed(&uid, outcome),
                        Word::Said(Report::News) => self.lives.wake(&uid),
                        // Of no matter if it had nothing to do.
                        Word::Died => self.completed(&uid, Outcome::Failed(Retry::BackOff)),
                    };
                    self.carry_out(effects);
                }
                // Cancel-safe: a sleep to a fixed moment takes nothing.
                () = sleep_until(due) => {
                    let effects = self.lives.due(Instant::now());
                    self.carry_out(effects);
                }
                // Cancel-safe: as above.
                () = sleep_until(self.kills.next_overdue()) => self.report_overdue(),
                // Cancel-safe: as above.
                () = tokio::time::sleep_until(self.housekeeping) => self.housekeep(),
                // Cancel-safe: what is under way lives in the sweep.
                swept = self.sweep.next() => match swept {
                    Swept::Found(found) => self.remove_left(found),
                    // Pods that were held back come with it.
                    Swept::Done => self.create_missing(),
                },
                // Cancel-safe: the queue gives a change only when `next` returns it.
                change = changes.next() => {
                    // Its worker may be at something that takes long.
                    self.statuses.observed(&change.uid);
                    let effects = self.lives.wake(&change.uid);
                    self.carry_out(effects);
                    if self.lives.stage(&change.uid).is_none() {
                        self.ask_for_housekeeping();
                    }
                }
                // Cancel-safe: see there.
                () = addresses.changed() => self.wake_all(),
                // Cancel-safe: news are taken only when they are returned.
                uid = syncer.news() => {
                    let effects = self.lives.wake(&uid);
                    self.carry_out(effects);
                }
            }
        }
    }

    fn completed(&mut self, uid: &PodUid, outcome: Outcome) -> Vec<Effect> {
        let chance = self.chance.random();
        let effects = self.lives.completed(uid, outcome, Instant::now(), chance);
        self.workers.scheduled(uid, self.lives.due_of(uid));
        effects
    }

    fn wake_all(&mut self) {
        let uids: Vec<PodUid> = self.desired.keys().cloned().collect();
        for uid in uids {
            self.statuses.observed(&uid);
            let effects = self.lives.wake(&uid);
            self.carry_out(effects);
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Stop(uid) = &effect {
                self.statuses.ended(uid);
                self.ask_for_housekeeping();
            }
            self.workers.carry_out(effect);
        }
    }

    fn ask_for_housekeeping(&mut self) {
        self.housekeeping = self.housekeeping.min(Instant::now() + HOUSEKEEPING_DELAY);
    }

    fn update(&mut self, kind: UpdateKind, pod: Arc<AdmittedPod>) {
        let uid = pod.reference.uid.clone();
        // Comes when the sweep is done; one that is removed again until then never was.
        if self.sweep.is_removing(&uid) && self.lives.stage(&uid).is_none() {
            return;
        }
        if self.pleg.cache().may_have(&uid) {
            self.lives.seen_in_runtime(&uid);
        }
        // One that is to end before it has begun starts nothing.
        let kill = match kind {
            UpdateKind::Create if self.lives.stage(&uid).is_none() => self.kills.request(&uid),
            UpdateKind::Create
            | UpdateKind::Update
            | UpdateKind::Sync
            | UpdateKind::Kill
            | UpdateKind::Remove => None,
        };
        let is_killed = kill.is_some();
        let kind = if is_killed { UpdateKind::Kill } else { kind };
        let effects = self.lives.update(PodUpdate { kind, subject: UpdateSubject::Spec(pod), kill });
        // Not that of the life to come, while one is ending.
        if self.lives.stage(&uid).is_some_and(|stage| stage != LifecycleView::Finished)
            && let Some(spec) = self.lives.spec(&uid)
        {
            self.statuses.desired(spec);
        }
        self.carry_out(effects);
        if is_killed {
            self.kills.delivered(&uid, self.lives.grace_seconds(&uid), Instant::now());
        }
    }

    /// Compares what the sources want with what they wanted: removals first, so that a static pod's successor finds it
    /// ending; then the pods in the order in which they may pass the start gate.
    fn take_wanted(&mut self) {
        let mut wanted = self.wanted.borrow_and_update().clone();
        self.is_desired_complete = wanted.ready;
        let new: HashSet<PodUid> = wanted.pods.iter().map(|pod| pod.reference.uid.clone()).collect();
        let gone: Vec<PodUid> = self.desired.keys().filter(|uid| !new.contains(*uid)).cloned().collect();
        for uid in gone {
            if let Some(pod) = self.desired.remove(&uid) {
                tracing::info!(pod = %pod.reference, %uid, "pod removed from its source");
                self.update(UpdateKind::Remove, pod);
            }
        }
        let adopted = std::mem::take(&mut self.adopted);
        let (renamed, adopted) = adopted.into_iter().partition(|(uid, pod)| {
            wanted.pods.iter().any(|new| new.reference.uid == *uid && is_renamed(pod, new))
        });
        self.adopted = adopted;
        self.adopted.retain(|uid, _| !new.contains(uid));
        // As if they had been seen under their old name: they end first.
        self.desired.extend(renamed);
        if wanted.ready {
            for (uid, pod) in std::mem::take(&mut self.adopted) {
                tracing::info!(pod = %pod.reference, %uid, "pod was removed from its source while hostlet was not running");
                self.update(UpdateKind::Remove, pod);
            }
        }
        self.kills.want(wanted.kills);
        wanted.pods.sort_by_cached_key(|pod| StartPriority::of(pod));
        for pod in wanted.pods {
            let reference = pod.reference.clone();
            match self.desired.insert(reference.uid.clone(), pod.clone()) {
                None => {
                    tracing::info!(pod = %reference, uid = %reference.uid, "pod added by its source");
                    self.update(UpdateKind::Create, pod);
                }
                Some(old) if is_renamed(&old, &pod) => {
                    tracing::info!(pod = %old.reference, uid = %reference.uid, renamed = %reference, "pod was given another name by its source");
                    self.update(UpdateKind::Remove, old);
                    self.update(UpdateKind::Create, pod);
                }
                Some(old) if !Arc::ptr_eq(&old, &pod) => {
                    tracing::info!(pod = %reference, uid = %reference.uid, "pod changed by its source");
                    self.update(UpdateKind::Update, pod);
                }
                Some(_) => {}
            }
        }
        self.deliver_kills();
        self.is_share_due = true;
        self.ask_for_housekeeping();
    }

    /// Gives each lifecycle the kill that is wanted of its pod, if it has not been given it as it is now. A pod whose lifecycle
    /// is still to come is given it then.
    fn deliver_kills(&mut self) {
        self.kills.keep(|uid| self.lives.stage(uid).is_some());
        for uid in self.kills.take_withdrawn() {
            // The same UID without its kill: removed and made anew before anybody saw that it was gone.
            if let Some(pod) = self.desired.get(&uid).cloned() {
                self.update(UpdateKind::Create, pod);
            }
        }
        for uid in self.kills.due(|uid| self.lives.spec(uid).is_some()) {
            let Some(pod) = self.lives.spec(&uid).cloned() else { continue };
            let kill = self.kills.request(&uid);
            let subject = UpdateSubject::Spec(pod);
            let effects = self.lives.update(PodUpdate { kind: UpdateKind::Kill, subject, kill });
            self.carry_out(effects);
            self.kills.delivered(&uid, self.lives.grace_seconds(&uid), Instant::now());
        }
    }

    /// Says which pods have not ended though their time is over. They are stopped for as long as it takes.
    fn report_overdue(&mut self) {
        for uid in self.kills.take_overdue(Instant::now()) {
            let Some(pod) = self.lives.spec(&uid) else { continue };
            let reference = &pod.reference;
            tracing::warn!(pod = %reference, %uid, "a killed pod has not ended within its grace period");
            (self.events)(reference, None, &PodEvent::warning("ExceededGracePeriod", EXCEEDED_GRACE_PERIOD));
        }
    }

    /// Forgets the finished, creates the forgotten that are wanted, ends what runs and is not wanted, and has the host
    /// swept. Nothing of it before all sources were read and reality was listed.
    fn housekeep(&mut self) {
        let is_ready = self.is_desired_complete && self.pleg.cache().is_filled();
        // Not held up by a source that cannot be read: the pods of the others run, and those of the daemon before this one.
        if std::mem::take(&mut self.is_share_due) || is_ready {
            let active = self.desired.values().chain(self.adopted.values());
            self.sweep.share(active.cloned().collect());
        }
        if !is_ready {
            self.housekeeping = Instant::now() + UNREADY_RETRY;
            return;
        }
        self.housekeeping = Instant::now() + HOUSEKEEPING_PERIOD;
        let wanted: HashSet<PodUid> = self.desired.keys().cloned().collect();
        let effects = self.lives.sync_known(&wanted);
        self.carry_out(effects);
        self.create_missing();
        self.end_orphans();
        let known: HashSet<PodUid> = self.lives.all().map(|(pod, _)| pod.uid.clone()).collect();
        self.janitor.forget(&known);
        self.sweep.begin();
    }

    /// Creates the wanted pods that have no life.
    fn create_missing(&mut self) {
        let is_missing = |uid: &PodUid| self.lives.stage(uid).is_none();
        let missing: Vec<Arc<AdmittedPod>> =
            self.desired.iter().filter(|(uid, _)| is_missing(uid)).map(|(_, pod)| pod.clone()).collect();
        for pod in missing {
            self.update(UpdateKind::Create, pod);
        }
        self.deliver_kills();
    }

    /// Has the sweep remove what it found of pods that are neither known nor wanted nor in the runtime.
    fn remove_left(&mut self, found: HashSet<PodUid>) {
        let cache = self.pleg.cache();
        let is_known = |uid: &PodUid| self.lives.stage(uid).is_some() || self.desired.contains_key(uid);
        let mut gone = found;
        gone.retain(|uid| !is_known(uid) && !cache.may_have(uid));
        let mut running = HashSet::new();
        for pod in cache.pods() {
            if let Ok(status) = cache.get(&pod) {
                let containers = status.containers.iter().filter(|c| c.state == ContainerState::Running);
                running.extend(containers.map(|c| c.id.clone()));
            }
        }
        self.sweep.remove(gone, running);
    }

    /// Ends and removes what the runtime has of pods nobody knows.
    fn end_orphans(&mut self) {
        for pod in self.pleg.cache().pods() {
            if self.lives.stage(&pod.uid).is_some() {
                continue;
            }
            let Ok(status) = self.pleg.cache().get(&pod) else { continue };
            let grace_seconds = status.containers.iter().filter_map(|c| c.grace_seconds).max();
            tracing::info!(%pod, uid = %pod.uid, "pod is in the runtime but no source wants it; removing it");
            self.reap(pod, grace_seconds);
        }
        for listed in self.pleg.cache().unreadable() {
            let pod = listed.pod.clone();
            if self.lives.stage(&pod.uid).is_none() {
                tracing::warn!(
                    %pod,
                    uid = %pod.uid,
                    "pod is in the runtime, no source wants it, and the runtime cannot describe it; removing what it lists of it"
                );
                self.reap(pod, Some(UNKNOWN_GRACE_SECONDS));
            }
        }
    }

    fn reap(&mut self, pod: PodRef, grace_seconds: Option<i64>) {
        let subject = UpdateSubject::Runtime { pod, grace_seconds };
        let effects = self.lives.update(PodUpdate { kind: UpdateKind::Kill, subject, kill: None });
        self.carry_out(effects);
    }
}

/// Whether two pods of one UID have different names: a name is what a pod cannot change, so the later is another pod.
fn is_renamed(old: &AdmittedPod, new: &AdmittedPod) -> bool {
    old.reference.full_name() != new.reference.full_name()
}
