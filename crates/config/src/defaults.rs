//! Defaults of KubeletConfiguration, applied once after merging: upstream's of Kubernetes 1.37, and safe and fast ones for a
//! standalone node. Validates nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use hostlet_base::GoDuration;

use super::wire::{
    API_VERSION, AuthorizationMode, CgroupDriver, ChangeDetection, CpuManagerPolicy, CredentialsVerification,
    HairpinMode, KIND, KubeletConfiguration, LogFormat, MemoryManagerPolicy, MemoryReservationPolicy,
    QuantityText, TopologyManagerPolicy, TopologyManagerScope,
};

/// How many images a standalone node pulls in parallel by default.
const ALONE_PARALLEL_PULLS: i32 = 4;

/// Upstream's default thresholds on Linux.
const EVICTION_HARD: [(&str, &str); 5] = [
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
];

/// Whether the node belongs to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// No API server: static pods only.
    Alone,
    /// A node of a cluster.
    Joined,
}

/// Sets the defaults of unset fields. A zero duration counts as unset, as does a zero number where upstream cannot tell zero
/// from unset.
pub(super) fn set_defaults(kc: &mut KubeletConfiguration, membership: Membership) {
    kc.api_version = Some(API_VERSION.to_owned());
    kc.kind = Some(KIND.to_owned());
    match membership {
        Membership::Alone => standalone(kc),
        Membership::Joined => {}
    }
    sources(kc);
    server(kc);
    images(kc);
    node_status(kc);
    resources(kc);
    eviction(kc);
    logs(kc);
}

/// Without an API server, webhook authentication and authorization are impossible; serial pulls have no advantage.
fn standalone(kc: &mut KubeletConfiguration) {
    kc.authentication.webhook.enabled.get_or_insert(false);
    kc.authorization.mode.get_or_insert(AuthorizationMode::AlwaysAllow);
    if kc.serialize_image_pulls.is_none() && kc.max_parallel_image_pulls.is_none() {
        kc.max_parallel_image_pulls = Some(ALONE_PARALLEL_PULLS);
    }
}

fn sources(kc: &mut KubeletConfiguration) {
    duration(&mut kc.sync_frequency, GoDuration::from_secs(60));
    duration(&mut kc.file_check_frequency, GoDuration::from_secs(20));
    duration(&mut kc.http_check_frequency, GoDuration::from_secs(20));
}

fn server(kc: &mut KubeletConfiguration) {
    kc.enable_server.get_or_insert(true);
    kc.address.get_or_insert(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    number(&mut kc.port, 10_250);
    kc.authentication.anonymous.enabled.get_or_insert(false);
    kc.authentication.webhook.enabled.get_or_insert(true);
    duration(&mut kc.authentication.webhook.cache_ttl, GoDuration::from_secs(120));
    kc.authorization.mode.get_or_insert(AuthorizationMode::Webhook);
    duration(&mut kc.authorization.webhook.cache_authorized_ttl, GoDuration::from_secs(300));
    duration(&mut kc.authorization.webhook.cache_unauthorized_ttl, GoDuration::from_secs(30));
    kc.enable_debugging_handlers.get_or_insert(true);
    kc.healthz_port.get_or_insert(10_248);
    kc.healthz_bind_address.get_or_insert(IpAddr::V4(Ipv4Addr::LOCALHOST));
    duration(&mut kc.streaming_connection_idle_timeout, GoDuration::from_secs(4 * 3600));
    kc.enable_system_log_handler.get_or_insert(true);
    kc.enable_system_log_query.get_or_insert(false);
    kc.enable_profiling_handler.get_or_insert(true);
    kc.enable_debug_flags_handler.get_or_insert(true);
}

fn images(kc: &mut KubeletConfiguration) {
    kc.registry_pull_qps.get_or_insert(5);
    number(&mut kc.registry_burst, 10);
    kc.image_pull_credentials_verification_policy
        .get_or_insert(CredentialsVerification::NeverVerifyPreloadedImages);
    duration(&mut kc.image_minimum_gc_age, GoDuration::from_secs(120));
    kc.image_maximum_gc_age.get_or_insert(GoDuration::default());
    kc.image_gc_high_threshold_percent.get_or_insert(85);
    kc.image_gc_low_threshold_percent.get_or_insert(80);
    let parallel = kc.max_parallel_image_pulls.is_some_and(|pulls| pulls >= 2);
    kc.serialize_image_pulls.get_or_insert(!parallel);
}

fn node_status(kc: &mut KubeletConfiguration) {
    kc.event_record_qps.get_or_insert(50);
    number(&mut kc.event_burst, 100);
    // If only the update frequency is set, the status is reported as often (upstream's rule).
    let computed = kc.node_status_update_frequency.filter(|frequency| !frequency.is_zero());
    duration(&mut kc.node_status_report_frequency, computed.unwrap_or(GoDuration::from_secs(300)));
    duration(&mut kc.node_status_update_frequency, GoDuration::from_secs(10));
    number(&mut kc.node_lease_duration_seconds, 40);
    kc.node_status_max_images.get_or_insert(50);
    text(&mut kc.content_type, "application/vnd.kubernetes.protobuf");
    kc.kube_api_qps.get_or_insert(50);
    number(&mut kc.kube_api_burst, 100);
    kc.register_node.get_or_insert(true);
}

fn resources(kc: &mut KubeletConfiguration) {
    kc.oom_score_adj.get_or_insert(-999);
    kc.cgroups_per_qos.get_or_insert(true);
    kc.cgroup_driver.get_or_insert(CgroupDriver::Cgroupfs);
    kc.cpu_manager_policy.get_or_insert(CpuManagerPolicy::None);
    duration(&mut kc.cpu_manager_reconcile_period, GoDuration::from_secs(10));
    kc.memory_manager_policy.get_or_insert(MemoryManagerPolicy::None);
    kc.topology_manager_policy.get_or_insert(TopologyManagerPolicy::None);
    kc.topology_manager_scope.get_or_insert(TopologyManagerScope::Container);
    duration(&mut kc.runtime_request_timeout, GoDuration::from_secs(120));
    kc.hairpin_mode.get_or_insert(HairpinMode::PromiscuousBridge);
    number(&mut kc.max_pods, 110);
    kc.pod_pids_limit = Some(kc.pod_pids_limit.filter(|limit| *limit >= 0).unwrap_or(-1));
    kc.resolv_conf.get_or_insert_with(|| "/etc/resolv.conf".to_owned());
    kc.cpu_cfs_quota.get_or_insert(true);
    kc.cpu_cfs_quota_period.get_or_insert(GoDuration::from_millis(100));
    if kc.max_open_files.is_none_or(|files| files == 0) {
        kc.max_open_files = Some(1_000_000);
    }
    kc.enable_controller_attach_detach.get_or_insert(true);
    kc.make_iptables_util_chains.get_or_insert(true);
    kc.iptables_masquerade_bit.get_or_insert(14);
    kc.iptables_drop_bit.get_or_insert(15);
    kc.fail_swap_on.get_or_insert(true);
    kc.config_map_and_secret_change_detection_strategy.get_or_insert(ChangeDetection::Watch);
    kc.enforce_node_allocatable.get_or_insert_with(|| vec!["pods".to_owned()]);
    text(&mut kc.volume_plugin_dir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/");
    duration(&mut kc.volume_stats_agg_period, GoDuration::from_secs(60));
    kc.shutdown_grace_period.get_or_insert(GoDuration::default());
    kc.shutdown_grace_period_critical_pods.get_or_insert(GoDuration::default());
    kc.crash_loop_back_off.max_container_restart_period.get_or_insert(GoDuration::from_secs(300));
    kc.seccomp_default.get_or_insert(false);
    kc.memory_reservation_policy.get_or_insert(MemoryReservationPolicy::None);
    kc.local_storage_capacity_isolation.get_or_insert(true);
    text(&mut kc.container_runtime_endpoint, "unix:///run/containerd/containerd.sock");
    kc.fail_cgroup_v1.get_or_insert(true);
}

fn eviction(kc: &mut KubeletConfiguration) {
    duration(&mut kc.eviction_pressure_transition_period, GoDuration::from_secs(300));
    let merge = *kc.merge_default_eviction_settings.get_or_insert(false);
    let defaults = EVICTION_HARD.map(|(signal, threshold)| (signal.to_owned(), threshold.to_owned()));
    match &mut kc.eviction_hard {
        None => kc.eviction_hard = Some(BTreeMap::from(defaults)),
        Some(set) if merge => {
            for (signal, threshold) in defaults {
                set.entry(signal).or_insert(threshold);
            }
        }
        Some(_) => {}
    }
}

fn logs(kc: &mut KubeletConfiguration) {
    text(&mut kc.pod_logs_dir, "/var/log/pods");
    text(&mut kc.container_log_max_size, "10Mi");
    kc.container_log_max_files.get_or_insert(5);
    kc.container_log_max_workers.get_or_insert(1);
    kc.container_log_monitor_interval.get_or_insert(GoDuration::from_secs(10));
    let logging = &mut kc.logging;
    logging.format.get_or_insert(LogFormat::Text);
    duration(&mut logging.flush_frequency, GoDuration::from_secs(5));
    logging.verbosity.get_or_insert(0);
    logging.options.text.info_buffer_size.get_or_insert_with(QuantityText::zero);
    logging.options.json.info_buffer_size.get_or_insert_with(QuantityText::zero);
}

fn duration(field: &mut Option<GoDuration>, default: GoDuration) {
    if field.is_none_or(GoDuration::is_zero) {
        *field = Some(default);
    }
}

fn number(field: &mut Option<i32>, default: i32) {
    if field.is_none_or(|number| number == 0) {
        *field = Some(default);
    }
}

fn text(field: &mut Option<String>, default: &str) {
    if field.as_ref().is_none_or(String::is_empty) {
        *field = Some(default.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Membership, set_defaults};
    use crate::merge::without_nulls;
    use crate::wire::KubeletConfiguration;

    fn defaulted(set: Value, membership: Membership) -> Value {
        let mut kc: KubeletConfiguration = serde_json::from_value(set).unwrap();
        set_defaults(&mut kc, membership);
        without_nulls(serde_json::to_value(&kc).unwrap())
    }

    /// What a kubelet 1.37 without a setting says at `/configz`, and the thresholds it adds for itself.
    fn upstream() -> Value {
        serde_json::from_str(include_str!("testdata/upstream_defaults.json")).unwrap()
    }

    #[test]
    fn a_node_of_a_cluster_has_upstreams_defaults() {
        assert_eq!(defaulted(json!({}), Membership::Joined), upstream());
    }

    #[test]
    fn a_standalone_node_uses_no_webhooks_and_pulls_in_parallel() {
        let mut expected = upstream();
        expected["authentication"]["webhook"]["enabled"] = json!(false);
        expected["authorization"]["mode"] = json!("AlwaysAllow");
        expected["serializeImagePulls"] = json!(false);
        expected["maxParallelImagePulls"] = json!(4);
        assert_eq!(defaulted(json!({}), Membership::Alone), expected);
    }

    #[test]
    fn defaults_that_depend_on_other_fields() {
        let pulls = |set: Value| {
            let all = defaulted(set, Membership::Alone);
            (all["serializeImagePulls"].clone(), all["maxParallelImagePulls"].clone())
        };
        assert_eq!(pulls(json!({"serializeImagePulls": true})), (json!(true), Value::Null));
        assert_eq!(pulls(json!({"serializeImagePulls": false})), (json!(false), Value::Null));
        assert_eq!(pulls(json!({"maxParallelImagePulls": 1})), (json!(true), json!(1)));
        assert_eq!(pulls(json!({"maxParallelImagePulls": 2})), (json!(false), json!(2)));

        let status = defaulted(json!({"nodeStatusUpdateFrequency": "30s"}), Membership::Joined);
        assert_eq!(status["nodeStatusReportFrequency"], "30s");

        let set = json!({"evictionHard": {"memory.available": "1Gi"}, "mergeDefaultEvictionSettings": true});
        let merged = &defaulted(set, Membership::Joined)["evictionHard"];
        assert_eq!(
            (&merged["memory.available"], &merged["nodefs.available"]),
            (&json!("1Gi"), &json!("10%"))
        );
    }

    #[test]
    fn zeroes_that_mean_unset_get_the_default() {
        // As kubeadm writes its files.
        let zeros = json!({
            "syncFrequency": "0s", "nodeStatusReportFrequency": "0s", "nodeStatusUpdateFrequency": "0s",
            "volumeStatsAggPeriod": "0s", "port": 0, "maxPods": 0, "maxOpenFiles": 0, "cgroupDriver": "",
            "containerRuntimeEndpoint": "", "podPidsLimit": -7, "logging": {"flushFrequency": 0},
            "authentication": {"webhook": {"cacheTTL": "0s"}},
        });
        assert_eq!(defaulted(zeros, Membership::Joined), upstream());
        let kept =
            defaulted(json!({"healthzPort": 0, "registryPullQPS": 0, "resolvConf": ""}), Membership::Joined);
        assert_eq!((&kept["healthzPort"], &kept["registryPullQPS"]), (&json!(0), &json!(0)));
        assert_eq!(kept["resolvConf"], "");
    }
}
