//! The engine once the runtime has answered: everything that acts on pods, in the order in which one part needs another.

use std::path::PathBuf;
use std::sync::Arc;

use hostlet_host::cgroup::Cgroups;
use hostlet_image::preload;
use hostlet_observe::status::{PodStatusDeps, PodStatusTask, StatusHandle};
use hostlet_runtime::cri::CriClient;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::build::Engine;
use super::deps::ImagePreload;
use super::task::{EngineTask, TaskStage};
use crate::container_logs::{LogRotation, LogRotationDeps};
use crate::cri_config::{HostSettings, UserNamespaces};
use crate::eviction::{Eviction, EvictionDeps, LimitedStorage, NodeObserver};
use crate::grants::{Cpusets, GrantsDeps, GrantsTask, Recovery};
use crate::housekeeping::{LeftoverShims, LeftoverTasks, PodsLimit};
use crate::probe::{Prober, ProberDeps};
use crate::shutdown::Reports;

/// What is known once the runtime has answered and its pods are known to be hostlet's.
pub struct RunningHost {
    /// Facts of the host that configurations need.
    pub settings: HostSettings,
    /// The cgroups of pods; `None` with `cgroupsPerQOS: false`.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Whether reserved resources are kept from all pods together.
    pub enforces_reservations: bool,
    /// The percentage of the memory requests of better QoS classes that worse ones cannot use.
    pub reserved_memory_percent: Option<u8>,
    /// containerd, if that is the runtime: it leaves things behind that only its own services show.
    pub containerd: Option<ContainerdAccess>,
    /// Observes what is left of its resources, and what pods use of them.
    pub observer: Arc<dyn NodeObserver>,
    /// What the API server has of this node; `None` on a standalone node.
    pub reports: Option<Reports>,
}

/// containerd behind the runtime's socket.
pub struct ContainerdAccess {
    /// The client of its services.
    pub client: CriClient,
    /// Its socket: what another containerd runs does not count.
    pub socket: PathBuf,
    /// Mount point of procfs, `/proc`.
    pub proc: PathBuf,
}

/// What several of these parts share.
pub(super) struct Shared {
    pub(super) statuses: StatusHandle,
    pub(super) user_namespaces: Arc<UserNamespaces>,
    /// `None` without cgroups of pods.
    pub(super) pods_limit: Option<Arc<PodsLimit>>,
}

impl Engine {
    /// The tasks that act on pods, in the order in which they are started.
    pub fn tasks(mut self, host: RunningHost) -> Vec<EngineTask> {
        let shared = self.shared(&host);
        let mut tasks = std::mem::take(&mut self.later);
        tasks.extend(self.grants(&host));
        tasks.push(self.eviction(&host));
        tasks.extend(self.log_rotation());
        tasks.extend(self.preload());
        tasks.extend(self.leftovers(&host));
        // It restores the findings of an earlier daemon before a status or a plan needs them.
        tasks.push(self.prober(&shared));
        tasks.push(self.status_task(&host, &shared));
        tasks.extend(self.pods(host, shared));
        tasks
    }

    fn shared(&self, host: &RunningHost) -> Shared {
        let pods_limit = host.cgroups.as_ref().map(|cgroups| {
            Arc::new(PodsLimit {
                cgroups: cgroups.clone(),
                is_enforced: host.enforces_reservations,
                node: self.deps.node.own_node.clone(),
                events: self.deps.events.node.clone(),
                limits: self.deps.node.limits.clone(),
                state: Mutex::default(),
            })
        });
        let ids = &self.settings.user_ids;
        let root = self.settings.root_dir.clone();
        Shared {
            statuses: StatusHandle::default(),
            user_namespaces: Arc::new(UserNamespaces::new(
                root,
                ids.per_pod,
                ids.max_pods,
                ids.subordinate.clone(),
            )),
            pods_limit,
        }
    }

    /// What grants pods what they have for themselves, and keeps their containers on their CPUs.
    fn grants(&mut self, host: &RunningHost) -> Vec<EngineTask> {
        let (granting, observed) = (&self.granting, self.deps.runtime.pleg.cache());
        let task = GrantsTask::new(GrantsDeps {
            grants: self.grants.clone(),
            requests: granting.requests.clone(),
            desired_pods: self.handles.desired_pods.clone(),
            status_cache: self.handles.status_cache.clone(),
            states: granting.states.clone(),
            recovery: Recovery {
                desired_pods: self.handles.desired_pods.clone(),
                observed: observed.clone(),
                cgroups: host.cgroups.clone(),
            },
            metrics: self.granting.metrics.clone(),
        });
        let run = |heartbeat, cancel| task.run(heartbeat, cancel);
        let mut tasks = vec![EngineTask::with_heartbeat(TaskStage::Pods, "grants", run)];
        let numa = self.grants.numa().clone();
        if numa.settings().cpus.is_some() {
            let cpusets = Cpusets {
                numa,
                observed: observed.clone(),
                own: self.deps.own.clone(),
                runtime: self.deps.runtime.service.clone(),
            };
            tasks.push(EngineTask::new(TaskStage::Pods, "cpusets", |cancel| cpusets.run(cancel)));
        }
        tasks
    }

    fn eviction(&mut self, host: &RunningHost) -> EngineTask {
        let limited = self.settings.isolates_storage.then(|| LimitedStorage {
            storage: self.handles.usage.clone(),
            root_dir: self.settings.root_dir.clone(),
        });
        let sources = EvictionDeps {
            desired_pods: self.handles.desired_pods.clone(),
            status_cache: self.handles.status_cache.clone(),
            observed: self.deps.runtime.pleg.cache().clone(),
            timeline: self.handles.timeline.clone(),
            limited,
            observer: host.observer.clone(),
            reclaimers: vec![
                Box::new(self.handles.dead_containers.clone()),
                Box::new(self.handles.image_gc.clone()),
            ],
            pressure: self.deps.node.pressure.clone(),
            kills: self.handles.kills.clone(),
            events: self.deps.events.pods.clone(),
            node_events: self.deps.events.node.clone(),
            clock: self.deps.clock.clone(),
        };
        let eviction = Eviction::new(self.settings.eviction.clone(), sources, &self.deps.metrics);
        EngineTask::new(TaskStage::Pods, "eviction", |cancel| eviction.run(cancel))
    }

    fn log_rotation(&self) -> Option<EngineTask> {
        let sources = LogRotationDeps {
            runtime: self.deps.runtime.service.clone(),
            observed: self.deps.runtime.pleg.cache().clone(),
            events: self.deps.events.pods.clone(),
            clock: self.deps.clock.clone(),
        };
        let rotation = LogRotation::new(self.settings.log_limits?, sources, &self.deps.metrics);
        Some(EngineTask::new(TaskStage::Pods, "log rotation", |cancel| rotation.run(cancel)))
    }

    fn preload(&mut self) -> Option<EngineTask> {
        let (ImagePreload { config, store }, outputs) = (self.deps.preload.take()?, self.preload.clone());
        let run = |cancel| preload::run(config, store, outputs, cancel);
        Some(EngineTask::new(TaskStage::Pods, "image preload", run))
    }

    fn leftovers(&self, host: &RunningHost) -> Vec<EngineTask> {
        let Some(containerd) = &host.containerd else {
            let runtime = &host.settings.runtime_name;
            tracing::debug!(runtime, "leftover shims and tasks are only searched for on containerd");
            return Vec::new();
        };
        let shims = LeftoverShims {
            client: containerd.client.clone(),
            socket: containerd.socket.clone(),
            proc: containerd.proc.clone(),
            mounts: self.deps.host.mounts.clone(),
            problem: self.problems.shims.clone(),
        };
        let leftovers = LeftoverTasks {
            client: containerd.client.clone(),
            observed: self.deps.runtime.pleg.cache().clone(),
            own: self.deps.own.clone(),
        };
        vec![
            EngineTask::new(TaskStage::Pods, "leftover shims", |cancel| shims.run(cancel)),
            EngineTask::new(TaskStage::Pods, "leftover tasks", |cancel| leftovers.run(cancel)),
        ]
    }

    fn prober(&mut self, shared: &Shared) -> EngineTask {
        let sources = ProberDeps {
            runtime: self.deps.runtime.service.clone(),
            status_cache: self.handles.status_cache.clone(),
            timeline: self.handles.timeline.clone(),
            statuses: shared.statuses.clone(),
            results: self.handles.probes.results.clone(),
            failing: self.handles.probes.failing.clone(),
            metrics: self.probe_metrics.clone(),
            store: self.deps.store.clone(),
            events: self.deps.events.pods.clone(),
            clock: self.deps.clock.clone(),
        };
        let prober = Prober::new(sources, StdRng::from_rng(&mut self.deps.random));
        EngineTask::with_heartbeat(TaskStage::Support, "probes", |heartbeat, cancel| {
            prober.with_heartbeat(heartbeat).run(cancel)
        })
    }

    fn status_task(&self, host: &RunningHost, shared: &Shared) -> EngineTask {
        let sources = PodStatusDeps {
            handle: shared.statuses.clone(),
            probes: self.handles.probes.results.clone(),
            observed: self.deps.runtime.pleg.cache().clone(),
            addresses: self.deps.node.addresses.clone(),
            runtime_name: host.settings.runtime_name.clone(),
            timeline: self.handles.timeline.clone(),
            gates: self.settings.status_gates,
            clock: self.deps.clock.clone(),
        };
        let task = PodStatusTask::new(sources, self.handles.status_cache.clone());
        task.register(&self.deps.metrics);
        EngineTask::with_heartbeat(TaskStage::Support, "statuses", |heartbeat, cancel| {
            task.with_heartbeat(heartbeat).run(cancel)
        })
    }
}
