//! The kernel's alarms about memory: that a threshold may be crossed before the next look, and that tasks wait for memory for too long.
//! Sets them; what follows is others' to decide.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use hostlet_base::node::{Pressure, Signal};
use hostlet_base::settings::{EvictionSettings, EvictionThreshold, StallLimits};
use hostlet_base::{Quantity, error_chain};
use hostlet_host::cgroup::{CgroupVersion, Cgroups};
use hostlet_host::{MemoryAlarm, StallKind, StallTrigger, SysError};
use hostlet_observe::stats::{NodeUsage, UnitUsage};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The time of which the shares of stalls are: the longest that the kernel allows.
const WINDOW: Duration = Duration::from_secs(10);

/// On cgroup v2, which reports no use of memory, the stalls after which it is worth a look.
const LOOK: StallTrigger = StallTrigger {
    kind: StallKind::Some,
    stalled: Duration::from_millis(100),
    window: Duration::from_secs(1),
};

/// Shortest time between two settings of alarms about use (upstream's `notifierRefreshInterval`).
const REFRESH: Duration = Duration::from_secs(10);

/// What the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryNotice {
    /// A threshold of memory may be crossed.
    Crossed,
    /// Tasks waited for memory for longer than is allowed.
    Stalled(StallKind),
}

/// Which alarms there are, and where the kernel has its files.
#[derive(Clone, Debug)]
pub struct AlarmSettings {
    version: CgroupVersion,
    /// The file with the stalls of the whole host.
    stalls: PathBuf,
    /// On cgroup v1, the directory of the whole host.
    host: Option<PathBuf>,
    /// On cgroup v1, the directory of all pods.
    pods: Option<PathBuf>,
    /// The thresholds of memory.
    thresholds: Vec<EvictionThreshold>,
    limits: StallLimits,
    notifies: bool,
}

impl AlarmSettings {
    /// The alarms that the settings ask for, on a host with these cgroups and procfs at `proc`.
    pub fn new(settings: &EvictionSettings, cgroups: &Cgroups, proc: &Path) -> Self {
        let host = cgroups.mount_of("memory").map(Path::to_owned);
        let pods = cgroups.all_pods_path().zip(host.clone());
        let is_of_memory = |threshold: &&EvictionThreshold| threshold.signal.pressure() == Pressure::Memory;
        let thresholds = settings.thresholds.iter().filter(is_of_memory);
        Self {
            version: cgroups.version(),
            stalls: proc.join("pressure/memory"),
            pods: pods.map(|(path, host)| host.join(path.trim_start_matches('/'))),
            host,
            thresholds: thresholds.copied().collect(),
            limits: settings.stalls,
            notifies: settings.kernel_notifies,
        }
    }

    /// The stalls that are reported, and what each means.
    fn stalls(&self) -> Vec<(MemoryNotice, StallTrigger)> {
        let limit = |kind: StallKind, percent: Option<u8>| {
            let stalled = WINDOW.saturating_mul(percent?.into()) / 100;
            Some((MemoryNotice::Stalled(kind), StallTrigger { kind, stalled, window: WINDOW }))
        };
        let limits = [limit(StallKind::Some, self.limits.some), limit(StallKind::Full, self.limits.full)];
        let look = match self.version {
            CgroupVersion::V1 => None,
            CgroupVersion::V2 => self.notifies.then_some((MemoryNotice::Crossed, LOOK)),
        };
        limits.into_iter().flatten().chain(look).collect()
    }

    /// The uses of memory that are reported on cgroup v1: where a threshold is crossed, if the page cache that can be freed stays the
    /// same (upstream's `UpdateThreshold`).
    fn uses(&self, usage: &NodeUsage) -> Vec<(PathBuf, u64)> {
        match (self.version, self.notifies) {
            (CgroupVersion::V2, _) | (CgroupVersion::V1, false) => return Vec::new(),
            (CgroupVersion::V1, true) => {}
        }
        let amount = |threshold: &EvictionThreshold| {
            let of_pods = threshold.signal == Signal::AllocatableMemoryAvailable;
            let (unit, dir): (Option<&UnitUsage>, _) =
                if of_pods { (usage.all_pods.as_ref(), &self.pods) } else { (Some(&usage.root), &self.host) };
            let usage = &unit?.usage;
            let capacity = usage.limits.memory?;
            let least = threshold.value.of(Quantity::bytes(capacity));
            let most = capacity.saturating_sub(u64::try_from(least.value()).unwrap_or(0));
            let cache = usage.memory.usage.saturating_sub(usage.memory.working_set);
            Some((dir.clone()?, most.saturating_add(cache)))
        };
        self.thresholds.iter().filter_map(amount).collect()
    }
}

type Alarms = Vec<(MemoryNotice, Arc<MemoryAlarm>)>;

/// The alarms of a host, set again when the kernel ends one.
pub struct KernelAlarms {
    settings: AlarmSettings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stalls: Alarms,
    uses: Alarms,
    refreshed: Option<Instant>,
    /// Whether the last failure was logged.
    is_failing: bool,
}

impl KernelAlarms {
    /// None is set yet.
    pub fn new(settings: AlarmSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Sets those that are missing, and those about use for what is used now.
    pub(super) fn refresh(&self, usage: &NodeUsage) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.refreshed.is_some_and(|at| now.saturating_duration_since(at) < REFRESH) {
            return;
        }
        state.refreshed = Some(now);
        let mut problem = None;
        let wanted = self.settings.stalls();
        if state.stalls.len() != wanted.len() {
            let of_stalls = |(notice, trigger)| {
                Ok((notice, Arc::new(MemoryAlarm::of_stalls(&self.settings.stalls, trigger)?)))
            };
            match wanted.into_iter().map(of_stalls).collect::<Result<Alarms, SysError>>() {
                Ok(alarms) => state.stalls = alarms,
                Err(error) => problem = Some(error),
            }
        }
        let of_use = |(dir, bytes): (PathBuf, u64)| {
            Ok((MemoryNotice::Crossed, Arc::new(MemoryAlarm::of_usage(&dir, bytes)?)))
        };
        match self.settings.uses(usage).into_iter().map(of_use).collect::<Result<Alarms, SysError>>() {
            Ok(alarms) => state.uses = alarms,
            Err(error) => problem = Some(error),
        }
        if let Some(error) = &problem
            && !state.is_failing
        {
            let error = error_chain(error);
            tracing::warn!(
                error,
                "the kernel does not report use of memory; it is looked at each ten seconds"
            );
        }
        state.is_failing = problem.is_some();
    }

    /// Waits for the next alarm; forever if none is set. Cancel-safe: an alarm stays raised until this returns.
    pub(super) async fn noticed(&self) -> MemoryNotice {
        let alarms: Alarms = {
            let state = self.state.lock();
            state.stalls.iter().chain(&state.uses).cloned().collect()
        };
        if !alarms.is_empty() {
            let raised = alarms
                .iter()
                .map(|(notice, alarm)| Box::pin(async move { alarm.raised().await.map(|()| *notice) }));
            match select_all(raised).await.0 {
                Ok(notice) => return notice,
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "an alarm of the kernel ended; it is set again"
                    );
                    let mut state = self.state.lock();
                    (state.stalls, state.uses) = (Alarms::new(), Alarms::new());
                }
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use hostlet_base::node::Threshold;
    use hostlet_observe::stats::{CgroupUsage, MemoryUsage, UsageLimits};

    use super::*;

    fn settings(version: CgroupVersion, notifies: bool, limits: StallLimits) -> AlarmSettings {
        let threshold = |signal: Signal, value: Threshold| EvictionThreshold {
            signal,
            value,
            grace: Duration::ZERO,
            min_reclaim: None,
        };
        AlarmSettings {
            version,
            stalls: "/nowhere/pressure".into(),
            host: Some("/memory".into()),
            pods: Some("/memory/kubepods".into()),
            thresholds: vec![
                threshold(Signal::MemoryAvailable, Threshold::Amount(Quantity::bytes(100))),
                threshold(Signal::AllocatableMemoryAvailable, Threshold::Part(0.5)),
            ],
            limits,
            notifies,
        }
    }

    fn usage() -> NodeUsage {
        let unit = |limit: u64, usage: u64, working_set: u64| UnitUsage {
            usage: CgroupUsage {
                memory: MemoryUsage { usage, working_set, ..MemoryUsage::default() },
                limits: UsageLimits { memory: Some(limit), ..UsageLimits::default() },
                ..CgroupUsage::default()
            },
            ..UnitUsage::default()
        };
        NodeUsage { root: unit(1000, 500, 470), all_pods: Some(unit(800, 200, 150)), ..NodeUsage::default() }
    }

    /// As upstream's `TestUpdateThreshold`: the capacity less the threshold, and the inactive page cache.
    #[test]
    fn use_is_reported_where_thresholds_are_crossed_on_v1_only() {
        let uses = |version, notifies| settings(version, notifies, StallLimits::default()).uses(&usage());
        let expected: Vec<(PathBuf, u64)> = vec![("/memory".into(), 930), ("/memory/kubepods".into(), 450)];
        assert_eq!(uses(CgroupVersion::V1, true), expected);
        assert_eq!(uses(CgroupVersion::V1, false), []);
        assert_eq!(uses(CgroupVersion::V2, true), []);
    }

    #[test]
    fn stalls_are_reported_as_configured_and_on_v2_in_place_of_use() {
        let limits = StallLimits { some: Some(20), full: Some(5) };
        let stalls = |version, notifies, limits| settings(version, notifies, limits).stalls();
        assert_eq!(stalls(CgroupVersion::V1, true, StallLimits::default()), []);
        let look = [(MemoryNotice::Crossed, LOOK)];
        assert_eq!(stalls(CgroupVersion::V2, true, StallLimits::default()), look);
        let trigger = |kind: StallKind, millis: u64| {
            (
                MemoryNotice::Stalled(kind),
                StallTrigger { kind, stalled: Duration::from_millis(millis), window: WINDOW },
            )
        };
        let expected = [trigger(StallKind::Some, 2000), trigger(StallKind::Full, 500)];
        assert_eq!(stalls(CgroupVersion::V1, false, limits), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kernel_without_alarms_never_raises_one() {
        let limits = StallLimits { some: Some(20), full: None };
        let alarms = KernelAlarms::new(settings(CgroupVersion::V1, true, limits));
        alarms.refresh(&usage());
        assert!(alarms.state.lock().is_failing);
        assert!(tokio::time::timeout(WINDOW, alarms.noticed()).await.is_err());
    }
}
