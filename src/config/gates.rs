//! Feature gates: those of Kubernetes 1.37. Only the ones in `SERVED` have an effect.

use std::collections::BTreeMap;

use super::endpoints::{ALLOCATED_PODS, CHECKPOINTS, FLAGZ, STATUSZ};
use super::gate_table::{FORMER, LOCKED_OFF, LOCKED_ON, OFF, ON};
use super::validate::Breach;
use crate::yaml::nearest;

/// Gates that have an effect.
const SERVED: &[&str] = &[
    ALLOCATED_PODS,
    CHECKPOINTS,
    "CustomCPUCFSQuotaPeriod",
    ENSURE_SECRET_PULLED_IMAGES,
    FLAGZ,
    GRACEFUL_SHUTDOWN,
    GRACEFUL_SHUTDOWN_BY_PRIORITY,
    IMAGE_VOLUMES,
    MEMORY_QOS,
    SPLIT_LOG_STREAMS,
    STATUSZ,
    STOP_SIGNALS,
];

/// Pods need credentials for present images that were pulled with credentials.
pub(super) const ENSURE_SECRET_PULLED_IMAGES: &str = "KubeletEnsureSecretPulledImages";

/// A shutdown of the host is delayed until pods have terminated.
pub(super) const GRACEFUL_SHUTDOWN: &str = "GracefulNodeShutdown";

/// The periods of a shutdown may be set by priority; the times of the last shutdown are recorded.
pub(super) const GRACEFUL_SHUTDOWN_BY_PRIORITY: &str = "GracefulNodeShutdownBasedOnPodPriority";

/// Containers on cgroup v2 get their memory settings explicitly.
pub(super) const MEMORY_QOS: &str = "MemoryQoS";

/// Readers of logs may ask for one stream.
pub(super) const SPLIT_LOG_STREAMS: &str = "PodLogsQuerySplitStreams";

/// Containers are stopped with the signals of their specs, and their signals are reported.
pub(super) const STOP_SIGNALS: &str = "ContainerStopSignals";

/// The images of image volumes are reported.
pub(super) const IMAGE_VOLUMES: &str = "ImageVolumeWithDigest";

/// The default of `gate`; `None` if there is no such gate.
fn default(gate: &str) -> Option<bool> {
    if ON.contains(&gate) || LOCKED_ON.contains(&gate) {
        Some(true)
    } else {
        (OFF.contains(&gate) || LOCKED_OFF.contains(&gate)).then_some(false)
    }
}

/// Whether `gate` is on.
pub(super) fn enabled(gate: &str, set: Option<&BTreeMap<String, bool>>) -> bool {
    set.and_then(|set| set.get(gate).copied()).or_else(|| default(gate)).unwrap_or_default()
}

/// Gates in `set` that do not exist or are locked to another value.
pub(super) fn breaches(set: Option<&BTreeMap<String, bool>>) -> Vec<Breach> {
    let breach = |(gate, value): (&String, &bool)| {
        let path = format!("featureGates.{gate}");
        if FORMER.contains(&gate.as_str()) {
            return None;
        }
        if default(gate).is_none() {
            let known = [LOCKED_ON, ON, OFF, LOCKED_OFF].into_iter().flatten().copied();
            let hint = nearest(gate, known).map(|near| format!(" (did you mean {near:?}?)"));
            return Some((path, format!("there is no such feature gate{}", hint.unwrap_or_default())));
        }
        let locked = match value {
            true => LOCKED_OFF.contains(&gate.as_str()),
            false => LOCKED_ON.contains(&gate.as_str()),
        };
        locked.then(|| (path, format!("cannot be set to {value}, the feature is locked to {}", !value)))
    };
    set.into_iter().flatten().filter_map(breach).collect()
}

/// Gates in `set` that differ from their default and have no effect.
pub(super) fn ignored(set: Option<&BTreeMap<String, bool>>) -> Vec<Breach> {
    let why = |gate: &str, value: bool| {
        if FORMER.contains(&gate) {
            return Some("Kubernetes 1.37 no longer has this gate; setting it changes nothing");
        }
        let differs = !SERVED.contains(&gate) && default(gate).is_some_and(|default| default != value);
        differs.then_some("hostlet does not depend on this gate; setting it changes nothing")
    };
    let breach = |(gate, value): (&String, &bool)| {
        Some((format!("featureGates.{gate}"), why(gate, *value)?.to_owned()))
    };
    set.into_iter().flatten().filter_map(breach).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::gate_table::{FORMER, LOCKED_OFF, LOCKED_ON, OFF, ON};
    use super::{SERVED, breaches, default, enabled, ignored};

    #[test]
    fn every_gate_is_listed_once_and_in_order() {
        let lists = [LOCKED_ON, ON, OFF, LOCKED_OFF, FORMER];
        let all: Vec<&str> = lists.into_iter().flatten().copied().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        for list in lists {
            assert!(list.is_sorted());
        }
        assert!(SERVED.iter().all(|gate| default(gate).is_some()));
    }

    #[test]
    fn setting_a_gate_to_its_default_gives_no_warning() {
        let set = |gates: &[(&str, bool)]| -> BTreeMap<String, bool> {
            gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on)).collect()
        };
        let gates = set(&[("EventedPLEG", false), ("NodeSwap", true), ("CustomCPUCFSQuotaPeriod", false)]);
        assert_eq!((breaches(Some(&gates)), ignored(Some(&gates))), (Vec::new(), Vec::new()));
        assert!(!enabled("CustomCPUCFSQuotaPeriod", Some(&gates)));
        assert!(enabled("CustomCPUCFSQuotaPeriod", None));
        let gates = set(&[("EventedPLEG", true)]);
        assert_eq!(ignored(Some(&gates))[0].0, "featureGates.EventedPLEG");
    }

    #[test]
    fn a_locked_gate_cannot_be_changed_and_a_former_one_gives_a_warning() {
        let set = |gate: &str, on| BTreeMap::from([(gate.to_owned(), on)]);
        let broken = breaches(Some(&set("GitRepoVolumeDriver", true)));
        assert_eq!(broken[0].1, "cannot be set to true, the feature is locked to false");
        let broken = breaches(Some(&set("ImageVolume", false)));
        assert_eq!(broken[0].1, "cannot be set to false, the feature is locked to true");
        let former = set("SidecarContainers", true);
        assert_eq!(breaches(Some(&former)), Vec::new());
        assert!(ignored(Some(&former))[0].1.contains("no longer has this gate"));
    }
}
