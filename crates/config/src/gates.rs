//! Feature gates: those of Kubernetes 1.37, their stages and what they need. Only the ones in `SERVED` have an effect.

use std::collections::BTreeMap;

use hostlet_base::yaml::nearest;

use super::breach::Breach;
use super::gate_table::{ALPHA, BETA_OFF, BETA_ON, DEPENDENCIES, FORMER, LOCKED_OFF, LOCKED_ON, OFF, ON};

/// Gates that have an effect.
const SERVED: &[&str] = &[
    ALLOCATED_PODS,
    CHECKPOINTS,
    CPU_ALPHA_OPTIONS,
    CPU_BETA_OPTIONS,
    TRUST_BUNDLES,
    "CustomCPUCFSQuotaPeriod",
    ENSURE_SECRET_PULLED_IMAGES,
    FLAGZ,
    GRACEFUL_SHUTDOWN,
    GRACEFUL_SHUTDOWN_BY_PRIORITY,
    HUGE_PAGE_EVICTION,
    IMAGE_VOLUMES,
    MEMORY_QOS,
    POD_CERTIFICATES,
    POD_LEVEL_MANAGERS,
    PODS_API,
    QOS_RESERVED,
    SEPARATE_DISKS,
    SPLIT_LOG_STREAMS,
    STATUSZ,
    STOP_SIGNALS,
];

/// Endpoints of the node's API.
pub(super) const STATUSZ: &str = "ComponentStatusz";
pub(super) const FLAGZ: &str = "ComponentFlagz";
pub(super) const CHECKPOINTS: &str = "ContainerCheckpoint";
pub(super) const ALLOCATED_PODS: &str = "KubeletAllocatedPodsEndpoint";

/// Volumes may have the trust anchors of ClusterTrustBundles. Needs `ClusterTrustBundle`, which has no effect of its own on a node.
pub(super) const TRUST_BUNDLES: &str = "ClusterTrustBundleProjection";

/// Volumes may have certificates of their pods.
pub(super) const POD_CERTIFICATES: &str = "PodCertificateRequest";

/// Pods need credentials for present images that were pulled with credentials.
pub(super) const ENSURE_SECRET_PULLED_IMAGES: &str = "KubeletEnsureSecretPulledImages";

/// A shutdown of the host is delayed until pods have terminated.
pub(super) const GRACEFUL_SHUTDOWN: &str = "GracefulNodeShutdown";

/// The periods of a shutdown may be set by priority; the times of the last shutdown are recorded.
pub(super) const GRACEFUL_SHUTDOWN_BY_PRIORITY: &str = "GracefulNodeShutdownBasedOnPodPriority";

/// Memory in huge pages does not count as available.
pub(super) const HUGE_PAGE_EVICTION: &str = "HugepageAwareEviction";

/// Images and writable layers may be on different filesystems.
pub(super) const SEPARATE_DISKS: &str = "KubeletSeparateDiskGC";

/// Containers on cgroup v2 get their memory settings explicitly.
pub(super) const MEMORY_QOS: &str = "MemoryQoS";

/// QoS classes cannot use a part of the memory that pods of better ones request.
pub(super) const QOS_RESERVED: &str = "QOSReserved";

/// Options of the static policy for CPUs, by stage.
pub(super) const CPU_ALPHA_OPTIONS: &str = "CPUManagerPolicyAlphaOptions";
pub(super) const CPU_BETA_OPTIONS: &str = "CPUManagerPolicyBetaOptions";

/// Pods with resources of their own have CPUs and memory for themselves, too.
pub(super) const POD_LEVEL_MANAGERS: &str = "PodLevelResourceManagers";

/// The Pods API is served.
pub(super) const PODS_API: &str = "PodsAPI";

/// Readers of logs may ask for one stream.
pub(super) const SPLIT_LOG_STREAMS: &str = "PodLogsQuerySplitStreams";

/// Containers are stopped with the signals of their specs, and their signals are reported.
pub(super) const STOP_SIGNALS: &str = "ContainerStopSignals";

/// The images of image volumes are reported.
pub(super) const IMAGE_VOLUMES: &str = "ImageVolumeWithDigest";

/// Gates of features that hostlet has without them.
const ALWAYS_ON: &[&str] = &[
    "AtomicWriteVolumeUserFields",
    "CRIListStreaming",
    "EmptyDirVolumeMode",
    "GRPCContainerProbeTLS",
    "H2CContainerProbe",
];

/// The gates that stand for all alpha features and for all beta features.
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// The gates that a configuration sets.
type Set<'s> = Option<&'s BTreeMap<String, bool>>;

fn is_on_by_default(gate: &str) -> bool {
    [LOCKED_ON, ON, BETA_ON].iter().any(|gates| gates.contains(&gate))
}

fn is_alpha(gate: &str) -> bool {
    ALPHA.contains(&gate)
}

fn is_beta(gate: &str) -> bool {
    BETA_ON.contains(&gate) || BETA_OFF.contains(&gate)
}

fn known() -> impl Iterator<Item = &'static str> {
    [LOCKED_ON, ON, BETA_ON, BETA_OFF, ALPHA, OFF, LOCKED_OFF].into_iter().flatten().copied()
}

/// Whether `gate` is on: as it is set itself, otherwise as all gates of its stage are, otherwise by its default.
pub(super) fn enabled(gate: &str, set: Set<'_>) -> bool {
    let value = |name: &str| set.and_then(|set| set.get(name).copied());
    let of_stage = || match gate {
        _ if is_alpha(gate) => value(ALL_ALPHA),
        _ if is_beta(gate) => value(ALL_BETA),
        _ => None,
    };
    value(gate).or_else(of_stage).unwrap_or_else(|| is_on_by_default(gate))
}

/// Gates that do not exist, that are locked to another value, or that need gates which are off.
pub(super) fn breaches(set: Set<'_>) -> Vec<Breach> {
    let breach = |(gate, value): (&String, &bool)| {
        let path = format!("featureGates.{gate}");
        if FORMER.contains(&gate.as_str()) {
            return None;
        }
        if !known().any(|known| known == gate) {
            let hint = nearest(gate, known()).map(|near| format!(" (did you mean {near:?}?)"));
            return Some((path, format!("there is no such feature gate{}", hint.unwrap_or_default())));
        }
        let locked = match value {
            true => LOCKED_OFF.contains(&gate.as_str()),
            false => LOCKED_ON.contains(&gate.as_str()),
        };
        locked.then(|| (path, format!("cannot be set to {value}, the feature is locked to {}", !value)))
    };
    let of_gates = set.into_iter().flatten().filter_map(breach);
    of_gates.chain(DEPENDENCIES.iter().filter_map(|(gate, needs)| unmet(gate, needs, set))).collect()
}

/// The violation of a gate that is on while one that it needs is off.
fn unmet(gate: &str, needs: &[&str], set: Set<'_>) -> Option<Breach> {
    let off: Vec<&str> = needs.iter().copied().filter(|need| !enabled(need, set)).collect();
    let is_unmet = enabled(gate, set) && !off.is_empty();
    is_unmet.then(|| {
        let message = format!("is on, but needs {}; switch that on, or this off", off.join(" and "));
        (format!("featureGates.{gate}"), message)
    })
}

/// Gates in `set` that differ from their default and have no effect, or not the whole effect of their name.
pub(super) fn ignored(set: Set<'_>) -> Vec<Breach> {
    let breach = |(gate, value): (&String, &bool)| {
        Some((format!("featureGates.{gate}"), without_effect(gate, *value, set)?))
    };
    set.into_iter().flatten().filter_map(breach).collect()
}

fn without_effect(gate: &str, value: bool, set: Set<'_>) -> Option<String> {
    if FORMER.contains(&gate) {
        return Some("Kubernetes 1.37 no longer has this gate; setting it changes nothing".to_owned());
    }
    if gate == ALL_ALPHA || gate == ALL_BETA {
        return of_a_stage(gate, value, set);
    }
    if SERVED.contains(&gate) || is_on_by_default(gate) == value {
        return None;
    }
    // Nobody who switches on what hostlet has anyway misses something.
    (!ALWAYS_ON.contains(&gate))
        .then(|| "hostlet does not depend on this gate; setting it changes nothing".to_owned())
}

/// Which gates a gate for a whole stage changes.
fn of_a_stage(all: &str, value: bool, set: Set<'_>) -> Option<String> {
    let is_of_stage = |gate: &str| if all == ALL_ALPHA { is_alpha(gate) } else { is_beta(gate) };
    let is_changed = |gate: &str| {
        let is_set = set.is_some_and(|set| set.contains_key(gate));
        is_of_stage(gate) && !is_set && is_on_by_default(gate) != value
    };
    if !known().any(is_changed) {
        return None;
    }
    let changed: Vec<&str> = SERVED.iter().copied().filter(|gate| is_changed(gate)).collect();
    let switches = if value { "on" } else { "off" };
    Some(match changed.as_slice() {
        [] => "hostlet depends on none of the gates that this changes".to_owned(),
        changed => format!(
            "of the gates that hostlet depends on, this switches {switches} {}; the others change nothing",
            changed.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::gate_table::{DEPENDENCIES, FORMER, LOCKED_OFF};
    use super::{ALWAYS_ON, SERVED, breaches, enabled, ignored, known};

    fn set(gates: &[(&str, bool)]) -> BTreeMap<String, bool> {
        gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on)).collect()
    }

    #[test]
    fn every_gate_is_listed_once() {
        let all: Vec<&str> = known().chain(FORMER.iter().copied()).collect();
        let unique: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len());
        let needed = DEPENDENCIES.iter().flat_map(|(gate, needs)| needs.iter().chain([gate]));
        for gate in SERVED.iter().chain(ALWAYS_ON).chain(needed) {
            assert!(unique.contains(gate), "{gate}");
        }
        assert_eq!(breaches(None), []);
    }

    #[test]
    fn setting_a_gate_to_its_default_gives_no_warning() {
        let gates = set(&[("EventedPLEG", false), ("NodeSwap", true), ("CustomCPUCFSQuotaPeriod", false)]);
        assert_eq!((breaches(Some(&gates)), ignored(Some(&gates))), (Vec::new(), Vec::new()));
        assert!(!enabled("CustomCPUCFSQuotaPeriod", Some(&gates)));
        assert!(enabled("CustomCPUCFSQuotaPeriod", None));
        let gates = set(&[("EventedPLEG", true)]);
        assert_eq!(ignored(Some(&gates))[0].0, "featureGates.EventedPLEG");
    }

    #[test]
    fn a_locked_gate_cannot_be_changed_and_a_former_one_gives_a_warning() {
        assert!(LOCKED_OFF.contains(&"GitRepoVolumeDriver"));
        let broken = breaches(Some(&set(&[("GitRepoVolumeDriver", true)])));
        assert_eq!(broken[0].1, "cannot be set to true, the feature is locked to false");
        let broken = breaches(Some(&set(&[("ImageVolume", false)])));
        assert_eq!(broken[0].1, "cannot be set to false, the feature is locked to true");
        let former = set(&[("SidecarContainers", true)]);
        assert_eq!(breaches(Some(&former)), Vec::new());
        assert!(ignored(Some(&former))[0].1.contains("no longer has this gate"));
    }

    #[test]
    fn a_gate_of_a_stage_sets_what_is_not_set_itself() {
        let gates = set(&[("AllBeta", false), ("MemoryQoS", true)]);
        assert!(!enabled("GracefulNodeShutdown", Some(&gates)));
        assert!(enabled("MemoryQoS", Some(&gates)), "set itself");
        assert!(enabled("CustomCPUCFSQuotaPeriod", Some(&gates)), "no longer beta");
        assert!(enabled("ContainerStopSignals", Some(&set(&[("AllAlpha", true)]))));
        assert!(!enabled("ContainerStopSignals", Some(&set(&[("AllBeta", true)]))));
        assert_eq!(breaches(Some(&gates)), []);
        let [(path, message)] = ignored(Some(&gates)).try_into().unwrap();
        assert_eq!(path, "featureGates.AllBeta");
        assert!(message.contains("switches off") && message.contains("GracefulNodeShutdown,"), "{message}");
        assert!(!message.contains("MemoryQoS"), "{message}");
        assert_eq!(ignored(Some(&set(&[("AllAlpha", false)]))), [], "the default");
    }

    #[test]
    fn a_gate_needs_those_that_it_depends_on() {
        let needs = |gates: &[(&str, bool)]| -> Vec<(String, String)> { breaches(Some(&set(gates))) };
        let [(path, message)] = needs(&[("ContainerRestartRules", false)]).try_into().unwrap();
        assert_eq!(path, "featureGates.RestartAllContainersOnContainerExits");
        assert_eq!(message, "is on, but needs ContainerRestartRules; switch that on, or this off");
        let both = [("ContainerRestartRules", false), ("RestartAllContainersOnContainerExits", false)];
        assert_eq!(needs(&both), []);
        // Upstream's alpha gates need beta gates that are off by default.
        assert!(!needs(&[("AllAlpha", true)]).is_empty());
        assert_eq!(needs(&[("AllAlpha", true), ("AllBeta", true)]), []);
    }

    #[test]
    fn features_that_hostlet_always_has_may_be_switched_on() {
        for gate in ALWAYS_ON {
            assert_eq!(ignored(Some(&set(&[(gate, true)]))), [], "{gate}");
        }
    }
}
