//! What all work on pods needs, and the first fork of the way: sync, terminate, finish or reap.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use super::task::PodSyncer;
use super::{EnvNeeds, Memory, Outcome, Work};
use crate::cgroup::Cgroups;
use crate::cri::{RuntimeService, RuntimeStatus};
use crate::cri_config::HostSettings;
use crate::gate::{StartGate, StopGate};
use crate::image::Images;
use crate::log::LogLayout;
use crate::objects::ObjectSource;
use crate::objects::services::ServiceEnv;
use crate::pleg::{Observed, PlegHandle, PodStatus};
use crate::pod::{PodEvents, RestartPolicy, pod_ref};
use crate::status::{Activity, StatusCache, StatusHandle, as_it_was, is_unclear};
use crate::store::{Store, Table};
use crate::sys::{Mounts, file_work};
use crate::types::{ContainerId, PodRef, PodUid, QuietPeriod, WallClock};
use crate::volume::Volumes;
use crate::worker::CrashLoops;

/// The parts of the node that work on pods is done with. Shared by all workers.
pub struct WorkerContext {
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Pulls images.
    pub images: Images,
    /// What the runtime has.
    pub pleg: PlegHandle,
    /// Bounds concurrent starts.
    pub gate: StartGate,
    /// Bounds concurrent ends.
    pub stops: StopGate,
    /// When none starts or stops.
    pub quiet_period: QuietPeriod,
    /// Pod cgroups; none with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Where container logs are.
    pub logs: LogLayout,
    /// What configurations need to know of the host.
    pub host: Arc<HostSettings>,
    /// What the runtime last said of itself; none before it first answered.
    pub runtime_status: watch::Receiver<Option<RuntimeStatus>>,
    /// Where what workers are doing is shown.
    pub status_cache: StatusCache,
    /// Where facts are left that pod statuses are made from.
    pub statuses: StatusHandle,
    /// Where events are told, beside the log and the timeline.
    pub events: PodEvents,
    /// Longest pause of a crash loop.
    pub crash_loop_cap: Duration,
    /// Where what a new daemon must know is kept.
    pub store: Store,
    /// The time of day.
    pub clock: WallClock,
    /// Sets up the pods' volumes and takes them down.
    pub volumes: Volumes,
    /// Where the ConfigMaps and Secrets of environments come from.
    pub objects: Arc<dyn ObjectSource>,
    /// Variables of the cluster's services.
    pub service_env: ServiceEnv,
    /// The host's mounts: no directory is removed across one.
    pub mounts: Arc<dyn Mounts>,
}

#[async_trait]
impl PodSyncer for WorkerContext {
    fn memory(&self, pod: &PodRef) -> Memory {
        let stored = self.store.get(Table::CrashLoops, pod.uid.as_str());
        let asked = self.store.get(Table::RequestedStarts, pod.uid.as_str());
        let crash_loops = CrashLoops::new(self.crash_loop_cap, stored.unwrap_or_default());
        Memory::new(crash_loops, asked.unwrap_or_default())
    }

    async fn perform(&self, work: &Work, memory: &mut Memory) -> Outcome {
        memory.failure = None;
        memory.runs_once = match work {
            Work::Sync(pod) | Work::Terminate { pod, .. } | Work::Finish { pod, .. } => {
                RestartPolicy::of(pod) != RestartPolicy::Always
            }
            Work::Reap { .. } => false,
        };
        match work {
            Work::Sync(pod) => memory.env.follow(pod, &*self.objects),
            // Nothing of it starts any more.
            Work::Terminate { .. } | Work::Finish { .. } | Work::Reap { .. } => {
                memory.env = EnvNeeds::default();
            }
        }
        let outcome = match work {
            Work::Sync(pod) => self.sync(pod, memory).await,
            Work::Terminate { pod, grace_seconds, status, urgency } => {
                self.terminate(pod, *grace_seconds, status.as_ref(), urgency, memory).await
            }
            Work::Finish { pod, status, content } => {
                self.finish(pod, status.as_ref(), *content, memory).await
            }
            Work::Reap { pod, grace_seconds } => self.reap(pod, *grace_seconds, memory).await,
        };
        self.rest(work, outcome, memory);
        outcome
    }

    async fn news(&self) -> PodUid {
        self.volumes.changed().await
    }

    fn scheduled(&self, pod: &PodUid, due: Option<Instant>) {
        let at = |due: Instant| {
            let pause = due.saturating_duration_since(Instant::now());
            self.clock.now().checked_add(pause).ok()
        };
        self.status_cache.schedule(pod, due.and_then(at));
    }
}

impl WorkerContext {
    /// Shows that a step of the work on a pod begins.
    pub(super) fn begin(&self, pod: &PodRef, activity: Activity) {
        self.status_cache.begin(pod, activity, self.clock.now());
    }

    /// Shows what the worker waits for after its work ended.
    fn rest(&self, work: &Work, outcome: Outcome, memory: &Memory) {
        let pod = match work {
            Work::Sync(pod) | Work::Terminate { pod, .. } | Work::Finish { pod, .. } => pod_ref(pod),
            Work::Reap { pod, .. } => pod.clone(),
        };
        let activity = match outcome {
            Outcome::Failed(_) => Activity::Retrying { error: memory.failure.clone() },
            Outcome::Done { due: Some(_) } => Activity::BackingOff,
            Outcome::Done { due: None } | Outcome::PodEnded | Outcome::Cancelled => Activity::Idle,
        };
        self.begin(&pod, activity);
        self.status_cache.retries(&pod.uid, memory.retries.clone());
    }

    /// The pod as the runtime has it after our last work on it ended, with what really came of starts that were cut short.
    pub(super) async fn observe(&self, pod: &PodRef, memory: &mut Memory) -> Observed {
        let cache = self.pleg.cache();
        if !cache.is_newer(pod, memory.last_work) {
            self.pleg.relist(pod);
        }
        let observed = cache.newer_than(pod, memory.last_work).await?;
        memory.facts.lost_starts = self.lost_starts(&observed, memory).await;
        memory.facts.made_sandbox = None;
        let was = as_it_was(&observed, |container| memory.facts.lost_starts.contains(&container.id));
        Ok(was.map_or(observed, Arc::new))
    }

    /// The containers that must not run again and were asked to start, of which nobody knows whether they ran.
    async fn lost_starts(&self, observed: &PodStatus, memory: &Memory) -> BTreeSet<ContainerId> {
        let unclear = observed.containers.iter().filter(|c| memory.runs_once && is_unclear(c));
        let logs: Vec<_> = unclear.map(|c| (c.id.clone(), c.log_path.clone())).collect();
        if logs.is_empty() {
            return BTreeSet::new();
        }
        let runtime = self.runtime.instance().await;
        let ids: Vec<_> = logs.iter().map(|(id, _)| id.clone()).collect();
        let says = |path: &str| std::fs::metadata(path).is_ok_and(|log| log.len() > 0);
        let look = move || logs.into_iter().filter(|(_, path)| says(path)).map(|(id, _)| id).collect();
        let logged: HashSet<ContainerId> = file_work(look).await.unwrap_or_default();
        let is_lost = |id: &ContainerId| memory.asked.is_lost(id, runtime.as_deref()) || logged.contains(id);
        ids.into_iter().filter(is_lost).collect()
    }
}
