//! Wires what measures the use of resources: for the node's API once somebody asks, and for evictions. Volumes, which may have limits or
//! be of claims, are measured by the engine.

use std::path::Path;
use std::sync::Arc;

use hostlet_base::{WallClock, error_chain};
use hostlet_config::Config;
use hostlet_engine::eviction::{AlarmSettings, KernelAlarms, StatsObserver};
use hostlet_host::cgroup::Cgroups;
use hostlet_host::{CpuTopology, Host};
use hostlet_observe::log::LogLayout;
use hostlet_observe::stats::{
    DiskSettings, DiskStats, SignalReader, SignalSettings, SystemPaths, UsageSettings, UsageStats,
};
use hostlet_serve::node_api::stats::StatsDeps;

use super::parts::Parts;
use super::paths::{PROC, SYS};
use super::tasks::{Stage, Tasks};

impl Parts {
    /// Gives the node's API and the control socket what they need for statistics. Returns what evictions need.
    pub(super) fn serve_stats(
        &self,
        config: &Config,
        logs: &LogLayout,
        cgroups: Arc<Cgroups>,
        tasks: &mut Tasks,
    ) -> StatsObserver {
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
            cgroups: cgroups.clone(),
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
        let alarms = KernelAlarms::new(AlarmSettings::new(&config.eviction, &cgroups, Path::new(PROC)));
        let huge_pages = match config.eviction.knows_huge_pages {
            true => machine.huge_pages.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)),
            false => 0,
        };
        let signals = SignalReader::new(SignalSettings {
            usage: usage.clone(),
            images: self.runtime.images.clone(),
            root_dir: config.root_dir.clone(),
            huge_pages,
            may_split_disks: config.eviction.may_split_disks,
            clock: clock.clone(),
        });
        let observer = StatsObserver {
            signals,
            alarms,
            usage: usage.clone(),
            disks: disks.clone(),
            storage: self.handles.usage.clone(),
            desired_pods: self.handles.desired_pods.clone(),
            root_dir: config.root_dir.clone(),
        };
        self.stats.set(StatsDeps {
            usage,
            disks,
            storage: self.handles.usage.clone(),
            desired_pods: self.handles.desired_pods.clone(),
            runtime: self.runtime.runtime.clone(),
            node: config.node_name.clone(),
            root_dir: config.root_dir.clone(),
            topology: CpuTopology::read(Path::new(SYS)),
            machine,
            huge_pages,
            volume_pace: config.pods.volume_stats_period,
            started_at: self.started,
            clock,
        });
        observer
    }
}
