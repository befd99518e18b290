//! The table of supported and unsupported fields of KubeletConfiguration. Every field is listed exactly once, which a test
//! checks.

/// The support of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// It is supported.
    Served,
    /// Setting it has no effect, which gives a warning.
    Ignored(&'static str),
    /// Setting it is an error: ignoring it would be unsafe, or break a promise to workloads.
    Rejected(&'static str),
}

use Support::{Ignored, Rejected, Served};

const NO_METRICS: Support = Ignored("hostlet has no hidden metrics, so this has no effect");
const NO_EFFECT: Support = Ignored("this has no effect with container runtimes that are reached over CRI");

/// Every field that is not an object with known fields, by path.
pub(super) const FIELDS: &[(&str, Support)] = &[
    ("apiVersion", Served),
    ("kind", Served),
    // Sources of pods.
    ("staticPodPath", Served),
    ("staticPodURL", Served),
    ("staticPodURLHeader", Served),
    ("syncFrequency", Served),
    ("fileCheckFrequency", Served),
    ("httpCheckFrequency", Served),
    // The kubelet's server.
    ("enableServer", Served),
    ("address", Served),
    ("port", Served),
    ("readOnlyPort", Served),
    ("healthzPort", Served),
    ("healthzBindAddress", Served),
    ("tlsCertFile", Served),
    ("tlsPrivateKeyFile", Served),
    ("tlsCipherSuites", Served),
    ("tlsCurvePreferences", Served),
    ("tlsMinVersion", Served),
    ("serverTLSBootstrap", Served),
    ("authentication.x509.clientCAFile", Served),
    ("authentication.webhook.enabled", Served),
    ("authentication.webhook.cacheTTL", Served),
    ("authentication.anonymous.enabled", Served),
    ("authorization.mode", Served),
    ("authorization.webhook.cacheAuthorizedTTL", Served),
    ("authorization.webhook.cacheUnauthorizedTTL", Served),
    ("enableDebuggingHandlers", Served),
    ("enableContentionProfiling", Ignored("hostlet has no Go runtime to profile, so this has no effect")),
    ("enableProfilingHandler", Served),
    ("enableDebugFlagsHandler", Served),
    ("enableSystemLogHandler", Served),
    ("enableSystemLogQuery", Served),
    ("streamingConnectionIdleTimeout", Served),
    ("showHiddenMetricsForVersion", NO_METRICS),
    ("tracing.endpoint", Served),
    ("tracing.samplingRatePerMillion", Served),
    // The API server.
    ("rotateCertificates", Served),
    ("eventRecordQPS", Served),
    ("eventBurst", Served),
    ("nodeStatusUpdateFrequency", Served),
    ("nodeStatusReportFrequency", Served),
    ("nodeLeaseDurationSeconds", Served),
    ("nodeStatusMaxImages", Served),
    ("contentType", Ignored("hostlet uses JSON with the API server, so this has no effect")),
    ("kubeAPIQPS", Served),
    ("kubeAPIBurst", Served),
    (
        "configMapAndSecretChangeDetectionStrategy",
        Ignored("hostlet always watches what pods refer to, so this has no effect"),
    ),
    ("enableControllerAttachDetach", Served),
    ("providerID", Served),
    ("registerNode", Served),
    ("registerWithTaints", Served),
    // The runtime and its images.
    ("containerRuntimeEndpoint", Served),
    ("imageServiceEndpoint", Served),
    ("runtimeRequestTimeout", Served),
    ("registryPullQPS", Served),
    ("registryBurst", Served),
    ("serializeImagePulls", Served),
    ("maxParallelImagePulls", Served),
    ("imagePullCredentialsVerificationPolicy", Served),
    ("preloadedImagesVerificationAllowlist", Served),
    ("imageMinimumGCAge", Served),
    ("imageMaximumGCAge", Served),
    ("imageGCHighThresholdPercent", Served),
    ("imageGCLowThresholdPercent", Served),
    ("crashLoopBackOff.maxContainerRestartPeriod", Served),
    // The network of pods.
    ("clusterDomain", Served),
    ("clusterDNS", Served),
    ("resolvConf", Served),
    ("hairpinMode", NO_EFFECT),
    ("podCIDR", Served),
    ("makeIPTablesUtilChains", Served),
    ("iptablesMasqueradeBit", NO_EFFECT),
    ("iptablesDropBit", NO_EFFECT),
    // The resources of pods.
    ("cgroupRoot", Served),
    ("cgroupsPerQOS", Served),
    ("cgroupDriver", Served),
    ("cpuCFSQuota", Served),
    ("cpuCFSQuotaPeriod", Served),
    ("podPidsLimit", Served),
    ("singleProcessOOMKill", Served),
    ("maxPods", Served),
    ("podsPerCore", Served),
    ("cpuManagerPolicy", Served),
    ("cpuManagerPolicyOptions", Served),
    ("cpuManagerReconcilePeriod", Served),
    ("memoryManagerPolicy", Served),
    ("topologyManagerPolicy", Served),
    ("topologyManagerScope", Served),
    ("topologyManagerPolicyOptions", Served),
    ("reservedMemory", Served),
    ("qosReserved", Served),
    ("systemReserved", Served),
    ("kubeReserved", Served),
    ("reservedSystemCPUs", Served),
    ("systemReservedCgroup", Served),
    ("kubeReservedCgroup", Served),
    ("enforceNodeAllocatable", Served),
    ("kubeletCgroups", Served),
    ("systemCgroups", Served),
    ("memoryThrottlingFactor", Served),
    ("memoryReservationPolicy", Served),
    ("memorySwap.swapBehavior", Served),
    ("failSwapOn", Served),
    ("failCgroupV1", Served),
    // Eviction and disks.
    ("evictionHard", Served),
    ("evictionSoft", Served),
    ("evictionSoftGracePeriod", Served),
    ("evictionPressureTransitionPeriod", Served),
    ("evictionMaxPodGracePeriod", Served),
    ("evictionMinimumReclaim", Served),
    ("mergeDefaultEvictionSettings", Served),
    ("kernelMemcgNotification", Served),
    ("localStorageCapacityIsolation", Served),
    ("volumeStatsAggPeriod", Served),
    ("volumePluginDir", Ignored("hostlet does not run volume plugins yet, so this has no effect")),
    // Logs.
    ("podLogsDir", Served),
    ("containerLogMaxSize", Served),
    ("containerLogMaxFiles", Served),
    ("containerLogMaxWorkers", Served),
    ("containerLogMonitorInterval", Served),
    ("logging.format", Served),
    ("logging.verbosity", Served),
    ("logging.flushFrequency", Ignored("hostlet writes each log line at once")),
    ("logging.vmodule", Ignored("hostlet does not support verbosity by source file")),
    ("logging.options.text.splitStream", Ignored("hostlet logs to one stream")),
    ("logging.options.text.infoBufferSize", Ignored("hostlet writes each log line at once")),
    ("logging.options.json.splitStream", Ignored("hostlet logs to one stream")),
    ("logging.options.json.infoBufferSize", Ignored("hostlet writes each log line at once")),
    // The daemon and the host.
    ("oomScoreAdj", Served),
    ("maxOpenFiles", Served),
    ("runOnce", Served),
    ("featureGates", Served),
    ("seccompDefault", Served),
    ("allowedUnsafeSysctls", Served),
    (
        "defaultPodSysctls",
        Rejected(
            "hostlet sets only the sysctls that a pod names itself; name them in securityContext.sysctls",
        ),
    ),
    ("protectKernelDefaults", Served),
    ("userNamespaces.idsPerPod", Served),
    ("shutdownGracePeriod", Served),
    ("shutdownGracePeriodCriticalPods", Served),
    ("shutdownGracePeriodByPodPriority", Served),
];

/// Fields of objects in lists.
const ITEM_FIELDS: &[&str] = &[
    "logging.vmodule[].filePattern",
    "logging.vmodule[].verbosity",
    "registerWithTaints[].effect",
    "registerWithTaints[].key",
    "registerWithTaints[].value",
    "reservedMemory[].limits",
    "reservedMemory[].numaNode",
    "shutdownGracePeriodByPodPriority[].priority",
    "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
];

/// The paths of all fields, with empty brackets for list items.
pub(super) fn all_paths() -> Vec<&'static str> {
    FIELDS.iter().map(|(path, _)| *path).chain(ITEM_FIELDS.iter().copied()).collect()
}

/// Whether the field at `path` is an object with known fields.
pub(super) fn is_object(path: &str) -> bool {
    FIELDS.iter().any(|(field, _)| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}
