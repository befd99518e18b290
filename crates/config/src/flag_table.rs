//! The table of the kubelet's flags other than process flags: which field each sets, or why it has no effect. No logic.

use super::flag_value::FlagKind::{
    self, Address, Bool, Gates, Headers, List, Map, MemoryReservations, Number, Taints, Text, Thresholds,
    VModule,
};

/// A flag that sets a field of KubeletConfiguration.
#[derive(Debug, PartialEq)]
pub(super) struct FieldFlag {
    /// Its name, without the dashes.
    pub(super) name: &'static str,
    /// The path of the field.
    pub(super) path: &'static str,
    /// How its text is parsed.
    pub(super) kind: FlagKind,
    /// Whether upstream deprecates the flag in favor of the file.
    pub(super) deprecated: bool,
}

/// A known flag that has no effect.
#[derive(Debug, PartialEq)]
pub(super) struct IdleFlag {
    /// Its name, without the dashes.
    pub(super) name: &'static str,
    /// Its default upstream, which may be given without a warning.
    pub(super) default: &'static str,
    /// Whether it may be given without a value.
    pub(super) bool: bool,
    /// Why it has no effect.
    pub(super) why: &'static str,
}

const fn current(name: &'static str, path: &'static str, kind: FlagKind) -> FieldFlag {
    FieldFlag { name, path, kind, deprecated: false }
}

const fn deprecated(name: &'static str, path: &'static str, kind: FlagKind) -> FieldFlag {
    FieldFlag { name, path, kind, deprecated: true }
}

const fn idle(name: &'static str, default: &'static str, why: &'static str) -> IdleFlag {
    IdleFlag { name, default, bool: false, why }
}

const fn idle_bool(name: &'static str, default: &'static str, why: &'static str) -> IdleFlag {
    IdleFlag { name, default, bool: true, why }
}

const NO_CADVISOR: &str = "hostlet does not embed cAdvisor";
/// Upstream's workers keep as many dead containers as the flag says of pods that exist, at least one, whatever their age; the age delays only
/// the removal of others.
const DEAD_BY_AGE: &str = "hostlet keeps the newest dead instance of each container as long as its pod exists, and removes others at once; an \
                           eviction removes those of terminated pods first";
const DEAD_BY_CONTAINER: &str = "hostlet keeps the newest dead instance of each container, by which it knows restarts and their back-off, and no other";
const DEAD_IN_ALL: &str = "hostlet keeps one dead instance of each container, and limits their number over all pods no further: evictions \
                           remove those of terminated pods when the disk needs it";

/// Flags that set a field.
pub(super) const FIELD_FLAGS: &[FieldFlag] = &[
    current("v", "logging.verbosity", Number),
    current("logging-format", "logging.format", Text),
    current("log-flush-frequency", "logging.flushFrequency", Text),
    current("log-text-split-stream", "logging.options.text.splitStream", Bool),
    current("log-text-info-buffer-size", "logging.options.text.infoBufferSize", Text),
    current("log-json-split-stream", "logging.options.json.splitStream", Bool),
    current("log-json-info-buffer-size", "logging.options.json.infoBufferSize", Text),
    current("vmodule", "logging.vmodule", VModule),
    deprecated("address", "address", Address),
    deprecated("allowed-unsafe-sysctls", "allowedUnsafeSysctls", List),
    deprecated("anonymous-auth", "authentication.anonymous.enabled", Bool),
    deprecated("authentication-token-webhook", "authentication.webhook.enabled", Bool),
    deprecated("authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", Text),
    deprecated("authorization-mode", "authorization.mode", Text),
    deprecated(
        "authorization-webhook-cache-authorized-ttl",
        "authorization.webhook.cacheAuthorizedTTL",
        Text,
    ),
    deprecated(
        "authorization-webhook-cache-unauthorized-ttl",
        "authorization.webhook.cacheUnauthorizedTTL",
        Text,
    ),
    deprecated("cgroup-driver", "cgroupDriver", Text),
    deprecated("cgroup-root", "cgroupRoot", Text),
    deprecated("cgroups-per-qos", "cgroupsPerQOS", Bool),
    deprecated("client-ca-file", "authentication.x509.clientCAFile", Text),
    deprecated("cluster-dns", "clusterDNS", List),
    deprecated("cluster-domain", "clusterDomain", Text),
    deprecated("container-log-max-files", "containerLogMaxFiles", Number),
    deprecated("container-log-max-size", "containerLogMaxSize", Text),
    deprecated("container-runtime-endpoint", "containerRuntimeEndpoint", Text),
    deprecated("contention-profiling", "enableContentionProfiling", Bool),
    deprecated("cpu-cfs-quota", "cpuCFSQuota", Bool),
    deprecated("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", Text),
    deprecated("cpu-manager-policy", "cpuManagerPolicy", Text),
    deprecated("cpu-manager-policy-options", "cpuManagerPolicyOptions", Map),
    deprecated("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", Text),
    deprecated("enable-controller-attach-detach", "enableControllerAttachDetach", Bool),
    deprecated("enable-debugging-handlers", "enableDebuggingHandlers", Bool),
    deprecated("enable-server", "enableServer", Bool),
    deprecated("enforce-node-allocatable", "enforceNodeAllocatable", List),
    deprecated("event-burst", "eventBurst", Number),
    deprecated("event-qps", "eventRecordQPS", Number),
    deprecated("eviction-hard", "evictionHard", Thresholds),
    deprecated("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", Number),
    deprecated("eviction-minimum-reclaim", "evictionMinimumReclaim", Map),
    deprecated("eviction-pressure-transition-period", "evictionPressureTransitionPeriod", Text),
    deprecated("eviction-soft", "evictionSoft", Thresholds),
    deprecated("eviction-soft-grace-period", "evictionSoftGracePeriod", Map),
    deprecated("fail-cgroupv1", "failCgroupV1", Bool),
    deprecated("fail-swap-on", "failSwapOn", Bool),
    deprecated("feature-gates", "featureGates", Gates),
    deprecated("file-check-frequency", "fileCheckFrequency", Text),
    deprecated("hairpin-mode", "hairpinMode", Text),
    deprecated("healthz-bind-address", "healthzBindAddress", Address),
    deprecated("healthz-port", "healthzPort", Number),
    deprecated("http-check-frequency", "httpCheckFrequency", Text),
    deprecated("image-gc-high-threshold", "imageGCHighThresholdPercent", Number),
    deprecated("image-gc-low-threshold", "imageGCLowThresholdPercent", Number),
    deprecated("image-service-endpoint", "imageServiceEndpoint", Text),
    deprecated("kernel-memcg-notification", "kernelMemcgNotification", Bool),
    deprecated("kube-api-burst", "kubeAPIBurst", Number),
    deprecated("kube-api-content-type", "contentType", Text),
    deprecated("kube-api-qps", "kubeAPIQPS", Number),
    deprecated("kube-reserved", "kubeReserved", Map),
    deprecated("kube-reserved-cgroup", "kubeReservedCgroup", Text),
    deprecated("kubelet-cgroups", "kubeletCgroups", Text),
    deprecated("local-storage-capacity-isolation", "localStorageCapacityIsolation", Bool),
    deprecated("make-iptables-util-chains", "makeIPTablesUtilChains", Bool),
    deprecated("manifest-url", "staticPodURL", Text),
    deprecated("manifest-url-header", "staticPodURLHeader", Headers),
    deprecated("max-open-files", "maxOpenFiles", Number),
    deprecated("max-pods", "maxPods", Number),
    deprecated("memory-manager-policy", "memoryManagerPolicy", Text),
    deprecated("minimum-image-ttl-duration", "imageMinimumGCAge", Text),
    deprecated("node-status-max-images", "nodeStatusMaxImages", Number),
    deprecated("node-status-update-frequency", "nodeStatusUpdateFrequency", Text),
    deprecated("oom-score-adj", "oomScoreAdj", Number),
    deprecated("pod-cidr", "podCIDR", Text),
    deprecated("pod-manifest-path", "staticPodPath", Text),
    deprecated("pod-max-pids", "podPidsLimit", Number),
    deprecated("pods-per-core", "podsPerCore", Number),
    deprecated("port", "port", Number),
    deprecated("protect-kernel-defaults", "protectKernelDefaults", Bool),
    deprecated("provider-id", "providerID", Text),
    deprecated("qos-reserved", "qosReserved", Map),
    deprecated("read-only-port", "readOnlyPort", Number),
    deprecated("register-node", "registerNode", Bool),
    deprecated("register-with-taints", "registerWithTaints", Taints),
    deprecated("registry-burst", "registryBurst", Number),
    deprecated("registry-qps", "registryPullQPS", Number),
    deprecated("reserved-cpus", "reservedSystemCPUs", Text),
    deprecated("reserved-memory", "reservedMemory", MemoryReservations),
    deprecated("resolv-conf", "resolvConf", Text),
    deprecated("rotate-certificates", "rotateCertificates", Bool),
    deprecated("rotate-server-certificates", "serverTLSBootstrap", Bool),
    deprecated("runonce", "runOnce", Bool),
    deprecated("runtime-request-timeout", "runtimeRequestTimeout", Text),
    deprecated("seccomp-default", "seccompDefault", Bool),
    deprecated("serialize-image-pulls", "serializeImagePulls", Bool),
    deprecated("show-hidden-metrics-for-version", "showHiddenMetricsForVersion", Text),
    deprecated("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", Text),
    deprecated("sync-frequency", "syncFrequency", Text),
    deprecated("system-cgroups", "systemCgroups", Text),
    deprecated("system-reserved", "systemReserved", Map),
    deprecated("system-reserved-cgroup", "systemReservedCgroup", Text),
    deprecated("tls-cert-file", "tlsCertFile", Text),
    deprecated("tls-cipher-suites", "tlsCipherSuites", List),
    deprecated("tls-min-version", "tlsMinVersion", Text),
    deprecated("tls-private-key-file", "tlsPrivateKeyFile", Text),
    deprecated("topology-manager-policy", "topologyManagerPolicy", Text),
    deprecated("topology-manager-policy-options", "topologyManagerPolicyOptions", Map),
    deprecated("topology-manager-scope", "topologyManagerScope", Text),
    deprecated("volume-plugin-dir", "volumePluginDir", Text),
    deprecated("volume-stats-agg-period", "volumeStatsAggPeriod", Text),
];

/// Flags that have no effect.
pub(super) const IDLE_FLAGS: &[IdleFlag] = &[
    // Removed upstream in 1.35, but older versions of kubeadm left it in kubeadm-flags.env.
    idle("pod-infra-container-image", "", "the container runtime chooses the image of sandboxes"),
    idle("minimum-container-ttl-duration", "0s", DEAD_BY_AGE),
    idle("maximum-dead-containers-per-container", "1", DEAD_BY_CONTAINER),
    idle("maximum-dead-containers", "-1", DEAD_IN_ALL),
    idle("experimental-mounter-path", "", "hostlet mounts volumes itself"),
    idle("application-metrics-count-limit", "100", NO_CADVISOR),
    idle("boot-id-file", "/proc/sys/kernel/random/boot_id", NO_CADVISOR),
    idle("container-hints", "/etc/cadvisor/container_hints.json", NO_CADVISOR),
    idle("containerd", "/run/containerd/containerd.sock", NO_CADVISOR),
    idle("containerd-namespace", "k8s.io", NO_CADVISOR),
    idle_bool("enable-load-reader", "false", NO_CADVISOR),
    idle("event-storage-age-limit", "default=0", NO_CADVISOR),
    idle("event-storage-event-limit", "default=0", NO_CADVISOR),
    idle("global-housekeeping-interval", "1m0s", NO_CADVISOR),
    idle("housekeeping-interval", "10s", NO_CADVISOR),
    idle_bool("log-cadvisor-usage", "false", NO_CADVISOR),
    idle("machine-id-file", "/etc/machine-id,/var/lib/dbus/machine-id", NO_CADVISOR),
    idle("storage-driver-buffer-duration", "1m0s", NO_CADVISOR),
    idle("storage-driver-db", "cadvisor", NO_CADVISOR),
    idle("storage-driver-host", "localhost:8086", NO_CADVISOR),
    idle("storage-driver-password", "root", NO_CADVISOR),
    idle_bool("storage-driver-secure", "false", NO_CADVISOR),
    idle("storage-driver-table", "stats", NO_CADVISOR),
    idle("storage-driver-user", "root", NO_CADVISOR),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FIELD_FLAGS, IDLE_FLAGS};
    use crate::served::FIELDS;

    #[test]
    fn each_flag_is_listed_once_and_sets_a_known_field() {
        let names = FIELD_FLAGS.iter().map(|flag| flag.name).chain(IDLE_FLAGS.iter().map(|flag| flag.name));
        let unique: BTreeSet<&str> = names.clone().collect();
        assert_eq!(unique.len(), names.count());
        for flag in FIELD_FLAGS {
            assert!(FIELDS.iter().any(|(path, _)| *path == flag.path), "{}", flag.path);
        }
    }
}
