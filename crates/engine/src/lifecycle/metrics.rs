//! Metrics of lifecycles. The names are upstream's.

use std::collections::{BTreeMap, HashSet};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::watch;

use hostlet_observe::pleg::Cache;
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::DesiredPods;
use hostlet_telemetry::{Metrics, Reading};

/// The metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LifecycleMetrics {
    restarted: Family<[(&'static str, &'static str); 1], Counter>,
    orphans: Counter,
}

impl LifecycleMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_restarted_pods",
            "Number of pods that have been restarted because they were deleted and recreated with the same UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)",
            self.restarted.clone(),
        );
        metrics.register(
            "kubelet_orphaned_runtime_pods",
            "Number of pods that have been detected in the container runtime without being already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the local configuration, which is unusual",
            self.orphans.clone(),
        );
    }

    /// Counts a pod that starts again with the UID under which it ended.
    pub(super) fn restarted(&self, is_static: bool) {
        self.restarted.get_or_create(&[("static", if is_static { "true" } else { "" })]).inc();
    }

    /// Counts a pod of the runtime that no source names.
    pub(super) fn orphan(&self) {
        self.orphans.inc();
    }
}

/// Upstream's names of the phases.
const PHASES: [(LifecycleSummary, &str); 3] = [
    (LifecycleSummary::Active, "sync"),
    (LifecycleSummary::Terminating, "terminating"),
    (LifecycleSummary::Terminated, "terminated"),
];

/// The pods that are worked on.
pub(super) struct WorkingPods {
    pub(super) desired_pods: watch::Receiver<DesiredPods>,
    pub(super) status_cache: StatusCache,
    pub(super) observed: Cache,
}

impl WorkingPods {
    /// Registers their numbers.
    pub(super) fn register(self, metrics: &Metrics) {
        let help = "Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from local configuration or force deleted in the API and consumes resources that are not otherwise visible.";
        metrics.register_gauge("kubelet_working_pods", help, move || self.read());
    }

    fn read(&self) -> Vec<Reading> {
        let desired_pods = self.desired_pods.borrow().clone();
        let desired: HashSet<_> = desired_pods.pods.iter().map(|pod| &pod.reference.uid).collect();
        let mut counts: BTreeMap<[&str; 3], u64> = BTreeMap::new();
        for (_, phase) in PHASES {
            for (config, is_static) in [
                ("desired", "true"),
                ("desired", ""),
                ("orphan", "true"),
                ("orphan", ""),
                ("runtime_only", "unknown"),
            ] {
                counts.insert([config, phase, is_static], 0);
            }
        }
        let mut count = |config, summary, is_static| {
            let phase = PHASES.iter().find(|(known, _)| *known == summary).map_or("", |(_, name)| name);
            *counts.entry([config, phase, is_static]).or_default() += 1;
        };
        let mut known = HashSet::new();
        for entry in self.status_cache.all() {
            let uid = &entry.pod.reference.uid;
            let config = if desired.contains(uid) { "desired" } else { "orphan" };
            count(config, entry.lifecycle, if entry.pod.is_static { "true" } else { "" });
            known.insert(uid.clone());
        }
        // Before every source was read, a pod of the runtime may still be desired.
        if desired_pods.ready {
            let pods = self.observed.pods().into_iter().map(|pod| pod.uid);
            for _ in pods.filter(|uid| !known.contains(uid) && !desired.contains(uid)) {
                count("runtime_only", LifecycleSummary::Terminating, "unknown");
            }
        }
        let reading = |([config, phase, is_static], count): ([&str; 3], u64)| {
            let labels = [("config", config), ("lifecycle", phase), ("static", is_static)];
            (labels.map(|(name, value)| (name, value.to_owned())).to_vec(), count)
        };
        counts.into_iter().map(reading).collect()
    }
}
