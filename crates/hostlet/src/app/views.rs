//! What the other end of a socket sees of the parts: users, and the service manager.

use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_config::Config;
use hostlet_engine::container_logs::ContainerLogs;
use hostlet_image::ContainerdArrivals;
use hostlet_serve::server::{
    ClaimsEndpoint, ControlServer, DevicesEndpoint, EventsEndpoint, ExecEndpoint, ExplainEndpoint,
    HostProblems, ImageArchives, ImageEndpoints, ImagePulls, LogsEndpoint, MetricsEndpoints, NodeEndpoints,
    PodFinder, PodsEndpoint, RestartEndpoint, RuntimeHealth, TimelineEndpoint, UsageEndpoint,
    VolumesEndpoint,
};
use hostlet_serve::supervisor::{ConfigState, StartDecision, SupervisorInputs};
use hostlet_telemetry::Heartbeats;
use tokio::sync::watch;

use super::guard::GuardSources;
use super::parts::Parts;

impl Parts {
    /// What the service manager is informed of.
    pub(super) fn supervised(
        &self,
        heartbeats: Heartbeats,
        config: watch::Receiver<ConfigState>,
        start: StartDecision,
    ) -> SupervisorInputs {
        SupervisorInputs {
            heartbeats,
            status_cache: self.handles.status_cache.clone(),
            pleg: self.runtime.pleg.health(),
            manifests: self.manifests.clone(),
            api: self.api.clone(),
            config,
            start,
            clock: WallClock::system(),
        }
    }

    /// What the guard of a first start sees of the sources.
    pub(super) fn guard_sources<'a>(&'a self, config: &'a Config) -> GuardSources<'a> {
        GuardSources {
            manifests: self.manifests.clone(),
            api: self.api.clone(),
            node: &self.node.view,
            allowed_unsafe_sysctls: &config.pods.allowed_unsafe_sysctls,
        }
    }

    /// The logs of containers, for those who serve them.
    pub(super) fn logs(&self) -> ContainerLogs {
        ContainerLogs {
            pleg: self.runtime.pleg.clone(),
            status_cache: self.handles.status_cache.clone(),
            watches: self.log_watches.clone(),
        }
    }

    /// The server of the control socket.
    pub(super) fn server(&self, config: &Config) -> ControlServer {
        let node = config.node_name.clone();
        let finder = PodFinder { node: node.clone(), pods: self.handles.pods.clone() };
        let (health, host, pulls) = (self.runtime_health(), self.host_problems(), self.image_pulls());
        let archives = config
            .image_preload_dir
            .clone()
            .map(|dir| ImageArchives { dir, problems: self.handles.problems.preload.clone() });
        ControlServer {
            pods: PodsEndpoint {
                finder: finder.clone(),
                manifests: self.manifests.clone(),
                api: self.api.clone(),
                awaited_grants: self.handles.awaited_grants.clone(),
                runtime: health.clone(),
                host: host.clone(),
                archives: archives.clone(),
                certificate: self.certificate.clone(),
                shutdown: self.handles.shutdown.view.clone(),
                plugins: self.plugins.clone(),
            },
            explain: ExplainEndpoint {
                finder: finder.clone(),
                manifests: self.manifests.clone(),
                api: self.api.clone(),
                desired_pods: self.handles.desired_pods.clone(),
                awaited_grants: self.handles.awaited_grants.clone(),
                runtime: health,
                host,
                pulls: pulls.clone(),
                archives,
                timeline: self.handles.timeline.clone(),
                shutdown: self.handles.shutdown.view.clone(),
                failing_probes: self.handles.probes.failing.clone(),
                offline: self.offline.clone(),
            },
            timeline: TimelineEndpoint { node: node.clone(), timeline: self.handles.timeline.clone() },
            events: EventsEndpoint { node, events: self.recent.clone() },
            logs: LogsEndpoint { finder: finder.clone(), logs: self.logs() },
            exec: ExecEndpoint { finder: finder.clone(), runtime: self.runtime.runtime.clone() },
            restart: RestartEndpoint {
                finder,
                observed: self.runtime.pleg.cache().clone(),
                restarts: self.handles.restarts.clone(),
            },
            images: ImageEndpoints {
                runtime: self.runtime.images.clone(),
                pulls,
                gc: self.handles.image_gc.clone(),
            },
            node: NodeEndpoints {
                describer: self.describer.clone(),
                runtime: self.runtime.runtime.clone(),
                connections: self.connections.clone(),
                api: self.api.clone(),
                certificate: self.certificate.clone(),
                plugins: self.plugins.clone(),
                numa: self.handles.numa.clone(),
                pods: self.handles.pods.clone(),
            },
            volumes: VolumesEndpoint { volumes: self.csi_volumes.clone(), pods: self.handles.pods.clone() },
            claims: ClaimsEndpoint { claims: self.claims.clone(), pods: self.handles.pods.clone() },
            devices: DevicesEndpoint { devices: self.devices.clone(), pods: self.handles.pods.clone() },
            usage: UsageEndpoint { stats: self.usage.subscribe(), describer: self.describer.clone() },
            metrics: MetricsEndpoints {
                metrics: self.metrics.clone(),
                probes: self.handles.probes.metrics.clone(),
            },
        }
    }

    fn runtime_health(&self) -> RuntimeHealth {
        RuntimeHealth {
            status: self.runtime.status.clone(),
            pleg: self.runtime.pleg.clone(),
            calls: self.runtime.calls.clone(),
        }
    }

    fn host_problems(&self) -> HostProblems {
        HostProblems {
            store: self.store.trouble(),
            shims: self.handles.problems.shims.clone(),
            foreign: self.handles.problems.foreign.clone(),
            kubelets: self.kubelets.clone(),
            offline: self.offline.problem(),
            exposure: self.exposure.clone(),
            limits: self.node.limits.subscribe(),
            pressure: self.describer.inputs.pressure.clone(),
        }
    }

    fn image_pulls(&self) -> ImagePulls {
        ImagePulls {
            images: self.images.clone(),
            arrivals: Arc::new(ContainerdArrivals::new(self.runtime.content.clone())),
            pods: self.handles.pods.clone(),
            activities: self.handles.activities.clone(),
        }
    }
}
