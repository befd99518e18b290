//! What the other end of a socket sees of the parts: users, and the service manager.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::guard::GuardSources;
use super::parts::Parts;
use hostlet_base::WallClock;
use hostlet_config::Config;
use hostlet_engine::container_logs::ContainerLogs;
use hostlet_image::ContainerdArrivals;
use hostlet_serve::server::ControlServer;
use hostlet_serve::supervisor::{ConfigState, StartDecision, SupervisorInputs};
use hostlet_telemetry::Heartbeats;

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

    /// The control server's view.
    pub(super) fn server(&self, config: &Config) -> ControlServer {
        let preload = |directory: PathBuf| (directory, self.handles.problems.preload.clone());
        ControlServer {
            node: config.node_name.clone(),
            pods: self.handles.pods.clone(),
            activities: self.handles.activities.clone(),
            timeline: self.handles.timeline.clone(),
            desired_pods: self.handles.desired_pods.clone(),
            source: self.manifests.clone(),
            api: self.api.clone(),
            runtime: self.runtime.status.clone(),
            pleg: self.runtime.pleg.clone(),
            logs: self.logs(),
            calls: self.runtime.calls.clone(),
            runtime_images: self.runtime.images.clone(),
            images: self.images.clone(),
            arrivals: Arc::new(ContainerdArrivals::new(self.runtime.content.clone())),
            preload: config.image_preload_dir.clone().map(preload),
            store: self.store.trouble(),
            shims: self.handles.problems.shims.clone(),
            foreign: self.handles.problems.foreign.clone(),
            kubelets: self.kubelets.clone(),
            exposure: self.exposure.clone(),
            certificate: self.certificate.clone(),
            shutdown: self.handles.shutdown.view.clone(),
            connections: self.connections.clone(),
            events: self.recent.clone(),
            service: self.runtime.runtime.clone(),
            restarts: self.handles.restarts.clone(),
            describer: self.describer.clone(),
            plugins: self.plugins.clone(),
            usage: self.usage.subscribe(),
            metrics: self.metrics.clone(),
            failing_probes: self.handles.probes.failing.clone(),
            probe_metrics: self.handles.probes.metrics.clone(),
        }
    }
}
