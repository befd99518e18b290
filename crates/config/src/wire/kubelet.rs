//! The document. This file has only the names and types of its fields; the Kubernetes reference of
//! `kubelet.config.k8s.io/v1beta1` documents them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hostlet_base::GoDuration;
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use super::auth::{Authentication, Authorization};
use super::logging::Logging;
use super::node::{
    CrashLoopBackOff, MemoryReservation, MemorySwap, PriorityShutdown, Tracing, UserNamespaces,
};
use super::policies::{
    CgroupDriver, ChangeDetection, CpuManagerPolicy, CredentialsVerification, HairpinMode,
    MemoryManagerPolicy, MemoryReservationPolicy, TlsVersion, TopologyManagerPolicy, TopologyManagerScope,
};
use super::scalars::blank_is_unset;

/// The `apiVersion` of the document.
pub(crate) const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The `kind` of the document.
pub(crate) const KIND: &str = "KubeletConfiguration";

/// The document. `None` means unset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct KubeletConfiguration {
    pub api_version: Option<String>,
    pub kind: Option<String>,
    pub(crate) enable_server: Option<bool>,
    pub static_pod_path: Option<String>,
    pub pod_logs_dir: Option<String>,
    pub sync_frequency: Option<GoDuration>,
    pub file_check_frequency: Option<GoDuration>,
    pub http_check_frequency: Option<GoDuration>,
    #[serde(rename = "staticPodURL")]
    pub static_pod_url: Option<String>,
    #[serde(rename = "staticPodURLHeader")]
    pub(crate) static_pod_url_header: Option<BTreeMap<String, Vec<String>>>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub address: Option<IpAddr>,
    pub port: Option<i32>,
    pub(crate) read_only_port: Option<i32>,
    pub(crate) tls_cert_file: Option<String>,
    pub(crate) tls_private_key_file: Option<String>,
    pub(crate) tls_cipher_suites: Option<Vec<String>>,
    pub(crate) tls_curve_preferences: Option<Vec<i32>>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) tls_min_version: Option<TlsVersion>,
    pub rotate_certificates: Option<bool>,
    #[serde(rename = "serverTLSBootstrap")]
    pub(crate) server_tls_bootstrap: Option<bool>,
    pub authentication: Authentication,
    pub authorization: Authorization,
    #[serde(rename = "registryPullQPS")]
    pub(crate) registry_pull_qps: Option<i32>,
    pub(crate) registry_burst: Option<i32>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) image_pull_credentials_verification_policy: Option<CredentialsVerification>,
    pub(crate) preloaded_images_verification_allowlist: Option<Vec<String>>,
    #[serde(rename = "eventRecordQPS")]
    pub(crate) event_record_qps: Option<i32>,
    pub(crate) event_burst: Option<i32>,
    pub(crate) enable_debugging_handlers: Option<bool>,
    pub(crate) enable_contention_profiling: Option<bool>,
    pub(crate) healthz_port: Option<i32>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) healthz_bind_address: Option<IpAddr>,
    pub oom_score_adj: Option<i32>,
    pub cluster_domain: Option<String>,
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Option<Vec<IpAddr>>,
    pub(crate) streaming_connection_idle_timeout: Option<GoDuration>,
    pub(crate) node_status_update_frequency: Option<GoDuration>,
    pub(crate) node_status_report_frequency: Option<GoDuration>,
    pub(crate) node_lease_duration_seconds: Option<i32>,
    #[serde(rename = "imageMinimumGCAge")]
    pub(crate) image_minimum_gc_age: Option<GoDuration>,
    #[serde(rename = "imageMaximumGCAge")]
    pub(crate) image_maximum_gc_age: Option<GoDuration>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub(crate) image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub(crate) image_gc_low_threshold_percent: Option<i32>,
    pub(crate) volume_stats_agg_period: Option<GoDuration>,
    pub(crate) kubelet_cgroups: Option<String>,
    pub system_cgroups: Option<String>,
    pub(crate) cgroup_root: Option<String>,
    #[serde(rename = "cgroupsPerQOS")]
    pub(crate) cgroups_per_qos: Option<bool>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub cgroup_driver: Option<CgroupDriver>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) cpu_manager_policy: Option<CpuManagerPolicy>,
    pub(crate) cpu_manager_policy_options: Option<BTreeMap<String, String>>,
    pub(crate) cpu_manager_reconcile_period: Option<GoDuration>,
    #[serde(rename = "singleProcessOOMKill")]
    pub single_process_oom_kill: Option<bool>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) memory_manager_policy: Option<MemoryManagerPolicy>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) topology_manager_policy: Option<TopologyManagerPolicy>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) topology_manager_scope: Option<TopologyManagerScope>,
    pub(crate) topology_manager_policy_options: Option<BTreeMap<String, String>>,
    pub(crate) qos_reserved: Option<BTreeMap<String, String>>,
    pub(crate) runtime_request_timeout: Option<GoDuration>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) hairpin_mode: Option<HairpinMode>,
    pub max_pods: Option<i32>,
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    pub(crate) pod_pids_limit: Option<i64>,
    pub resolv_conf: Option<String>,
    pub(crate) run_once: Option<bool>,
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: Option<bool>,
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: Option<GoDuration>,
    pub(crate) node_status_max_images: Option<i32>,
    pub max_open_files: Option<i64>,
    pub(crate) content_type: Option<String>,
    #[serde(rename = "kubeAPIQPS")]
    pub(crate) kube_api_qps: Option<i32>,
    #[serde(rename = "kubeAPIBurst")]
    pub(crate) kube_api_burst: Option<i32>,
    pub(crate) serialize_image_pulls: Option<bool>,
    pub(crate) max_parallel_image_pulls: Option<i32>,
    pub(crate) eviction_hard: Option<BTreeMap<String, String>>,
    pub(crate) eviction_soft: Option<BTreeMap<String, String>>,
    pub(crate) eviction_soft_grace_period: Option<BTreeMap<String, String>>,
    pub(crate) eviction_pressure_transition_period: Option<GoDuration>,
    pub(crate) eviction_max_pod_grace_period: Option<i32>,
    pub(crate) eviction_minimum_reclaim: Option<BTreeMap<String, String>>,
    pub(crate) merge_default_eviction_settings: Option<bool>,
    pub(crate) pods_per_core: Option<i32>,
    pub(crate) enable_controller_attach_detach: Option<bool>,
    pub protect_kernel_defaults: Option<bool>,
    #[serde(rename = "makeIPTablesUtilChains")]
    pub(crate) make_iptables_util_chains: Option<bool>,
    pub(crate) iptables_masquerade_bit: Option<i32>,
    pub(crate) iptables_drop_bit: Option<i32>,
    pub(crate) feature_gates: Option<BTreeMap<String, bool>>,
    pub fail_swap_on: Option<bool>,
    pub(crate) memory_swap: MemorySwap,
    pub(crate) container_log_max_size: Option<String>,
    pub(crate) container_log_max_files: Option<i32>,
    pub(crate) container_log_max_workers: Option<i32>,
    pub(crate) container_log_monitor_interval: Option<GoDuration>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) config_map_and_secret_change_detection_strategy: Option<ChangeDetection>,
    pub(crate) system_reserved: Option<BTreeMap<String, String>>,
    pub(crate) kube_reserved: Option<BTreeMap<String, String>>,
    #[serde(rename = "reservedSystemCPUs")]
    pub(crate) reserved_system_cpus: Option<String>,
    pub(crate) show_hidden_metrics_for_version: Option<String>,
    pub(crate) system_reserved_cgroup: Option<String>,
    pub(crate) kube_reserved_cgroup: Option<String>,
    pub(crate) enforce_node_allocatable: Option<Vec<String>>,
    pub allowed_unsafe_sysctls: Option<Vec<String>>,
    pub(crate) volume_plugin_dir: Option<String>,
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    pub(crate) kernel_memcg_notification: Option<bool>,
    pub logging: Logging,
    pub(crate) enable_system_log_handler: Option<bool>,
    pub(crate) enable_system_log_query: Option<bool>,
    pub(crate) shutdown_grace_period: Option<GoDuration>,
    pub(crate) shutdown_grace_period_critical_pods: Option<GoDuration>,
    pub(crate) shutdown_grace_period_by_pod_priority: Option<Vec<PriorityShutdown>>,
    pub(crate) crash_loop_back_off: CrashLoopBackOff,
    pub(crate) reserved_memory: Option<Vec<MemoryReservation>>,
    pub(crate) enable_profiling_handler: Option<bool>,
    pub(crate) enable_debug_flags_handler: Option<bool>,
    pub seccomp_default: Option<bool>,
    pub(crate) memory_throttling_factor: Option<f64>,
    pub(crate) default_pod_sysctls: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) memory_reservation_policy: Option<MemoryReservationPolicy>,
    pub(crate) register_with_taints: Option<Vec<Taint>>,
    pub(crate) register_node: Option<bool>,
    pub tracing: Option<Tracing>,
    pub(crate) local_storage_capacity_isolation: Option<bool>,
    pub(crate) container_runtime_endpoint: Option<String>,
    pub(crate) image_service_endpoint: Option<String>,
    pub fail_cgroup_v1: Option<bool>,
    pub user_namespaces: Option<UserNamespaces>,
}
