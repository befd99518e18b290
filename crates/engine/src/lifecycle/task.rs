//! The task of the pod table: brings together desired pods, observed pods and the lifecycle of each pod.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::janitor::{Janitor, KnownPods};
use super::kills::Kills;
use super::lifecycles::{Effect, LifecycleView, PodLifecycles};
use super::metrics::{LifecycleMetrics, WorkingPods};
use super::state::{PodUpdate, UpdateKind, UpdateSubject};
use super::sweep::{Sweep, Swept};
use super::workers::{WorkerEvent, Workers};
use crate::gate::StartPriority;
use crate::worker::{Outcome, PodSyncer, Report, Retry};
use hostlet_base::node::NodeAddresses;
use hostlet_base::{CONFIG_SEEN_ANNOTATION, PodEvent, PodRef, PodUid, sleep_until};
use hostlet_observe::pleg::PlegHandle;
use hostlet_observe::status::{StatusCache, StatusHandle};
use hostlet_pod::{AdmittedPod, DesiredPods, PodEvents};
use hostlet_runtime::cri::ContainerState;
use hostlet_telemetry::{Heartbeat, Metrics};

/// Pause between two passes of housekeeping when nothing requests one earlier: the kubelet's container GC period.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(60);

/// Pause between a change that requests housekeeping and the pass, so that a burst takes one pass.
const HOUSEKEEPING_DELAY: Duration = Duration::from_millis(200);

/// Pause before housekeeping tries again while sources or the runtime have not been listed yet.
const UNREADY_RETRY: Duration = Duration::from_secs(1);

/// Grace period of a pod whose own is unknown, seconds: the API's default.
const UNKNOWN_GRACE_SECONDS: i64 = 30;

/// Upstream's message for a killed pod that does not terminate.
const EXCEEDED_GRACE_PERIOD: &str = "Container runtime did not kill the pod within specified grace period.";

/// The table of all pods on this node, to be run by the app.
pub(crate) struct PodTable {
    lifecycles: PodLifecycles,
    workers: Workers,
    pleg: PlegHandle,
    desired_pods: watch::Receiver<DesiredPods>,
    janitor: Arc<dyn Janitor>,
    sweep: Sweep,
    desired: BTreeMap<PodUid, Arc<AdmittedPod>>,
    /// Pods of an earlier daemon that no source has named yet.
    adopted: BTreeMap<PodUid, Arc<AdmittedPod>>,
    kills: Kills,
    events: PodEvents,
    /// Whether every source had been read when `desired` was taken: the watch may have a newer value.
    is_desired_complete: bool,
    /// When the next pass of housekeeping is due.
    housekeeping: Instant,
    /// Whether `desired` changed since the last update of what pods share.
    is_share_due: bool,
    chance: StdRng,
    /// The node's addresses, which statuses show.
    addresses: NodeAddresses,
    /// Receives what is desired and which pods changed in the runtime.
    statuses: StatusHandle,
    heartbeat: Heartbeat,
    metrics: LifecycleMetrics,
}

/// What the table needs.
pub(crate) struct PodTableDeps {
    /// The pods that should run.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// The pods that an earlier daemon had admitted, in that order. Those that no source names are terminated once every source was
    /// read: before a successor of the same full name starts, even if the runtime has nothing of them.
    pub adopted: Vec<Arc<AdmittedPod>>,
    /// What the runtime has.
    pub pleg: PlegHandle,
    /// Performs the work of pods.
    pub syncer: Arc<dyn PodSyncer>,
    /// Cleans up the host.
    pub janitor: Arc<dyn Janitor>,
    /// Receives what is desired and which pods changed in the runtime.
    pub statuses: StatusHandle,
    /// The node's addresses: when they change all pods are synced, as their statuses show them and a container may wait for one.
    pub addresses: NodeAddresses,
    /// Receives events about pods that do not terminate.
    pub events: PodEvents,
    /// Pause between two syncs of a pod that nothing else causes (`syncFrequency`).
    pub sync_frequency: Duration,
    /// The randomness of jitter.
    pub chance: StdRng,
}

impl PodTable {
    /// A table of the desired pods.
    pub(crate) fn new(deps: PodTableDeps) -> Self {
        let mut lifecycles = PodLifecycles::new(deps.sync_frequency);
        let mut adopted = BTreeMap::new();
        for pod in deps.adopted {
            lifecycles.adopt(pod.clone());
            adopted.insert(pod.reference.uid.clone(), pod);
        }
        Self {
            lifecycles,
            workers: Workers::new(deps.syncer),
            pleg: deps.pleg,
            desired_pods: deps.desired_pods,
            sweep: Sweep::new(deps.janitor.clone()),
            janitor: deps.janitor,
            desired: BTreeMap::new(),
            adopted,
            kills: Kills::default(),
            events: deps.events,
            is_desired_complete: false,
            housekeeping: Instant::now(),
            is_share_due: true,
            chance: deps.chance,
            addresses: deps.addresses,
            statuses: deps.statuses,
            heartbeat: Heartbeat::default(),
            metrics: LifecycleMetrics::default(),
        }
    }

    /// Adds its metrics, and the numbers of the pods in `status_cache` by phase.
    pub(crate) fn register(&self, metrics: &Metrics, status_cache: &StatusCache) {
        self.metrics.register(metrics);
        let pods = WorkingPods {
            desired_pods: self.desired_pods.clone(),
            status_cache: status_cache.clone(),
            observed: self.pleg.cache().clone(),
        };
        pods.register(metrics);
    }

    /// Answers as this heartbeat.
    pub(crate) fn with_heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// The killed pods whose lifecycle has finished, while their kill is requested.
    pub(crate) fn ended_kills(&self) -> watch::Receiver<BTreeSet<PodUid>> {
        self.kills.all_ended()
    }

    /// Runs until cancelled. Work under way is cancelled then; pods keep running.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        self.take_desired();
        let changes = self.pleg.changes().clone();
        let syncer = self.workers.syncer().clone();
        let mut desired_pods = self.desired_pods.clone();
        let mut sources_ended = false;
        let mut addresses = self.addresses.clone();
        let cache = self.pleg.cache().clone();
        let mut listed = pin!(cache.filled());
        let mut is_runtime_known = false;
        loop {
            let due = self.lifecycles.next_due();
            // Biased, so that simultaneous events are handled in the same order in every run: desired pods first, changes in
            // the runtime last. No arm starves the others: desired pods, changes and news are conflated; outcomes and due
            // times result from work started here.
            tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return self.workers.end().await,
                // Cancel-safe as documented there.
                () = self.heartbeat.asked() => {}
                // Cancel-safe: pinned outside of the loop.
                () = &mut listed, if !is_runtime_known => {
                    is_runtime_known = true;
                    self.runtime_is_known();
                }
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                changed = desired_pods.changed(), if !sources_ended => match changed {
                    Ok(()) => self.take_desired(),
                    Err(_) => sources_ended = true,
                },
                // Cancel-safe: an event is taken only when it is returned.
                (uid, event) = self.workers.next_event() => {
                    let effects = match event {
                        WorkerEvent::Reported(Report::Done(outcome)) => self.completed(&uid, outcome),
                        WorkerEvent::Reported(Report::News) => self.lifecycles.wake(&uid),
                        // Ignored if it was idle.
                        WorkerEvent::Died => self.completed(&uid, Outcome::Failed(Retry::BackOff)),
                    };
                    self.carry_out(effects);
                }
                // Cancel-safe: a sleep until a fixed instant takes nothing.
                () = sleep_until(due) => {
                    let effects = self.lifecycles.due(Instant::now());
                    self.carry_out(effects);
                }
                // Cancel-safe: as above.
                () = sleep_until(self.kills.next_overdue()) => self.report_overdue(),
                // Cancel-safe: as above.
                () = tokio::time::sleep_until(self.housekeeping) => self.housekeep(),
                // Cancel-safe: what is under way lives in the sweep.
                swept = self.sweep.next() => match swept {
                    Swept::Found(found) => self.remove_leftovers(found),
                    // Also creates the pods that waited for the sweep.
                    Swept::Done => self.create_missing(),
                },
                // Cancel-safe: the queue gives a change only when `next` returns it.
                change = changes.next() => {
                    // Its worker may be busy for a long time.
                    self.statuses.observed(&change.uid);
                    let effects = self.lifecycles.wake(&change.uid);
                    self.carry_out(effects);
                    if self.lifecycles.phase(&change.uid).is_none() {
                        self.request_housekeeping();
                    }
                }
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                () = addresses.changed() => self.wake_all(),
                // Cancel-safe: news is taken only when it is returned.
                uid = syncer.news() => {
                    let effects = self.lifecycles.wake(&uid);
                    self.carry_out(effects);
                }
            }
        }
    }

    fn completed(&mut self, uid: &PodUid, outcome: Outcome) -> Vec<Effect> {
        let chance = self.chance.random();
        let effects = self.lifecycles.completed(uid, outcome, Instant::now(), chance);
        self.workers.scheduled(uid, self.lifecycles.due_of(uid));
        effects
    }

    fn wake_all(&mut self) {
        let uids: Vec<PodUid> = self.desired.keys().cloned().collect();
        for uid in uids {
            self.statuses.observed(&uid);
            let effects = self.lifecycles.wake(&uid);
            self.carry_out(effects);
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Stop(uid) = &effect {
                self.statuses.ended(uid);
                self.kills.ended(uid);
                self.request_housekeeping();
            }
            self.workers.carry_out(effect);
        }
    }

    fn request_housekeeping(&mut self) {
        self.housekeeping = self.housekeeping.min(Instant::now() + HOUSEKEEPING_DELAY);
    }

    fn update(&mut self, kind: UpdateKind, pod: Arc<AdmittedPod>) {
        let uid = pod.reference.uid.clone();
        // It is created when the sweep is done; one that is removed before that never existed.
        if self.sweep.is_removing(&uid) && self.lifecycles.phase(&uid).is_none() {
            return;
        }
        if self.pleg.cache().may_have(&uid) {
            self.lifecycles.seen_in_runtime(&uid);
        }
        // A pod that is killed before it was created, or adopted, starts nothing.
        let is_new = self.lifecycles.phase(&uid).is_none_or(|phase| phase == LifecycleView::Waiting);
        let kill = match kind {
            UpdateKind::Create if is_new => self.kills.request(&uid),
            UpdateKind::Create | UpdateKind::Update | UpdateKind::Kill | UpdateKind::Remove => None,
        };
        let is_killed = kill.is_some();
        let kind = if is_killed { UpdateKind::Kill } else { kind };
        let effects = self.lifecycles.update(PodUpdate { kind, subject: UpdateSubject::Spec(pod), kill });
        // The lifecycle's own spec: while it terminates, the spec given here belongs to the next lifecycle.
        if self.lifecycles.phase(&uid).is_some_and(|phase| phase != LifecycleView::Finished)
            && let Some(spec) = self.lifecycles.spec(&uid)
        {
            self.statuses.desired(spec);
        }
        self.carry_out(effects);
        if is_killed {
            self.killed(&uid);
        }
    }

    /// A kill was delivered.
    fn killed(&mut self, uid: &PodUid) {
        self.kills.delivered(uid, self.lifecycles.grace_seconds(uid), Instant::now());
        if self.lifecycles.phase(uid) == Some(LifecycleView::Finished) {
            self.kills.ended(uid);
        }
    }

    /// Compares the newly desired pods with the previous ones: removals first, so that a static pod's successor finds it
    /// terminating; then the pods in the order in which they may pass the start gate.
    fn take_desired(&mut self) {
        let mut desired_pods = self.desired_pods.borrow_and_update().clone();
        self.is_desired_complete = desired_pods.ready;
        let new: HashSet<PodUid> = desired_pods.pods.iter().map(|pod| pod.reference.uid.clone()).collect();
        let removed: Vec<PodUid> = self.desired.keys().filter(|uid| !new.contains(*uid)).cloned().collect();
        for uid in removed {
            if let Some(pod) = self.desired.remove(&uid) {
                tracing::info!(pod = %pod.reference, %uid, "pod removed from its source");
                self.update(UpdateKind::Remove, pod);
            }
        }
        self.remove_superseded(&desired_pods.pods);
        self.terminate_predecessors(&desired_pods.pods);
        let adopted = std::mem::take(&mut self.adopted);
        let (renamed, adopted) = adopted.into_iter().partition(|(uid, pod)| {
            desired_pods.pods.iter().any(|new| new.reference.uid == *uid && is_renamed(pod, new))
        });
        self.adopted = adopted;
        self.adopted.retain(|uid, _| !new.contains(uid));
        // Treated as desired under their old name, so that they terminate first.
        self.desired.extend(renamed);
        if desired_pods.ready {
            for (uid, pod) in std::mem::take(&mut self.adopted) {
                tracing::info!(pod = %pod.reference, %uid, "pod was removed from its source while hostlet was not running");
                self.update(UpdateKind::Remove, pod);
            }
        }
        self.kills.set_requested(desired_pods.kills);
        desired_pods.pods.sort_by_cached_key(|pod| StartPriority::of(pod));
        for pod in desired_pods.pods {
            let reference = pod.reference.clone();
            match self.desired.insert(reference.uid.clone(), pod.clone()) {
                None => {
                    tracing::info!(pod = %reference, uid = %reference.uid, "pod added by its source");
                    self.update(UpdateKind::Create, pod);
                }
                Some(old) if is_renamed(&old, &pod) => {
                    tracing::info!(pod = %old.reference, uid = %reference.uid, renamed = %reference, "pod was renamed by its source");
                    self.update(UpdateKind::Remove, old);
                    self.update(UpdateKind::Create, pod);
                }
                Some(old) if is_added_again(&old, &pod) => {
                    tracing::info!(pod = %reference, uid = %reference.uid, "pod was removed from its source and added again");
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
        self.request_housekeeping();
    }

    /// Removes the static pods of an earlier daemon whose source now defines another pod of that name. Does not wait for the other
    /// sources: one of them may be the API server, and this pod its successor.
    fn remove_superseded(&mut self, new: &[Arc<AdmittedPod>]) {
        let uids: HashSet<&PodUid> = new.iter().map(|pod| &pod.reference.uid).collect();
        let names: HashSet<String> =
            new.iter().filter(|pod| pod.is_static).map(|pod| pod.reference.full_name()).collect();
        let is_superseded = |uid: &PodUid, pod: &AdmittedPod| {
            pod.is_static && !uids.contains(uid) && names.contains(&pod.reference.full_name())
        };
        let superseded = self.adopted.extract_if(.., |uid, pod| is_superseded(uid, pod));
        for (uid, pod) in superseded.collect::<Vec<_>>() {
            tracing::info!(pod = %pod.reference, %uid, "pod was changed by its source while hostlet was not running");
            self.update(UpdateKind::Remove, pod);
        }
    }

    /// The same for static pods of an earlier daemon that only the runtime knows, because their record was lost.
    fn terminate_predecessors(&mut self, new: &[Arc<AdmittedPod>]) {
        let uids: HashSet<&PodUid> = new.iter().map(|pod| &pod.reference.uid).collect();
        let names: HashSet<String> =
            new.iter().filter(|pod| pod.is_static).map(|pod| pod.reference.full_name()).collect();
        self.terminate_orphans(|pod| !uids.contains(&pod.uid) && names.contains(&pod.full_name()));
    }

    /// The runtime was listed for the first time.
    fn runtime_is_known(&mut self) {
        let desired: Vec<Arc<AdmittedPod>> = self.desired.values().cloned().collect();
        self.terminate_predecessors(&desired);
        let effects = self.lifecycles.runtime_is_known();
        self.carry_out(effects);
    }

    /// Delivers each requested kill to its pod's lifecycle, unless delivered in its present form. A pod without a lifecycle
    /// receives it when it is created.
    fn deliver_kills(&mut self) {
        self.kills.retain(|uid| self.lifecycles.phase(uid).is_some());
        for uid in self.kills.take_withdrawn() {
            // The same UID without its kill: the pod was deleted and created again in between.
            if let Some(pod) = self.desired.get(&uid).cloned() {
                self.update(UpdateKind::Create, pod);
            }
        }
        for uid in self.kills.due(|uid| self.lifecycles.spec(uid).is_some()) {
            let Some(pod) = self.lifecycles.spec(&uid).cloned() else { continue };
            let kill = self.kills.request(&uid);
            let subject = UpdateSubject::Spec(pod);
            let effects = self.lifecycles.update(PodUpdate { kind: UpdateKind::Kill, subject, kill });
            self.carry_out(effects);
            self.killed(&uid);
        }
    }

    /// Reports the killed pods that are overdue. Their workers continue to stop them, without a limit.
    fn report_overdue(&mut self) {
        for uid in self.kills.take_overdue(Instant::now()) {
            let Some(pod) = self.lifecycles.spec(&uid) else { continue };
            let reference = &pod.reference;
            tracing::warn!(pod = %reference, %uid, "a killed pod has not terminated within its grace period");
            (self.events)(reference, None, &PodEvent::warning("ExceededGracePeriod", EXCEEDED_GRACE_PERIOD));
        }
    }

    /// Creates again the finished pods that are desired again. Then forgets the other finished pods, terminates what runs and is not
    /// desired, and sweeps the host, but not before all sources were read and the runtime was listed.
    fn housekeep(&mut self) {
        let is_ready = self.is_desired_complete && self.pleg.cache().is_filled();
        // Does not wait for an unreadable source: the pods of other sources and of an earlier daemon run.
        if std::mem::take(&mut self.is_share_due) || is_ready {
            let active = self.desired.values().chain(self.adopted.values());
            self.sweep.share(active.cloned().collect());
        }
        // Does not wait for a source either: a static pod that was put back may be what the others wait for.
        for uid in self.lifecycles.forget_recreated() {
            if let Some(pod) = self.desired.get(&uid) {
                self.metrics.restarted(pod.is_static);
            }
        }
        self.create_missing();
        if !is_ready {
            self.housekeeping = Instant::now() + UNREADY_RETRY;
            return;
        }
        self.housekeeping = Instant::now() + HOUSEKEEPING_PERIOD;
        let desired: HashSet<PodUid> = self.desired.keys().cloned().collect();
        let effects = self.lifecycles.sync_known(&desired);
        self.carry_out(effects);
        self.terminate_orphans(|_| true);
        let known: HashSet<PodUid> = self.lifecycles.all().map(|(pod, _)| pod.uid.clone()).collect();
        self.janitor.forget(&known);
        self.sweep.begin();
    }

    /// Creates the desired pods without a lifecycle.
    fn create_missing(&mut self) {
        let is_missing = |uid: &PodUid| self.lifecycles.phase(uid).is_none();
        let missing: Vec<Arc<AdmittedPod>> =
            self.desired.iter().filter(|(uid, _)| is_missing(uid)).map(|(_, pod)| pod.clone()).collect();
        for pod in missing {
            self.update(UpdateKind::Create, pod);
        }
        self.deliver_kills();
    }

    /// Second step of a sweep: hands over what it found of pods that are neither known nor desired nor in the runtime.
    fn remove_leftovers(&mut self, found: HashSet<PodUid>) {
        let cache = self.pleg.cache();
        let mut known = KnownPods {
            pods: self.lifecycles.all().map(|(pod, _)| pod.uid.clone()).collect(),
            running: HashSet::new(),
        };
        known.pods.extend(self.desired.keys().cloned());
        for pod in cache.pods() {
            if let Ok(status) = cache.get(&pod) {
                let containers = status.containers.iter().filter(|c| c.state == ContainerState::Running);
                known.running.extend(containers.map(|c| c.id.clone()));
            }
            known.pods.insert(pod.uid);
        }
        let is_known = |uid: &PodUid| known.pods.contains(uid) || cache.may_have(uid);
        let (used, unknown): (Vec<PodUid>, Vec<PodUid>) = found.into_iter().partition(is_known);
        known.pods.extend(used);
        self.sweep.remove(unknown.into_iter().collect(), known);
    }

    /// Terminates and removes those pods in the runtime that have no lifecycle and are `meant`.
    fn terminate_orphans(&mut self, meant: impl Fn(&PodRef) -> bool) {
        for pod in self.pleg.cache().pods() {
            if self.lifecycles.phase(&pod.uid).is_some() || !meant(&pod) {
                continue;
            }
            let Ok(status) = self.pleg.cache().get(&pod) else { continue };
            let grace_seconds = status.containers.iter().filter_map(|c| c.grace_seconds).max();
            tracing::info!(%pod, uid = %pod.uid, "pod is in the runtime but no source names it; removing it");
            self.reap(pod, grace_seconds);
        }
        for listed in self.pleg.cache().unreadable() {
            let pod = listed.pod.clone();
            if self.lifecycles.phase(&pod.uid).is_none() && meant(&pod) {
                tracing::warn!(
                    %pod,
                    uid = %pod.uid,
                    "pod is in the runtime, no source names it, and the runtime cannot describe it; removing \
                     what it lists of it"
                );
                self.reap(pod, Some(UNKNOWN_GRACE_SECONDS));
            }
        }
    }

    fn reap(&mut self, pod: PodRef, grace_seconds: Option<i64>) {
        self.metrics.orphan();
        let subject = UpdateSubject::Runtime { pod, grace_seconds };
        let effects = self.lifecycles.update(PodUpdate { kind: UpdateKind::Kill, subject, kill: None });
        self.carry_out(effects);
    }
}

/// Whether a static pod was removed from its source and added again, unchanged: it is a new pod of the same UID.
fn is_added_again(old: &AdmittedPod, new: &AdmittedPod) -> bool {
    let seen = |pod: &AdmittedPod| pod.metadata.annotations.as_ref()?.get(CONFIG_SEEN_ANNOTATION).cloned();
    old.is_static && new.is_static && seen(old) != seen(new)
}

/// Whether two pods of one UID have different names. A pod's name cannot change, so they are different pods.
fn is_renamed(old: &AdmittedPod, new: &AdmittedPod) -> bool {
    old.reference.full_name() != new.reference.full_name()
}
