//! Starts the engine once the runtime responds, after what it needs of the host: cgroups, and what measures them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_config::Config;
use hostlet_engine::cri_config::resolv_conf_problem;
use hostlet_engine::housekeeping::{ReservedCgroups, SystemCgroups};
use hostlet_host::cgroup::{CgroupVersion, Cgroups, systemd_is_init};
use hostlet_host::tmpfs_can_avoid_swap;

use super::engine::{host_settings, log_layout, running_host};
use super::error::AppError;
use super::node_events::{cgroup_v1_event, resolv_conf_event, swap_event};
use super::parts::Parts;
use super::paths::{CGROUP_MOUNT, PROC};
use super::runtime::RuntimeInfo;
use super::startup::{StartupError, open_cgroups};
use super::tasks::{Stage, Tasks};

/// How long a daemon that cannot go on waits, so that its event reaches the API server, which hears nothing else of it.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Parts {
    /// Opens the cgroups of pods, without changing any.
    pub(super) async fn open_cgroups(
        &self,
        config: &Config,
        runtime_info: &RuntimeInfo,
    ) -> Result<Arc<Cgroups>, AppError> {
        let (driver, opening) = (runtime_info.cgroup_driver.unwrap_or(config.cgroups.driver), config.clone());
        let page_sizes = self.node.huge_page_sizes.clone();
        let opened = tokio::task::spawn_blocking(move || {
            open_cgroups(&opening, driver, page_sizes, Path::new(PROC), Path::new(CGROUP_MOUNT))
        });
        Ok(Arc::new(opened.await??))
    }

    /// Starts the engine.
    pub(super) async fn start_pods(
        self,
        config: &Config,
        runtime_info: &RuntimeInfo,
        cgroups: Arc<Cgroups>,
        tasks: &mut Tasks,
    ) -> Result<(), AppError> {
        self.start_cgroups(config, cgroups.clone(), tasks).await?;
        let observer = self.serve_stats(config, &log_layout(config), cgroups.clone(), tasks);
        let settings =
            host_settings(config, runtime_info, cgroups.version(), &self.node, self.addresses.clone());
        // As upstream, once: what a later change does to a pod is an event of that pod.
        if let Some(problem) = resolv_conf_problem(&settings).await {
            (self.node_events)(resolv_conf_event(problem));
        }
        let host = running_host(config, settings, cgroups, &self.runtime, Arc::new(observer), self.reports);
        tasks.spawn_engine(self.engine.tasks(host));
        Ok(())
    }

    /// Creates the cgroups of pods, and reports what is wrong with those of this host.
    async fn start_cgroups(
        &self,
        config: &Config,
        cgroups: Arc<Cgroups>,
        tasks: &mut Tasks,
    ) -> Result<(), AppError> {
        let tree = cgroups.clone();
        tokio::task::spawn_blocking(move || tree.ensure_tree()).await?.map_err(StartupError::Cgroups)?;
        self.enforce_reservations(config, cgroups.clone()).await?;
        let version = cgroups.version();
        version.register(&self.metrics);
        match version {
            CgroupVersion::V1 => (self.node_events)(cgroup_v1_event()),
            CgroupVersion::V2 => {}
        }
        if self.node.swap > 0 && !tmpfs_can_avoid_swap() {
            (self.node_events)(swap_event());
        }
        cgroups.register(&self.metrics);
        let kubelet = config.cgroups.kubelet.clone();
        if let (Some(path), true) = (&kubelet, systemd_is_init()) {
            tracing::warn!(
                path,
                "kubeletCgroups has no effect: systemd is init, and hostlet stays in the cgroup of its unit"
            );
        }
        let kubelet = kubelet.filter(|_| !systemd_is_init());
        if kubelet.is_some() || config.cgroups.system.is_some() {
            let system = config.cgroups.system.clone();
            let system = SystemCgroups { cgroups, proc: PROC.into(), kubelet, system };
            tasks.spawn(Stage::Support, "system cgroups", |cancel| system.run(cancel));
        }
        Ok(())
    }

    /// Limits the daemons of the host to what is reserved for them.
    async fn enforce_reservations(&self, config: &Config, cgroups: Arc<Cgroups>) -> Result<(), AppError> {
        let reserved = ReservedCgroups {
            cgroups,
            reservations: config.cgroups.enforced_reservations.clone(),
            protects_memory: config.cgroups.memory_qos.is_some(),
            events: self.node_events.clone(),
            limits: self.node.limits.clone(),
        };
        let enforced = tokio::task::spawn_blocking(move || reserved.enforce()).await?;
        if enforced.is_err() && config.cluster.is_some() {
            tokio::time::sleep(LAST_WORDS).await;
        }
        Ok(enforced.map_err(StartupError::NotEnforced)?)
    }
}
