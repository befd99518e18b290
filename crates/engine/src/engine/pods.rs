//! The last part of the engine's wiring: the table of pods, with the workers and the janitor that it directs, and shutdowns of the
//! host, which end pods through it.

use std::sync::Arc;

use hostlet_net::http::HttpClient;
use hostlet_telemetry::Heartbeat;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use super::build::Engine;
use super::first_pods::FirstPods;
use super::running::{RunningHost, Shared};
use super::task::{EngineTask, TaskStage};
use crate::admission::AdoptedPod;
use crate::gate::{StartGate, StopGate};
use crate::housekeeping::{HostJanitor, ProtectedMemory, ReservedMemory};
use crate::lifecycle::{PodTable, PodTableDeps};
use crate::shutdown::ShutdownDeps;
use crate::worker::{EnvAccess, HostAccess, ReportSinks, RuntimeAccess, WorkerContext, WorkerMetrics};

impl Engine {
    /// Node shutdown, and the pods themselves.
    pub(super) fn pods(mut self, host: RunningHost, shared: Shared) -> [EngineTask; 2] {
        let first = FirstPods {
            images: self.deps.images.clone(),
            root_dir: self.settings.root_dir.clone(),
            pods_limit: shared.pods_limit.clone(),
            addresses: self.deps.node.addresses.clone(),
            is_checked: self.handles.shutdown.is_checked.clone(),
        };
        let interception = std::mem::take(&mut self.deps.interception);
        let adopted = self.handles.adopted.iter().map(AdoptedPod::admitted);
        let table = PodTable::new(PodTableDeps {
            desired_pods: self.handles.desired_pods.clone(),
            adopted: adopted.collect(),
            pleg: self.deps.runtime.pleg.clone(),
            syncer: (interception.syncer)(self.worker_context(&host, &shared)),
            janitor: (interception.janitor)(self.janitor(&host, &shared)),
            statuses: shared.statuses,
            addresses: self.deps.node.addresses.clone(),
            events: self.deps.events.pods.clone(),
            sync_frequency: self.settings.sync_frequency,
            chance: StdRng::from_rng(&mut self.deps.random),
        });
        table.register(&self.deps.metrics, &self.handles.status_cache);
        let sources = ShutdownDeps {
            logind: self.deps.host.logind,
            desired_pods: self.handles.desired_pods,
            ended_kills: table.ended_kills(),
            status_cache: self.handles.status_cache,
            timeline: self.handles.timeline,
            reports: host.reports,
            events: self.deps.events.node,
            clock: self.deps.clock,
        };
        let shutdown = self.shutdown;
        [
            EngineTask::new(TaskStage::Pods, "node shutdown", |cancel| shutdown.run(sources, cancel)),
            EngineTask::with_heartbeat(TaskStage::Pods, "pods", |heartbeat, cancel| {
                run_pods(first, table, heartbeat, cancel)
            }),
        ]
    }

    fn worker_context(&self, host: &RunningHost, shared: &Shared) -> WorkerContext {
        let (deps, metrics) = (&self.deps, &self.deps.metrics);
        let starts = StartGate::new(self.settings.max_concurrent_starts.get());
        let (stops, worker_metrics) = (StopGate::default(), WorkerMetrics::default());
        starts.register(metrics);
        stops.register(metrics);
        worker_metrics.register(metrics);
        WorkerContext {
            runtime: RuntimeAccess {
                service: deps.runtime.service.clone(),
                status: deps.runtime.status.clone(),
                classes: deps.objects.runtime_classes.clone(),
                images: deps.images.clone(),
                pleg: deps.runtime.pleg.clone(),
                starts,
                stops,
                quiet_period: deps.runtime.quiet_period.clone(),
            },
            host: HostAccess {
                boot_id: deps.host.boot_id.clone(),
                settings: Arc::new(host.settings.clone()),
                cgroups: host.cgroups.clone(),
                user_namespaces: shared.user_namespaces.clone(),
                logs: self.settings.logs.clone(),
                volumes: self.volumes.clone(),
                claims: deps.claims.clone(),
                mounts: deps.host.mounts.clone(),
            },
            grants: self.grants.clone(),
            env: EnvAccess { objects: deps.objects.objects.clone(), services: deps.objects.services.clone() },
            reports: ReportSinks {
                status_cache: self.handles.status_cache.clone(),
                activities: self.handles.activities.clone(),
                timeline: self.handles.timeline.clone(),
                statuses: shared.statuses.clone(),
                events: deps.events.pods.clone(),
                clock: deps.clock.clone(),
            },
            store: deps.store.clone(),
            own: deps.own.clone(),
            restarts: self.handles.restarts.clone(),
            probes: self.handles.probes.results.clone(),
            hook_client: HttpClient::default(),
            metrics: worker_metrics,
            crash_loop_cap: self.settings.crash_loop_cap,
        }
    }

    fn janitor(&self, host: &RunningHost, shared: &Shared) -> HostJanitor {
        let protected_memory = ProtectedMemory::default();
        if host.settings.memory_qos.is_some() {
            protected_memory.register(&self.deps.metrics);
        }
        HostJanitor {
            quiet_period: self.deps.runtime.quiet_period.clone(),
            root_dir: self.settings.root_dir.clone(),
            mounts: self.deps.host.mounts.clone(),
            volumes: self.volumes.clone(),
            claims: self.deps.claims.clone(),
            logs: self.settings.logs.clone(),
            cgroups: host.cgroups.clone(),
            // The kernel protects memory on cgroup v2 alone.
            memory_qos: host.settings.memory_qos.filter(|_| host.settings.cgroup_v2),
            protected_memory,
            reserved_memory: host
                .reserved_memory_percent
                .map(|percent| ReservedMemory { percent, node: self.deps.node.own_node.clone() }),
            pods_limit: shared.pods_limit.clone(),
            user_namespaces: shared.user_namespaces.clone(),
            own: self.deps.own.clone(),
            foreign: self.problems.foreign.clone(),
            admitted: self.admitted.clone(),
            status_cache: self.handles.status_cache.clone(),
            activities: self.handles.activities.clone(),
            timeline: self.handles.timeline.clone(),
        }
    }
}

async fn run_pods(first: FirstPods, table: PodTable, heartbeat: Heartbeat, cancel: CancellationToken) {
    tokio::select! {
        biased;
        // Cancel-safe: waits for a token.
        () = cancel.cancelled() => return,
        // Cancel-safe as documented there.
        () = heartbeat.while_waiting(first.ready()) => {}
    }
    table.with_heartbeat(heartbeat).run(cancel).await;
}
