//! Wires what measures the use of resources: volumes from the start, because they may have limits or be of claims; everything else once
//! somebody asks the node's API.

use std::path::Path;
use std::sync::Arc;

use super::parts::Parts;
use super::paths::{PROC, SYS};
use super::tasks::{Stage, Tasks};
use hostlet_base::{WallClock, error_chain};
use hostlet_config::Config;
use hostlet_engine::eviction::{Eviction, EvictionDeps};
use hostlet_host::cgroup::Cgroups;
use hostlet_host::{CpuTopology, Host};
use hostlet_observe::log::LogLayout;
use hostlet_observe::stats::{
    DiskSettings, DiskStats, StorageSettings, StorageStats, SystemPaths, UsageSettings, UsageStats,
};
use hostlet_serve::node_api::stats::StatsParts;
use hostlet_volume::Volumes;

impl Parts {
    /// Starts what measures volumes and limits the local storage of pods.
    pub(super) fn start_storage(
        &self,
        config: &Config,
        logs: &LogLayout,
        volumes: &Volumes,
        tasks: &mut Tasks,
    ) -> StorageStats {
        let (task, storage) = StorageStats::new(StorageSettings {
            runtime: self.runtime.runtime.clone(),
            observed: self.runtime.pleg.cache().clone(),
            logs: logs.clone(),
            root_dir: config.root_dir.clone(),
            external: volumes.external(),
            external_pace: config.pods.volume_stats_period,
            clock: WallClock::system(),
        });
        storage.register(&self.metrics, &self.desired_pods);
        tasks.spawn(Stage::Support, "storage use", |cancel| task.run(cancel));
        if self.node.settings.node.local_storage_isolation {
            let sources = EvictionDeps {
                desired_pods: self.desired_pods.clone(),
                status_cache: self.status_cache.clone(),
                timeline: self.timeline.clone(),
                storage: storage.clone(),
                root_dir: config.root_dir.clone(),
                kills: self.evicted.clone(),
                events: self.events.clone(),
                clock: WallClock::system(),
            };
            let eviction = Eviction::new(sources, &self.metrics);
            tasks.spawn(Stage::Pods, "eviction", |cancel| eviction.run(cancel));
        }
        storage
    }

    /// Gives the node's API and the control socket what they need for statistics.
    pub(super) fn serve_stats(
        &self,
        config: &Config,
        logs: &LogLayout,
        cgroups: Arc<Cgroups>,
        storage: StorageStats,
        tasks: &mut Tasks,
    ) {
        let clock = WallClock::system();
        let booted_at = Host::new(Path::new(PROC)).booted_at().unwrap_or_else(|error| {
            tracing::warn!(
                error = error_chain(&error),
                "cannot read when the host booted; its statistics start now"
            );
            clock.now()
        });
        let observed = self.runtime.pleg.cache().clone();
        let machine = self.node.machine.borrow().clone();
        let usage = UsageStats::new(UsageSettings {
            cgroups,
            observed: observed.clone(),
            proc: PROC.into(),
            root_dir: config.root_dir.clone(),
            memory: machine.memory,
            swap: machine.swap,
            booted_at,
            system: SystemPaths {
                runtime: config.runtime.cgroup.clone(),
                misc: config.cgroups.system.clone(),
            },
            clock: clock.clone(),
        });
        self.usage.send_replace(Some(usage.clone()));
        let (task, disks) = DiskStats::new(DiskSettings {
            runtime: self.runtime.runtime.clone(),
            images: self.runtime.images.clone(),
            observed,
            logs: logs.clone(),
            root_dir: config.root_dir.clone(),
            clock: clock.clone(),
        });
        tasks.spawn(Stage::Support, "disk use", |cancel| task.run(cancel));
        self.stats.set(StatsParts {
            usage,
            disks,
            storage,
            desired_pods: self.desired_pods.clone(),
            runtime: self.runtime.runtime.clone(),
            node: config.node_name.clone(),
            root_dir: config.root_dir.clone(),
            topology: CpuTopology::read(Path::new(SYS)),
            machine,
            volume_pace: config.pods.volume_stats_period,
            started_at: self.started,
            clock,
        });
    }
}
