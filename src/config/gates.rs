//! The feature gates of Kubernetes 1.36 that a kubelet knows, with their defaults. None of them changes what hostlet does
//! but those it names in `SERVED`.

use std::collections::BTreeMap;

use super::spelling;
use super::validate::Breach;

/// Gates whose value hostlet acts on.
const SERVED: &[&str] = &["CustomCPUCFSQuotaPeriod"];

/// Gates that are on and cannot be switched off.
const LOCKED_ON: &[&str] = &[
    "AnyVolumeDataSource",
    "AppArmor",
    "AppArmorFields",
    "AuthorizeNodeWithSelectors",
    "AuthorizeWithSelectors",
    "CPUManagerPolicyOptions",
    "ComponentSLIs",
    "DevicePluginCDIDevices",
    "DynamicResourceAllocation",
    "KubeletTracing",
    "LoadBalancerIPMode",
    "MemoryManager",
    "NodeSwap",
    "PodLifecycleSleepAction",
    "RecoverVolumeExpansionFailure",
    "RecursiveReadOnlyMounts",
    "RelaxedDNSSearchValidation",
    "RelaxedEnvironmentVariableValidation",
    "ServiceAccountTokenJTI",
    "ServiceAccountTokenNodeBinding",
    "ServiceAccountTokenNodeBindingValidation",
    "ServiceAccountTokenPodNodeInfo",
    "SidecarContainers",
    "SizeMemoryBackedVolumes",
    "TopologyAwareHints",
];

/// Gates that are on unless switched off.
const ON: &[&str] = &[
    "APIResponseCompression",
    "APIServerIdentity",
    "APIServerTracing",
    "AllowParsingUserUIDFromCertAuth",
    "AtomicFIFO",
    "CPUManagerPolicyBetaOptions",
    "ContainerCheckpoint",
    "ContainerRestartRules",
    "ContextualLogging",
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DisableCPUQuotaWithExclusiveCPUs",
    "DisableNodeKubeProxyVersion",
    "EnvFiles",
    "ExecProbeTimeout",
    "GracefulNodeShutdown",
    "GracefulNodeShutdownBasedOnPodPriority",
    "HostnameOverride",
    "ImageMaximumGCAge",
    "ImageVolume",
    "InOrderInformers",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "InformerResourceVersion",
    "KubeletCgroupDriverFromCRI",
    "KubeletCrashLoopBackOffMax",
    "KubeletEnsureSecretPulledImages",
    "KubeletFineGrainedAuthz",
    "KubeletPSI",
    "KubeletPodResourcesDynamicResources",
    "KubeletPodResourcesGet",
    "KubeletPodResourcesListUseActivePods",
    "KubeletSeparateDiskGC",
    "KubeletServiceAccountTokenForCredentialProviders",
    "LoggingBetaOptions",
    "MatchLabelKeysInPodTopologySpread",
    "MutableCSINodeAllocatableCount",
    "NodeDeclaredFeatures",
    "OpenAPIEnums",
    "PodCertificateRequest",
    "PodDeletionCost",
    "PodLevelResources",
    "PodLifecycleSleepActionAllowZero",
    "PodObservedGenerationTracking",
    "PodReadyToStartContainersCondition",
    "PodTopologyLabelsAdmission",
    "PortForwardWebsockets",
    "PreferSameTrafficDistribution",
    "PreventStaticPodAPIReferences",
    "ProcMountType",
    "ReloadKubeletServerCertificateFile",
    "ResourceHealthStatus",
    "RestartAllContainersOnContainerExits",
    "RotateKubeletServerCertificate",
    "SELinuxChangePolicy",
    "SELinuxMountReadWriteOncePod",
    "ServiceAccountNodeAudienceRestriction",
    "StorageVersionHash",
    "SupplementalGroupsPolicy",
    "SystemdWatchdog",
    "TopologyManagerPolicyBetaOptions",
    "TopologyManagerPolicyOptions",
    "TranslateStreamCloseWebsocketRequests",
    "UnauthenticatedHTTP2DOSMitigation",
    "UserNamespacesPodSecurityStandards",
    "UserNamespacesSupport",
    "VolumeAttributesClass",
    "WatchListClient",
];

/// Gates that are off unless switched on.
const OFF: &[&str] = &[
    "AllAlpha",
    "AllBeta",
    "CPUManagerPolicyAlphaOptions",
    "CRIListStreaming",
    "CSIServiceAccountTokenSecrets",
    "CSIVolumeHealth",
    "ChangeContainerStatusOnKubeletRestart",
    "ClientsAllowCBOR",
    "ClientsPreferCBOR",
    "ClusterTrustBundle",
    "ClusterTrustBundleProjection",
    "ComponentFlagz",
    "ComponentStatusz",
    "ContainerStopSignals",
    "CrossNamespaceVolumeDataSource",
    "CustomCPUCFSQuotaPeriod",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRANodeAllocatableResources",
    "DRAPartitionableDevices",
    "EventedPLEG",
    "GitRepoVolumeDriver",
    "HPAScaleToZero",
    "InPlacePodVerticalScalingAllocatedStatus",
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
    "InTreePluginPortworxUnregister",
    "KubeletInUserNamespace",
    "LegacySidecarContainers",
    "LocalStorageCapacityIsolationFSQuotaMonitoring",
    "LoggingAlphaOptions",
    "MaxUnavailableStatefulSet",
    "MemoryQoS",
    "NodeLogQuery",
    "PLEGOnDemandRelist",
    "PodAndContainerStatsFromCRI",
    "PodLevelResourceManagers",
    "PodLogsQuerySplitStreams",
    "QOSReserved",
    "ReduceDefaultCrashLoopBackOffDecay",
    "RuntimeClassInImageCriApi",
    "SELinuxMount",
    "StrictIPCIDRValidation",
    "TaintTolerationComparisonOperators",
    "TopologyManagerPolicyAlphaOptions",
    "UserNamespacesHostNetworkSupport",
    "WatchList",
    "WindowsCPUAndMemoryAffinity",
    "WindowsGracefulNodeShutdown",
];

/// What `gate` is unless it is set; none if there is no such gate.
fn default(gate: &str) -> Option<bool> {
    if ON.contains(&gate) || LOCKED_ON.contains(&gate) {
        Some(true)
    } else {
        OFF.contains(&gate).then_some(false)
    }
}

/// Whether `gate` is on.
pub(super) fn enabled(gate: &str, set: Option<&BTreeMap<String, bool>>) -> bool {
    set.and_then(|set| set.get(gate).copied()).or_else(|| default(gate)).unwrap_or_default()
}

/// Gates in `set` that do not exist, or cannot be what they are set to.
pub(super) fn breaches(set: Option<&BTreeMap<String, bool>>) -> Vec<Breach> {
    let breach = |(gate, value): (&String, &bool)| {
        let path = format!("featureGates.{gate}");
        if default(gate).is_none() {
            let known = [LOCKED_ON, ON, OFF].into_iter().flatten().copied();
            let hint = spelling::nearest(gate, known).map(|near| format!(" (did you mean {near:?}?)"));
            return Some((path, format!("there is no such feature gate{}", hint.unwrap_or_default())));
        }
        let locked = LOCKED_ON.contains(&gate.as_str()) && !value;
        locked.then(|| (path, "cannot be set to false, the feature is locked to true".to_owned()))
    };
    set.into_iter().flatten().filter_map(breach).collect()
}

/// Gates in `set` that are not what they are by default, and change nothing.
pub(super) fn ignored(set: Option<&BTreeMap<String, bool>>) -> Vec<Breach> {
    set.into_iter()
        .flatten()
        .filter(|(gate, value)| {
            !SERVED.contains(&gate.as_str()) && default(gate).is_some_and(|default| default != **value)
        })
        .map(|(gate, _)| {
            (
                format!("featureGates.{gate}"),
                "hostlet does not depend on this gate; setting it changes nothing".to_owned(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{LOCKED_ON, OFF, ON, SERVED, breaches, default, enabled, ignored};

    #[test]
    fn every_gate_is_listed_once_and_in_order() {
        let all: Vec<&str> = [LOCKED_ON, ON, OFF].into_iter().flatten().copied().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        for list in [LOCKED_ON, ON, OFF] {
            assert!(list.is_sorted());
        }
        assert!(SERVED.iter().all(|gate| default(gate).is_some()));
    }

    #[test]
    fn setting_a_gate_to_its_default_is_no_news() {
        let set = |gates: &[(&str, bool)]| -> BTreeMap<String, bool> {
            gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on)).collect()
        };
        let gates = set(&[("EventedPLEG", false), ("NodeSwap", true), ("CustomCPUCFSQuotaPeriod", true)]);
        assert_eq!((breaches(Some(&gates)), ignored(Some(&gates))), (Vec::new(), Vec::new()));
        assert!(enabled("CustomCPUCFSQuotaPeriod", Some(&gates)));
        assert!(!enabled("CustomCPUCFSQuotaPeriod", None));
        let gates = set(&[("EventedPLEG", true)]);
        assert_eq!(ignored(Some(&gates))[0].0, "featureGates.EventedPLEG");
    }
}
