//! The daemon's settings: the supported part of the configuration, in the types of its users. Built from a defaulted and
//! validated configuration; reads nothing itself.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::settings::{
    CredentialProviders, EnforcedReservation, EvictionSettings, GracefulShutdown, ImageGcPolicy,
    ImageVerification, LogLimits,
};
use hostlet_base::{CgroupDriver, MemoryQos};
use hostlet_telemetry::{Collector, LogFormat, TraceSettings};

use super::eviction::eviction;
use super::flags::ProcessFlags;
use super::gates;
use super::hostlet::HostletConfiguration;
use super::log_limits::log_limits;
use super::node::{self, Node};
use super::node_api::NodeApi;
use super::numa::Numa;
use super::reservations;
use super::static_pod_url::{StaticPodUrl, parse_headers, parse_url};
use super::values::{count, path, socket_path, time};
use super::wire::{self, KubeletConfiguration};

/// The default of `userNamespaces.idsPerPod`.
const IDS_PER_POD: u32 = 65_536;

/// The daemon's settings. Names in parentheses are fields of KubeletConfiguration, or flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the node: the host name in lower case, unless overridden (`--hostname-override`).
    pub node_name: String,
    /// Configured addresses of the node, primary first; at most one per family (`--node-ip`).
    pub node_ips: Vec<IpAddr>,
    /// The cluster to join; `None` for a standalone node.
    pub cluster: Option<ClusterConfig>,
    /// Address of the health endpoint; `None` if it is off (`healthzBindAddress`, `healthzPort`).
    pub healthz: Option<SocketAddr>,
    /// The node's API.
    pub node_api: NodeApi,
    /// Settings of the Node object.
    pub node: Node,
    /// Directory of the daemon's files (`--root-dir`).
    pub root_dir: PathBuf,
    /// Whether the Pods API is served (the feature gate `PodsAPI`).
    pub pods_api: bool,
    /// File that the daemon locks while it runs (`--lock-file`).
    pub lock_file: Option<PathBuf>,
    /// The daemon's control socket (`socket` of HostletConfiguration).
    pub socket: PathBuf,
    /// Whether a first start takes over the pods that are in the runtime (`adoptForeignPods` of HostletConfiguration,
    /// `--adopt-foreign-pods`).
    pub adopt_foreign_pods: bool,
    /// How many sandboxes and containers may start at the same time (`maxConcurrentStarts` of HostletConfiguration).
    pub max_concurrent_starts: NonZeroUsize,
    /// Directory of image archives to import (`imagePreloadDir` of HostletConfiguration).
    pub image_preload_dir: Option<PathBuf>,
    /// Whether the Node has conditions that follow from the kernel's log (`kernelConditions` of HostletConfiguration).
    pub kernel_conditions: bool,
    /// Sources of pods.
    pub sources: Sources,
    /// The container runtime.
    pub runtime: Runtime,
    /// How images are pulled.
    pub pulls: ImagePulls,
    /// When unused images are removed.
    pub image_gc: ImageGcPolicy,
    /// Settings of cgroups.
    pub cgroups: Cgroups,
    /// What single pods can have of CPUs, memory and NUMA nodes.
    pub numa: Numa,
    /// DNS settings of pods.
    pub dns: Dns,
    /// When pods are evicted because the node runs out of a resource.
    pub eviction: EvictionSettings,
    /// Limits and defaults of pods.
    pub pods: PodDefaults,
    /// How pods are terminated when the host shuts down.
    pub shutdown: GracefulShutdown,
    /// Requirements on the host, and settings of the daemon's process.
    pub host: HostRules,
    /// The daemon's logging.
    pub logging: Logging,
    /// Traces of the work on pods; `None` if none is recorded (`tracing`).
    pub traces: Option<TraceSettings>,
}

/// A cluster to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Kubeconfig with the API server and credentials (`--kubeconfig`).
    pub kubeconfig: PathBuf,
    /// Kubeconfig to request a client certificate with (`--bootstrap-kubeconfig`).
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Directory of certificates (`--cert-dir`).
    pub cert_dir: PathBuf,
    /// Whether the client certificate is renewed (`rotateCertificates`).
    pub rotate_certificates: bool,
    /// Rate limit of requests per second, and burst (`kubeAPIQPS`, `kubeAPIBurst`).
    pub requests: (NonZeroU32, NonZeroU32),
    /// The same for events; `None` for no limit (`eventRecordQPS`, `eventBurst`).
    pub events: Option<(NonZeroU32, NonZeroU32)>,
    /// Whether the ConfigMaps, Secrets and tokens of admitted pods are stored on this host, encrypted, so that pods start with them while
    /// the API server is away (`offlineObjects` of HostletConfiguration).
    pub offline_objects: bool,
    /// Whether devices that DRA drivers report to this node are published in ResourceSlices (`publishResourceSlices` of
    /// HostletConfiguration).
    pub publish_resource_slices: bool,
    /// Which of the newer sources of projected volumes pods may use.
    pub projections: Projections,
}

/// The sources of projected volumes that feature gates switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projections {
    /// Whether trust anchors of ClusterTrustBundles (`ClusterTrustBundleProjection`).
    pub trust_bundles: bool,
    /// Whether certificates (`PodCertificateRequest`).
    pub pod_certificates: bool,
}

/// Sources of pods, and how often they are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Directory of manifests, or one manifest; `None` for no static pods (`staticPodPath`).
    pub static_pod_path: Option<PathBuf>,
    /// How often manifests are checked without a notification (`fileCheckFrequency`).
    pub file_check_frequency: Duration,
    /// A URL that serves static pods, too.
    pub static_pod_url: Option<StaticPodUrl>,
    /// How often it is fetched (`httpCheckFrequency`).
    pub http_check_frequency: Duration,
    /// How often a running pod is synced without an event (`syncFrequency`).
    pub sync_frequency: Duration,
}

/// The container runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Socket of its runtime service (`containerRuntimeEndpoint`).
    pub runtime_socket: PathBuf,
    /// Socket of its image service (`imageServiceEndpoint`).
    pub image_socket: PathBuf,
    /// Timeout of calls, except long-running ones (`runtimeRequestTimeout`).
    pub request_timeout: Duration,
    /// The cgroup whose use is reported as the runtime's (`--runtime-cgroups`).
    pub cgroup: Option<String>,
    /// The ranges of the pods' addresses until the Node has any (`podCIDR`).
    pub pod_cidr: Option<String>,
}

/// How images are pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePulls {
    /// Rate limit of pulls per second; `None` for no limit (`registryPullQPS`).
    pub per_second: Option<NonZeroU32>,
    /// Burst of pulls (`registryBurst`).
    pub burst: u32,
    /// How many may run in parallel (`serializeImagePulls`, `maxParallelImagePulls`).
    pub parallel: ParallelPulls,
    /// Which present images pods need credentials for (`imagePullCredentialsVerificationPolicy`).
    pub verification: ImageVerification,
    /// Credential provider plugins; `None` without any (`--image-credential-provider-config`).
    pub credential_providers: Option<CredentialProviders>,
}

/// How many images may be pulled in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParallelPulls {
    /// One after the other.
    Serial,
    /// This many.
    AtMost(NonZeroUsize),
    /// Any number.
    Unlimited,
}

/// Settings of cgroups.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroups {
    /// The driver if the runtime does not report one (`cgroupDriver`).
    pub driver: CgroupDriver,
    /// The parent of `kubepods`; empty for the root (`cgroupRoot`).
    pub root: String,
    /// Whether pods get cgroups by QoS class (`cgroupsPerQOS`).
    pub per_qos: bool,
    /// Whether all pods together are limited to the unreserved resources (`enforceNodeAllocatable: [pods]`).
    pub limit_all_pods: bool,
    /// The reservations that are the limits of the daemons' cgroups (`enforceNodeAllocatable: [system-reserved, kube-reserved]`).
    pub enforced_reservations: Vec<EnforcedReservation>,
    /// The percentage of the memory requests of better QoS classes that worse ones cannot use (`qosReserved`); `None` without the
    /// feature gate `QOSReserved`.
    pub reserved_memory_percent: Option<u8>,
    /// Limit of processes per pod (`podPidsLimit`).
    pub pids_limit: Option<i64>,
    /// Whether CPU limits are enforced by CFS quotas (`cpuCFSQuota`).
    pub cfs_quota: bool,
    /// Period of the CFS quotas (`cpuCFSQuotaPeriod`).
    pub cfs_period: Duration,
    /// Whether the OOM killer kills one process instead of the whole container; by default, one process on cgroup v1 and all on
    /// v2 (`singleProcessOOMKill`).
    pub single_process_oom_kill: Option<bool>,
    /// Protection and throttling of memory on cgroup v2 (`memoryReservationPolicy`, `memoryThrottlingFactor`); `None` without the
    /// feature gate `MemoryQoS`.
    pub memory_qos: Option<MemoryQos>,
    /// Whether burstable containers may swap (`memorySwap.swapBehavior: LimitedSwap`).
    pub limited_swap: bool,
    /// The daemon's own cgroup; `None` for the one it was started in (`kubeletCgroups`).
    pub kubelet: Option<String>,
    /// The cgroup of processes that are in none (`systemCgroups`).
    pub system: Option<String>,
}

/// DNS settings of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// DNS domain of the cluster; empty for none (`clusterDomain`).
    pub cluster_domain: String,
    /// Addresses of the cluster's DNS service (`clusterDNS`).
    pub cluster_dns: Vec<IpAddr>,
    /// The file on which the `resolv.conf` of pods is based; `None` for an empty base (`resolvConf`).
    pub resolv_conf: Option<PathBuf>,
}

/// Limits and defaults of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDefaults {
    /// How many pods may run (`maxPods`).
    pub max_pods: usize,
    /// How many pods per CPU; 0 for no such limit (`podsPerCore`).
    pub pods_per_core: usize,
    /// Root of the pods' log directories (`podLogsDir`).
    pub logs_dir: PathBuf,
    /// Whether readers of logs may ask for one stream (the feature gate `PodLogsQuerySplitStreams`).
    pub split_log_streams: bool,
    /// When logs are rotated; `None` for never.
    pub log_limits: Option<LogLimits>,
    /// Maximum back-off of a crashing container (`crashLoopBackOff.maxContainerRestartPeriod`).
    pub max_restart_wait: Duration,
    /// Whether containers without a seccomp profile get the runtime's default (`seccompDefault`).
    pub seccomp_default: bool,
    /// Permitted unsafe sysctls: names, or prefixes followed by `*` (`allowedUnsafeSysctls`).
    pub allowed_unsafe_sysctls: Vec<String>,
    /// How many IDs the user namespace of a pod has (`userNamespaces.idsPerPod`).
    pub ids_per_pod: u32,
    /// Whether containers are stopped with the signals of their specs, and their signals are reported (the feature gate
    /// `ContainerStopSignals`).
    pub stop_signals: bool,
    /// Whether the images of image volumes are reported (the feature gate `ImageVolumeWithDigest`).
    pub report_image_volumes: bool,
    /// How often volumes are measured while somebody asks; `None` if never (`volumeStatsAggPeriod`).
    pub volume_stats_period: Option<Duration>,
}

impl PodDefaults {
    /// How many pods may run on a host with this many CPUs.
    pub fn most_pods(&self, cpus: usize) -> usize {
        match self.pods_per_core {
            0 => self.max_pods,
            each => self.max_pods.min(cpus.saturating_mul(each)),
        }
    }
}

/// Requirements on the host, and settings of the daemon's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRules {
    /// Whether to fail on a host with active swap (`failSwapOn`).
    pub fail_swap_on: bool,
    /// Whether to fail on a host with cgroup v1 (`failCgroupV1`).
    pub fail_cgroup_v1: bool,
    /// Whether kernel settings that are not as expected are an error instead of being set (`protectKernelDefaults`).
    pub protect_kernel_defaults: bool,
    /// Whether the iptables chains that others expect of a kubelet are made (`makeIPTablesUtilChains`).
    pub iptables_chains: bool,
    /// OOM score adjustment of the daemon (`oomScoreAdj`).
    pub oom_score_adj: i32,
    /// Limit of the daemon's open files (`maxOpenFiles`).
    pub max_open_files: u64,
}

/// The daemon's logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The format of a line (`logging.format`).
    pub format: LogFormat,
    /// Verbosity: 0 is for operators, above 4 for debugging (`logging.verbosity`).
    pub verbosity: u32,
}

/// The name of the node, by upstream's rule: the override if set, otherwise `hostname`, in lower case.
fn node_name(hostname: &str, name_override: Option<&str>) -> String {
    name_override.filter(|name| !name.is_empty()).unwrap_or(hostname).trim().to_lowercase()
}

impl Config {
    /// Extracts the settings from a complete and valid configuration. A missing value counts as zero.
    pub(super) fn new(
        kubelet: &KubeletConfiguration,
        hostlet: &HostletConfiguration,
        flags: &ProcessFlags,
        providers: Option<CredentialProviders>,
        hostname: &str,
    ) -> Self {
        Self {
            node_name: node_name(hostname, flags.hostname_override.as_deref()),
            node_ips: node::ips(&flags.node_ip).0.unwrap_or_default(),
            cluster: flags.kubeconfig.as_ref().map(|kubeconfig| ClusterConfig {
                kubeconfig: kubeconfig.clone(),
                bootstrap_kubeconfig: flags.bootstrap_kubeconfig.clone(),
                cert_dir: flags.cert_dir.clone(),
                rotate_certificates: kubelet.rotate_certificates.unwrap_or_default(),
                requests: request_rate(kubelet),
                events: event_rate(kubelet),
                offline_objects: hostlet.offline_objects.unwrap_or_default(),
                publish_resource_slices: hostlet.publish_resource_slices.unwrap_or_default(),
                projections: Projections {
                    trust_bundles: gates::enabled(gates::TRUST_BUNDLES, kubelet.feature_gates.as_ref()),
                    pod_certificates: gates::enabled(gates::POD_CERTIFICATES, kubelet.feature_gates.as_ref()),
                },
            }),
            healthz: healthz(kubelet),
            node_api: NodeApi::new(kubelet, hostlet, flags),
            node: Node::new(kubelet, flags),
            eviction: eviction(kubelet, hostlet, flags),
            root_dir: flags.root_dir.clone(),
            pods_api: gates::enabled(gates::PODS_API, kubelet.feature_gates.as_ref()),
            lock_file: flags.lock_file.clone(),
            socket: hostlet.socket.clone().map(PathBuf::from).unwrap_or_default(),
            adopt_foreign_pods: flags.adopt_foreign_pods.or(hostlet.adopt_foreign_pods).unwrap_or_default(),
            max_concurrent_starts: hostlet.max_concurrent_starts.unwrap_or(NonZeroUsize::MIN),
            image_preload_dir: path(&hostlet.image_preload_dir),
            kernel_conditions: hostlet.kernel_conditions.unwrap_or_default(),
            sources: Sources {
                static_pod_path: path(&kubelet.static_pod_path),
                file_check_frequency: time(kubelet.file_check_frequency),
                static_pod_url: static_pod_url(kubelet),
                http_check_frequency: time(kubelet.http_check_frequency),
                sync_frequency: time(kubelet.sync_frequency),
            },
            runtime: runtime(kubelet, flags),
            pulls: pulls(kubelet, providers),
            image_gc: image_gc(kubelet),
            cgroups: cgroups(kubelet),
            numa: Numa::new(kubelet),
            dns: Dns {
                cluster_domain: kubelet.cluster_domain.clone().unwrap_or_default(),
                cluster_dns: kubelet.cluster_dns.clone().unwrap_or_default(),
                resolv_conf: path(&kubelet.resolv_conf),
            },
            pods: PodDefaults {
                max_pods: count(kubelet.max_pods),
                pods_per_core: count(kubelet.pods_per_core),
                logs_dir: path(&kubelet.pod_logs_dir).unwrap_or_default(),
                split_log_streams: gates::enabled(gates::SPLIT_LOG_STREAMS, kubelet.feature_gates.as_ref()),
                log_limits: log_limits(kubelet),
                max_restart_wait: time(kubelet.crash_loop_back_off.max_container_restart_period),
                seccomp_default: kubelet.seccomp_default.unwrap_or_default(),
                allowed_unsafe_sysctls: kubelet.allowed_unsafe_sysctls.clone().unwrap_or_default(),
                ids_per_pod: ids_per_pod(kubelet),
                stop_signals: gates::enabled(gates::STOP_SIGNALS, kubelet.feature_gates.as_ref()),
                report_image_volumes: gates::enabled(gates::IMAGE_VOLUMES, kubelet.feature_gates.as_ref()),
                volume_stats_period: Some(time(kubelet.volume_stats_agg_period))
                    .filter(|period| !period.is_zero()),
            },
            shutdown: shutdown(kubelet),
            host: HostRules {
                fail_swap_on: kubelet.fail_swap_on.unwrap_or_default(),
                fail_cgroup_v1: kubelet.fail_cgroup_v1.unwrap_or_default(),
                protect_kernel_defaults: kubelet.protect_kernel_defaults.unwrap_or_default(),
                iptables_chains: kubelet.make_iptables_util_chains.unwrap_or_default(),
                oom_score_adj: kubelet.oom_score_adj.unwrap_or_default(),
                max_open_files: kubelet
                    .max_open_files
                    .and_then(|files| files.try_into().ok())
                    .unwrap_or_default(),
            },
            logging: Logging {
                format: match kubelet.logging.format {
                    Some(wire::LogFormat::Json) => LogFormat::Json,
                    Some(wire::LogFormat::Text) | None => LogFormat::Text,
                },
                verbosity: kubelet.logging.verbosity.unwrap_or_default(),
            },
            traces: traces(kubelet),
        }
    }
}

/// The settings of traces, if any would be recorded: only those that start here are, as no request brings a trace along.
fn traces(kubelet: &KubeletConfiguration) -> Option<TraceSettings> {
    let tracing = kubelet.tracing.as_ref()?;
    let per_million = u32::try_from(tracing.sampling_rate_per_million?).ok().filter(|rate| *rate > 0)?;
    let collector = match &tracing.endpoint {
        Some(endpoint) => endpoint.parse().ok()?,
        None => Collector::default(),
    };
    Some(TraceSettings { collector, per_million })
}

/// The address of the health endpoint, if it is on.
fn healthz(kubelet: &KubeletConfiguration) -> Option<SocketAddr> {
    let port = kubelet.healthz_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?;
    Some(SocketAddr::new(kubelet.healthz_bind_address?, port))
}

fn static_pod_url(kubelet: &KubeletConfiguration) -> Option<StaticPodUrl> {
    let url = parse_url(kubelet.static_pod_url.as_deref()?).ok()?;
    let headers = kubelet.static_pod_url_header.as_ref().and_then(|headers| parse_headers(headers).ok());
    Some(StaticPodUrl { url, headers: headers.unwrap_or_default() })
}

/// The limit of requests: client-go takes a rate of 0 for its own default, 5.
fn request_rate(kubelet: &KubeletConfiguration) -> (NonZeroU32, NonZeroU32) {
    const CLIENT_GO: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);
    (positive(kubelet.kube_api_qps).unwrap_or(CLIENT_GO), burst(kubelet.kube_api_burst))
}

/// The limit of events, of which upstream documents that 0 is none.
fn event_rate(kubelet: &KubeletConfiguration) -> Option<(NonZeroU32, NonZeroU32)> {
    Some((positive(kubelet.event_record_qps)?, burst(kubelet.event_burst)))
}

fn positive(field: Option<i32>) -> Option<NonZeroU32> {
    NonZeroU32::new(field?.try_into().ok()?)
}

/// A burst; defaults have replaced a 0.
fn burst(field: Option<i32>) -> NonZeroU32 {
    positive(field).unwrap_or(NonZeroU32::MIN)
}

fn runtime(kubelet: &KubeletConfiguration, flags: &ProcessFlags) -> Runtime {
    let socket = |field: &Option<String>| field.as_deref().and_then(socket_path).map(Path::to_owned);
    let runtime_socket = socket(&kubelet.container_runtime_endpoint).unwrap_or_default();
    Runtime {
        image_socket: socket(&kubelet.image_service_endpoint).unwrap_or_else(|| runtime_socket.clone()),
        runtime_socket,
        request_timeout: time(kubelet.runtime_request_timeout),
        cgroup: Some(flags.runtime_cgroups.clone()).filter(|cgroup| !cgroup.is_empty()),
        pod_cidr: kubelet.pod_cidr.clone().filter(|cidr| !cidr.is_empty()),
    }
}

fn pulls(kubelet: &KubeletConfiguration, providers: Option<CredentialProviders>) -> ImagePulls {
    let count = |field: Option<i32>| field.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let limit =
        kubelet.max_parallel_image_pulls.and_then(|pulls| usize::try_from(pulls).ok()?.try_into().ok());
    ImagePulls {
        per_second: NonZeroU32::new(count(kubelet.registry_pull_qps)),
        burst: count(kubelet.registry_burst),
        parallel: match (kubelet.serialize_image_pulls, limit) {
            (Some(false), Some(limit)) => ParallelPulls::AtMost(limit),
            (Some(false), None) => ParallelPulls::Unlimited,
            (Some(true) | None, _) => ParallelPulls::Serial,
        },
        verification: verification(kubelet),
        credential_providers: providers,
    }
}

fn image_gc(kubelet: &KubeletConfiguration) -> ImageGcPolicy {
    let percent = |field: Option<i32>| u8::try_from(field.unwrap_or_default()).unwrap_or(100);
    ImageGcPolicy {
        high_percent: percent(kubelet.image_gc_high_threshold_percent),
        low_percent: percent(kubelet.image_gc_low_threshold_percent),
        minimum_age: time(kubelet.image_minimum_gc_age),
        maximum_age: Some(time(kubelet.image_maximum_gc_age)).filter(|age| !age.is_zero()),
    }
}

/// Without the feature gate `KubeletEnsureSecretPulledImages` nothing is verified, as upstream.
fn verification(kubelet: &KubeletConfiguration) -> ImageVerification {
    use wire::CredentialsVerification as Policy;
    if !gates::enabled(gates::ENSURE_SECRET_PULLED_IMAGES, kubelet.feature_gates.as_ref()) {
        return ImageVerification::Disabled;
    }
    match kubelet.image_pull_credentials_verification_policy {
        Some(Policy::NeverVerify) => ImageVerification::Never,
        Some(Policy::NeverVerifyPreloadedImages) | None => ImageVerification::ExceptPreloaded,
        Some(Policy::NeverVerifyAllowlistedImages) => ImageVerification::ExceptAllowlisted(
            kubelet.preloaded_images_verification_allowlist.clone().unwrap_or_default(),
        ),
        Some(Policy::AlwaysVerify) => ImageVerification::Always,
    }
}

/// Without the feature gate `GracefulNodeShutdown` no period counts, as upstream.
fn shutdown(kubelet: &KubeletConfiguration) -> GracefulShutdown {
    let gate = |gate: &str| gates::enabled(gate, kubelet.feature_gates.as_ref());
    if !gate(gates::GRACEFUL_SHUTDOWN) {
        return GracefulShutdown::default();
    }
    let seconds = |field: Option<i64>| field.and_then(|seconds| seconds.try_into().ok()).unwrap_or_default();
    let entries = kubelet.shutdown_grace_period_by_pod_priority.iter().flatten();
    GracefulShutdown {
        total: time(kubelet.shutdown_grace_period),
        critical: time(kubelet.shutdown_grace_period_critical_pods),
        by_priority: entries
            .map(|entry| (entry.priority.unwrap_or_default(), seconds(entry.shutdown_grace_period_seconds)))
            .collect(),
        is_recorded: gate(gates::GRACEFUL_SHUTDOWN_BY_PRIORITY),
    }
}

fn cgroups(kubelet: &KubeletConfiguration) -> Cgroups {
    Cgroups {
        driver: match kubelet.cgroup_driver {
            Some(wire::CgroupDriver::Systemd) => CgroupDriver::Systemd,
            Some(wire::CgroupDriver::Cgroupfs) | None => CgroupDriver::Cgroupfs,
        },
        root: kubelet.cgroup_root.clone().unwrap_or_default(),
        per_qos: kubelet.cgroups_per_qos.unwrap_or_default(),
        limit_all_pods: reservations::limits_pods(kubelet),
        enforced_reservations: reservations::enforced_reservations(kubelet),
        reserved_memory_percent: reservations::reserved_memory_percent(kubelet),
        pids_limit: kubelet.pod_pids_limit.filter(|limit| *limit > 0),
        cfs_quota: kubelet.cpu_cfs_quota.unwrap_or_default(),
        memory_qos: gates::enabled(gates::MEMORY_QOS, kubelet.feature_gates.as_ref()).then_some(MemoryQos {
            has_tiered_reservation: match kubelet.memory_reservation_policy {
                Some(wire::MemoryReservationPolicy::TieredReservation) => true,
                Some(wire::MemoryReservationPolicy::None) | None => false,
            },
            throttling_factor: kubelet.memory_throttling_factor,
        }),
        limited_swap: match kubelet.memory_swap.swap_behavior {
            Some(wire::SwapBehavior::LimitedSwap) => true,
            Some(wire::SwapBehavior::NoSwap) | None => false,
        },
        cfs_period: time(kubelet.cpu_cfs_quota_period),
        single_process_oom_kill: kubelet.single_process_oom_kill,
        kubelet: kubelet.kubelet_cgroups.clone().filter(|path| !path.is_empty()),
        system: kubelet.system_cgroups.clone().filter(|path| !path.is_empty()),
    }
}

fn ids_per_pod(kubelet: &KubeletConfiguration) -> u32 {
    let configured = kubelet.user_namespaces.as_ref().and_then(|namespaces| namespaces.ids_per_pod);
    configured.and_then(|ids| u32::try_from(ids).ok()).unwrap_or(IDS_PER_POD)
}

#[cfg(test)]
mod tests {
    use super::node_name;

    #[test]
    fn a_node_is_named_like_its_host() {
        assert_eq!(node_name(" Host1.Example.ORG\n", None), "host1.example.org");
        assert_eq!(node_name("host1", Some("")), "host1");
        assert_eq!(node_name("host1", Some(" Node-7 ")), "node-7");
    }
}
