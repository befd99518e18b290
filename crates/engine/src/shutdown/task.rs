//! The task: when logind announces a shutdown, ends the pods group by group, waits until that is reported and recorded, then
//! lets the host go down. When the shutdown is cancelled, the node is as before, except that pods of the API server that ended
//! stay ended (as upstream).

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_base::{PodUid, WallClock, reasons};
use hostlet_observe::status::timeline::{Timeline, TimelineStep};
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry, StatusCache};
use hostlet_pod::{AdmittedPod, DesiredPods, PodKill, PodPhase, StatusOverride};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::delay::InhibitDelay;
use super::inhibitor::Inhibitor;
use super::link::{Link, Signal};
use super::logind::Logind;
use super::metrics::ShutdownMetrics;
use super::periods::{Period, ShutdownPeriods};
use super::record::{EndedPods, ShutdownTimes, TimesFile};
use super::reports::Reports;
use super::view::ShutdownView;
use crate::admission::NodeShutdown;

/// Upstream's message of a pod that the shutdown ends.
const IMMINENT: &str = "Pod was terminated in response to imminent node shutdown.";

/// Upstream's reason for which the node is not ready.
const NOT_READY: &str = "node is shutting down";

/// Upstream's reason of the events about a shutdown.
const SHUTDOWN: &str = "Shutdown";

/// How long the last statuses and the record may take after the pods have ended, within what logind grants.
const REPORT_PATIENCE: Duration = Duration::from_secs(10);

/// How this node shuts down, and where it reads the host's configuration.
#[derive(Clone, Debug)]
pub struct ShutdownSettings {
    /// How long pods have; `None` if shutdowns are not delayed.
    pub periods: Option<ShutdownPeriods>,
    /// Whether the times of the last shutdown are recorded.
    pub is_recorded: bool,
    /// Directory of the daemon's files.
    pub root_dir: PathBuf,
    /// Directory of the host's configuration, `/etc`.
    pub etc: PathBuf,
}

/// What shutdowns publish.
#[derive(Clone)]
pub struct ShutdownOutputs {
    /// For admission.
    pub demands: watch::Receiver<NodeShutdown>,
    /// What keeps the node from being ready.
    pub unready: watch::Receiver<Vec<String>>,
    /// For people.
    pub view: watch::Receiver<ShutdownView>,
    /// Whether logind has answered, or could not be reached. Before that, the host may already be shutting down.
    pub is_checked: watch::Receiver<bool>,
}

/// What shutdowns observe, and where they report.
pub(crate) struct ShutdownDeps {
    /// systemd-logind.
    pub logind: Arc<dyn Logind>,
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// The killed pods whose lifecycle has finished.
    pub ended_kills: watch::Receiver<BTreeSet<PodUid>>,
    /// Which pods have terminated.
    pub status_cache: StatusCache,
    /// Receives the terminations of pods.
    pub timeline: Timeline,
    /// What the API server has of this node; `None` on a standalone node.
    pub reports: Option<Reports>,
    /// Receives events about the node.
    pub events: NodeEvents,
    pub clock: WallClock,
}

/// Graceful node shutdown, before it runs: until then only what an earlier shutdown left is known.
pub(crate) struct Shutdown {
    settings: ShutdownSettings,
    ended: EndedPods,
    metrics: ShutdownMetrics,
    demands: watch::Sender<NodeShutdown>,
    unready: watch::Sender<Vec<String>>,
    view: watch::Sender<ShutdownView>,
    is_checked: watch::Sender<bool>,
}

impl Shutdown {
    /// Continues after earlier shutdowns: the pods of the API server that they ended start nothing.
    pub(crate) fn new(settings: ShutdownSettings, store: Store, metrics: &Metrics) -> Self {
        let ended = EndedPods(store);
        let kills = ended.all().into_iter().map(|uid| (uid, kill(None))).collect();
        let shutdown_metrics = ShutdownMetrics::default();
        if settings.is_recorded {
            shutdown_metrics.register(metrics);
        }
        let is_checked = settings.periods.is_none();
        Self {
            settings,
            ended,
            metrics: shutdown_metrics,
            demands: watch::Sender::new(NodeShutdown { is_under_way: false, kills }),
            unready: watch::Sender::default(),
            view: watch::Sender::default(),
            is_checked: watch::Sender::new(is_checked),
        }
    }

    /// What is published.
    pub(crate) fn outputs(&self) -> ShutdownOutputs {
        ShutdownOutputs {
            demands: self.demands.subscribe(),
            unready: self.unready.subscribe(),
            view: self.view.subscribe(),
            is_checked: self.is_checked.subscribe(),
        }
    }

    /// Runs until cancelled, which releases the delay lock.
    pub(crate) async fn run(self, deps: ShutdownDeps, cancel: CancellationToken) {
        let Self { settings, ended, metrics, demands, unready, view, is_checked } = self;
        let forgetting = forget_removed(deps.desired_pods.clone(), demands.clone(), ended.clone());
        let Some(periods) = settings.periods else {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: the next daemon forgets them.
                () = forgetting => return,
            }
        };
        let (inhibitor, signals) = (Inhibitor::default(), watch::Sender::<Signal>::default());
        let problem = watch::Sender::<Option<String>>::default();
        let task = ShutdownTask {
            times_file: TimesFile::new(&settings.root_dir, settings.is_recorded),
            times: ShutdownTimes::default(),
            periods,
            deps,
            ended,
            metrics,
            demands,
            unready,
            view: view.clone(),
            inhibitor: inhibitor.clone(),
            signals: signals.subscribe(),
        };
        let problems = show_problems(problem.subscribe(), view);
        let link = Link {
            logind: task.deps.logind.clone(),
            delay: InhibitDelay { etc: settings.etc, needed: task.periods.total() },
            inhibitor,
            signals,
            problem,
            is_checked,
        };
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // The others run until then, and may be dropped: the next daemon reads logind's state and continues.
            () = forgetting => {}
            () = problems => {}
            never = link.run() => match never {},
            never = task.run() => match never {},
        }
    }
}

/// Shows the link's problems.
async fn show_problems(mut problem: watch::Receiver<Option<String>>, view: watch::Sender<ShutdownView>) {
    while problem.changed().await.is_ok() {
        let problem = problem.borrow_and_update().clone();
        view.send_modify(|view| view.problem = problem);
    }
    std::future::pending().await
}

/// Forgets the ended pods that no source names any more.
async fn forget_removed(
    mut desired_pods: watch::Receiver<DesiredPods>,
    demands: watch::Sender<NodeShutdown>,
    ended: EndedPods,
) {
    loop {
        let (is_ready, desired) = {
            let now = desired_pods.borrow_and_update();
            let uids = now.pods.iter().map(|pod| pod.reference.uid.clone());
            (now.ready, uids.collect::<BTreeSet<PodUid>>())
        };
        // Every row has its kill.
        if is_ready && !demands.borrow().kills.is_empty() {
            demands.send_if_modified(|demands| {
                let before = demands.kills.len();
                demands.kills.retain(|uid, _| desired.contains(uid));
                demands.kills.len() != before
            });
            ended.retain(|uid| desired.contains(uid));
        }
        if desired_pods.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Ends pods.
struct ShutdownTask {
    periods: ShutdownPeriods,
    deps: ShutdownDeps,
    times_file: TimesFile,
    times: ShutdownTimes,
    ended: EndedPods,
    metrics: ShutdownMetrics,
    demands: watch::Sender<NodeShutdown>,
    unready: watch::Sender<Vec<String>>,
    view: watch::Sender<ShutdownView>,
    inhibitor: Inhibitor,
    signals: watch::Receiver<Signal>,
}

impl ShutdownTask {
    async fn run(mut self) -> Infallible {
        self.times = self.times_file.read().await;
        self.metrics.set(&self.times);
        let mut signals = self.signals.clone();
        loop {
            let signal = *signals.borrow_and_update();
            let work = async {
                if signal.is_preparing {
                    self.shut_down(signal).await;
                } else {
                    self.cancel_shutdown().await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                // Cancel-safe: kills stay requested, and the other state is set again by the next signal.
                () = work => {}
                // Cancel-safe: a watch marks its value seen only when `changed` returns.
                changed = signals.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
        }
    }

    /// Ends all pods, then lets the host go down.
    async fn shut_down(&mut self, signal: Signal) {
        let start = self.deps.clock.now();
        let began = Instant::now();
        let granted = self.begin(start, signal.granted).await;
        let periods = self.periods.within(granted);
        for (index, period) in periods.all().iter().enumerate() {
            self.end_group(&periods, index, *period).await;
        }
        let until = Instant::now() + REPORT_PATIENCE;
        let until = began.checked_add(granted).map_or(until, |down| down.min(until));
        let reported = async {
            self.ended.written().await;
            if let Some(reports) = self.deps.reports.clone() {
                reports.sent(&self.deps.status_cache).await;
            }
        };
        if timeout_at(until, reported).await.is_err() {
            tracing::warn!(
                "the API server does not have the last statuses of all pods; they are sent after the boot"
            );
        }
        self.finish_times().await;
        tracing::info!("all pods had their time to terminate; the host may shut down");
        self.inhibitor.release(signal.number);
    }

    /// Stops admitting pods, and says so. Returns how much of what logind granted is left: an earlier daemon may have begun.
    async fn begin(&mut self, now: Timestamp, granted: Duration) -> Duration {
        let is_news = !self.demands.borrow().is_under_way;
        // Set before anything is awaited, so that no pod is admitted in between.
        self.demands.send_modify(|demands| demands.is_under_way = true);
        self.unready.send_replace(vec![NOT_READY.to_owned()]);
        let mut elapsed = Duration::ZERO;
        if is_news {
            tracing::info!("the host is shutting down; terminating the pods");
            (self.deps.events)(NodeEvent::normal(SHUTDOWN, "Shutdown manager detected shutdown event"));
            elapsed = self.times.under_way_for(now, granted).unwrap_or_default();
        }
        if elapsed.is_zero() {
            self.times = ShutdownTimes { start: Some(now), end: None };
            self.times_file.write(self.times).await;
            self.metrics.set(&self.times);
        }
        self.view.send_modify(|view| view.since = self.times.start);
        granted.saturating_sub(elapsed)
    }

    /// Terminates the pods of a group, and pods of earlier groups that were not known yet. Waits until they have terminated, or their
    /// period is over.
    async fn end_group(&self, periods: &ShutdownPeriods, index: usize, period: Period) {
        let is_due = |pod: &Arc<AdmittedPod>| periods.group_of(pod) <= index;
        let pods: Vec<Arc<AdmittedPod>> = self.active_pods().into_iter().filter(is_due).collect();
        if pods.is_empty() {
            return;
        }
        let (priority, seconds) = (period.priority, period.seconds);
        tracing::info!(priority, seconds, pods = pods.len(), "terminating the pods of a priority");
        let now = self.deps.clock.now();
        for pod in pods.iter().filter(|pod| !pod.is_static) {
            self.ended.add(&pod.reference.uid, now);
        }
        for pod in &pods {
            let grace = period.grace_seconds(pod);
            let detail = format!("within {grace} s");
            self.deps.timeline.mark(&pod.reference, TimelineStep::Shutdown, detail, now);
        }
        self.demands.send_modify(|demands| {
            let kills =
                pods.iter().map(|pod| (pod.reference.uid.clone(), kill(Some(period.grace_seconds(pod)))));
            demands.kills.extend(kills);
        });
        let uids: BTreeSet<PodUid> = pods.iter().map(|pod| pod.reference.uid.clone()).collect();
        let ended = self.all_ended(uids);
        if timeout_at(Instant::now() + Duration::from_secs(seconds), ended).await.is_err() {
            tracing::warn!(priority, seconds, "not all pods of a priority have terminated in their time");
        }
    }

    /// The pods that may still run.
    fn active_pods(&self) -> Vec<Arc<AdmittedPod>> {
        let reported = self.reported();
        let desired_pods = self.deps.desired_pods.borrow();
        let active = desired_pods.pods.iter().filter(|pod| {
            let entry = reported.get(&pod.reference.uid);
            entry.map_or(!pod.has_ended(), |entry| entry.lifecycle != LifecycleSummary::Terminated)
        });
        active.cloned().collect()
    }

    fn reported(&self) -> HashMap<PodUid, PodStatusEntry> {
        let entries = self.deps.status_cache.all().into_iter();
        entries.map(|entry| (entry.pod.reference.uid.clone(), entry)).collect()
    }

    /// Waits until none of these pods has anything left on the host, volumes included.
    async fn all_ended(&self, uids: BTreeSet<PodUid>) {
        let mut statuses = self.deps.status_cache.changes();
        let mut kills = self.deps.ended_kills.clone();
        let mut desired_pods = self.deps.desired_pods.clone();
        loop {
            let reported = self.reported();
            let finished = kills.borrow_and_update().clone();
            let desired: BTreeSet<PodUid> = {
                let desired_pods = desired_pods.borrow_and_update();
                desired_pods.pods.iter().map(|pod| pod.reference.uid.clone()).collect()
            };
            let has_released = |entry: &PodStatusEntry| {
                entry.lifecycle == LifecycleSummary::Terminated && entry.has_released
            };
            let has_ended = |uid: &PodUid| {
                finished.contains(uid) || reported.get(uid).map_or(!desired.contains(uid), has_released)
            };
            if uids.iter().all(has_ended) {
                return;
            }
            tokio::select! {
                // Cancel-safe, all: a watch marks its value seen only when `changed` returns.
                Ok(()) = statuses.changed() => {}
                Ok(()) = kills.changed() => {}
                Ok(()) = desired_pods.changed() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// No shutdown is under way, or it was cancelled: the node admits pods again, and static pods that ended start again.
    async fn cancel_shutdown(&mut self) {
        if !self.demands.borrow().is_under_way {
            return;
        }
        tracing::info!("the shutdown of the host was cancelled");
        (self.deps.events)(NodeEvent::normal(SHUTDOWN, "Shutdown manager detected shutdown cancellation"));
        let statics: BTreeSet<PodUid> = {
            let desired_pods = self.deps.desired_pods.borrow();
            let statics = desired_pods.pods.iter().filter(|pod| pod.is_static);
            statics.map(|pod| pod.reference.uid.clone()).collect()
        };
        self.demands.send_modify(|demands| {
            demands.is_under_way = false;
            demands.kills.retain(|uid, _| !statics.contains(uid));
        });
        self.unready.send_replace(Vec::new());
        self.view.send_modify(|view| view.since = None);
        self.finish_times().await;
    }

    /// Records the end of the shutdown.
    async fn finish_times(&mut self) {
        if self.times.end.is_none() {
            self.times.end = Some(self.deps.clock.now());
            self.times_file.write(self.times).await;
            self.metrics.set(&self.times);
        }
    }
}

/// Ends a pod because of the shutdown. Without a grace period it has its own.
fn kill(grace_seconds: Option<i64>) -> PodKill {
    let status = StatusOverride {
        phase: PodPhase::Failed,
        reason: reasons::TERMINATED.to_owned(),
        message: IMMINENT.to_owned(),
        disruption: Some(IMMINENT.into()),
    };
    PodKill { status, grace_seconds, evict: false }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
