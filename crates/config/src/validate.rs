//! Validation of a merged and defaulted configuration: upstream's rules, and hostlet's own. Reports every violation by field
//! path. Does not access the host.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use hostlet_base::node::Signal;
use hostlet_base::{GoDuration, Quantity, without_tag};
use hostlet_telemetry::Collector;

use super::breach::Breach;
use super::eviction::min_reclaim;
use super::static_pod_url::{parse_headers, parse_url};
use super::values::socket_path;
use super::wire::{CredentialsVerification, KubeletConfiguration, MemoryReservationPolicy, QuantityText};
use super::{gates, node, numa, reservations};

/// The default of memoryThrottlingFactor before Kubernetes 1.37, which files may still have without the feature gate.
const FORMER_THROTTLING_FACTOR: f64 = 0.9;

/// Collects violations.
#[derive(Default)]
struct Breaches(Vec<Breach>);

impl Breaches {
    fn add(&mut self, path: &str, message: impl Into<String>) {
        self.0.push((path.to_owned(), message.into()));
    }

    fn between(&mut self, path: &str, value: Option<i32>, range: std::ops::RangeInclusive<i32>) {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            self.add(path, format!("{value} must be between {} and {}", range.start(), range.end()));
        }
    }

    fn at_least(&mut self, path: &str, value: Option<i64>, least: i64) {
        if let Some(value) = value.filter(|value| *value < least) {
            self.add(path, format!("{value} must be {least} or more"));
        }
    }

    /// Checks that a duration is not negative.
    fn not_negative(&mut self, path: &str, value: Option<GoDuration>) {
        if let Some(value) = value.filter(|value| value.to_std().is_none()) {
            self.add(path, format!("{value} must not be negative"));
        }
    }
}

/// All violations of rules in `kc`.
pub(super) fn validate(kc: &KubeletConfiguration) -> Vec<Breach> {
    let mut breaches = Breaches::default();
    numbers(kc, &mut breaches);
    times(kc, &mut breaches);
    static_pod_url(kc, &mut breaches);
    user_namespaces(kc, &mut breaches);
    endpoints(kc, &mut breaches);
    images(kc, &mut breaches);
    logs(kc, &mut breaches);
    breaches.0.extend(reservations::breaches(kc));
    reserved_memory(kc, &mut breaches);
    breaches.0.extend(numa::breaches(kc));
    eviction(kc, &mut breaches);
    shutdown(kc, &mut breaches);
    exclusions(kc, &mut breaches);
    sysctls(kc, &mut breaches);
    traces(kc, &mut breaches);
    breaches.0.extend(gates::breaches(kc.feature_gates.as_ref()));
    breaches.0
}

fn numbers(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let wide = |value: Option<i32>| value.map(i64::from);
    breaches.between("port", kc.port, 1..=65_535);
    breaches.between("readOnlyPort", kc.read_only_port, 0..=65_535);
    breaches.between("healthzPort", kc.healthz_port, 0..=65_535);
    if kc.read_only_port.is_some_and(|port| port != 0) && kc.read_only_port == kc.port {
        breaches.add("readOnlyPort", "must not be the same as port");
    }
    breaches.between("oomScoreAdj", kc.oom_score_adj, -1000..=1000);
    breaches.between("iptablesMasqueradeBit", kc.iptables_masquerade_bit, 0..=31);
    breaches.between("iptablesDropBit", kc.iptables_drop_bit, 0..=31);
    breaches.at_least("nodeLeaseDurationSeconds", wide(kc.node_lease_duration_seconds), 1);
    breaches.at_least("nodeStatusMaxImages", wide(kc.node_status_max_images), -1);
    breaches.at_least("maxParallelImagePulls", wide(kc.max_parallel_image_pulls), 1);
    breaches.at_least("maxOpenFiles", kc.max_open_files, 0);
    for (path, value) in [
        ("eventBurst", kc.event_burst),
        ("eventRecordQPS", kc.event_record_qps),
        ("kubeAPIBurst", kc.kube_api_burst),
        ("kubeAPIQPS", kc.kube_api_qps),
        ("registryBurst", kc.registry_burst),
        ("registryPullQPS", kc.registry_pull_qps),
        ("maxPods", kc.max_pods),
        ("podsPerCore", kc.pods_per_core),
    ] {
        breaches.at_least(path, wide(value), 0);
    }
    if let Some(factor) = kc.memory_throttling_factor.filter(|factor| *factor <= 0.0 || *factor > 1.0) {
        breaches.add("memoryThrottlingFactor", format!("{factor} must be above 0 and at most 1"));
    }
    let memory_qos = gates::enabled(gates::MEMORY_QOS, kc.feature_gates.as_ref());
    if !memory_qos && kc.memory_throttling_factor.is_some_and(|factor| factor != FORMER_THROTTLING_FACTOR) {
        breaches.add("memoryThrottlingFactor", "needs the feature gate MemoryQoS");
    }
}

/// IDs are allocated in units that upstream fixes.
fn user_namespaces(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    const UNIT: i64 = 65_536;
    let Some(ids) = kc.user_namespaces.as_ref().and_then(|namespaces| namespaces.ids_per_pod) else { return };
    let path = "userNamespaces.idsPerPod";
    if ids < UNIT {
        breaches.add(path, format!("{ids} must not be less than {UNIT}"));
    } else if ids % UNIT != 0 {
        breaches.add(path, format!("{ids} must be a multiple of {UNIT}"));
    } else if ids > i64::from(u32::MAX) {
        breaches.add(path, format!("{ids} must not be more than {}", u32::MAX));
    }
}

fn static_pod_url(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    if let Some(Err(rule)) = kc.static_pod_url.as_deref().filter(|url| !url.is_empty()).map(parse_url) {
        breaches.add("staticPodURL", rule.to_string());
    }
    if let Some(Err(rule)) = kc.static_pod_url_header.as_ref().map(parse_headers) {
        breaches.add("staticPodURLHeader", rule.to_string());
    }
}

fn times(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    for (path, value) in [
        ("syncFrequency", kc.sync_frequency),
        ("fileCheckFrequency", kc.file_check_frequency),
        ("httpCheckFrequency", kc.http_check_frequency),
        ("runtimeRequestTimeout", kc.runtime_request_timeout),
        ("nodeStatusUpdateFrequency", kc.node_status_update_frequency),
        ("nodeStatusReportFrequency", kc.node_status_report_frequency),
        ("imageMinimumGCAge", kc.image_minimum_gc_age),
        ("imageMaximumGCAge", kc.image_maximum_gc_age),
    ] {
        breaches.not_negative(path, value);
    }
    let period = kc.cpu_cfs_quota_period.unwrap_or_default();
    if !gates::enabled("CustomCPUCFSQuotaPeriod", kc.feature_gates.as_ref()) {
        if period != GoDuration::from_millis(100) {
            let message = format!("{period} needs the feature gate CustomCPUCFSQuotaPeriod");
            breaches.add("cpuCFSQuotaPeriod", message);
        }
    } else if !(GoDuration::from_millis(1)..=GoDuration::from_secs(1)).contains(&period) {
        breaches.add("cpuCFSQuotaPeriod", format!("{period} must be between 1ms and 1s"));
    }
    let restart = kc.crash_loop_back_off.max_container_restart_period.unwrap_or_default();
    if !(GoDuration::from_secs(1)..=GoDuration::from_secs(300)).contains(&restart) {
        let message = format!("{restart} must be between 1s and 300s");
        breaches.add("crashLoopBackOff.maxContainerRestartPeriod", message);
    }
}

fn endpoints(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    for (path, endpoint) in [
        ("containerRuntimeEndpoint", &kc.container_runtime_endpoint),
        ("imageServiceEndpoint", &kc.image_service_endpoint),
    ] {
        let endpoint = endpoint.as_deref().unwrap_or_default();
        if !endpoint.is_empty() && socket_path(endpoint).is_none() {
            let message = format!(
                "{endpoint:?} is not a unix socket; write it like \"unix:///run/containerd/containerd.sock\""
            );
            breaches.add(path, message);
        }
    }
}

fn images(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let (low, high) = (kc.image_gc_low_threshold_percent, kc.image_gc_high_threshold_percent);
    breaches.between("imageGCHighThresholdPercent", high, 0..=100);
    breaches.between("imageGCLowThresholdPercent", low, 0..=100);
    if low >= high {
        breaches.add("imageGCLowThresholdPercent", "must be below imageGCHighThresholdPercent");
    }
    let (oldest, youngest) =
        (kc.image_maximum_gc_age.unwrap_or_default(), kc.image_minimum_gc_age.unwrap_or_default());
    if oldest > GoDuration::default() && oldest <= youngest {
        breaches.add("imageMaximumGCAge", format!("{oldest} must be above imageMinimumGCAge, {youngest}"));
    }
    if kc.serialize_image_pulls == Some(true) && kc.max_parallel_image_pulls.is_some_and(|pulls| pulls > 1) {
        breaches.add("maxParallelImagePulls", "cannot be above 1 while serializeImagePulls is true");
    }
    let allowlisted = kc.image_pull_credentials_verification_policy
        == Some(CredentialsVerification::NeverVerifyAllowlistedImages);
    if kc.preloaded_images_verification_allowlist.as_ref().is_some_and(|list| !list.is_empty())
        && !allowlisted
    {
        breaches.add(
            "preloadedImagesVerificationAllowlist",
            "needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages",
        );
    }
    for pattern in kc.preloaded_images_verification_allowlist.iter().flatten() {
        if let Some(rule) = allowlist_rule(pattern) {
            breaches.add("preloadedImagesVerificationAllowlist", format!("{pattern:?} {rule}"));
        }
    }
    if !gates::enabled(gates::ENSURE_SECRET_PULLED_IMAGES, kc.feature_gates.as_ref())
        && kc.image_pull_credentials_verification_policy
            != Some(CredentialsVerification::NeverVerifyPreloadedImages)
    {
        let message = format!("needs the feature gate {}", gates::ENSURE_SECRET_PULLED_IMAGES);
        breaches.add("imagePullCredentialsVerificationPolicy", message);
    }
}

/// Which rule an item of `preloadedImagesVerificationAllowlist` violates.
fn allowlist_rule(pattern: &str) -> Option<String> {
    if pattern != pattern.trim() {
        return Some("must not begin or end with a space".to_owned());
    }
    let prefix = pattern.strip_suffix("/*");
    if prefix.unwrap_or(pattern).contains('*') {
        return Some("may have a * only at its end, after a slash".to_owned());
    }
    match prefix {
        Some("") => Some("needs the name of a registry before the slash".to_owned()),
        Some(_) => None,
        None => match without_tag(pattern) {
            Ok(name) if name == pattern => None,
            Ok(_) => Some("must not have a tag or digest".to_owned()),
            Err(error) => Some(format!("is no image name: {error}")),
        },
    }
}

fn logs(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let wide = |value: Option<i32>| value.map(i64::from);
    let directory = kc.pod_logs_dir.as_deref().unwrap_or_default();
    if let Some(rule) = log_directory_rule(directory) {
        breaches.add("podLogsDir", format!("{directory:?} {rule}"));
    }
    breaches.at_least("containerLogMaxFiles", wide(kc.container_log_max_files), 2);
    breaches.at_least("containerLogMaxWorkers", wide(kc.container_log_max_workers), 1);
    if kc.container_log_monitor_interval.is_some_and(|interval| interval < GoDuration::from_secs(3)) {
        breaches.add("containerLogMonitorInterval", "must be 3s or more");
    }
    let size = kc.container_log_max_size.as_deref().unwrap_or_default();
    match Quantity::parse(size) {
        Err(error) => breaches.add("containerLogMaxSize", format!("{size:?}: {error}")),
        Ok(quantity) if !quantity.is_whole() => {
            breaches.add("containerLogMaxSize", format!("{size:?} is not a whole number of bytes"));
        }
        Ok(_) => {}
    }
}

/// The rule that a directory for pod logs breaks.
fn log_directory_rule(directory: &str) -> Option<&'static str> {
    let path = Path::new(directory);
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && !directory.contains("//")
        && !directory.split('/').any(|name| name == ".")
        && (directory == "/" || !directory.ends_with('/'));
    match directory {
        _ if !path.is_absolute() => Some("must be an absolute path"),
        _ if !plain => Some("must not contain . or .., or redundant slashes"),
        _ if !directory.is_ascii() => Some("must be plain ASCII"),
        _ if directory.contains(':') => Some("must not contain a colon"),
        _ => None,
    }
}

fn reserved_memory(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let mut seen = BTreeSet::new();
    for (index, item) in kc.reserved_memory.iter().flatten().enumerate() {
        let node = item.numa_node.unwrap_or_default();
        for (kind, amount) in &item.limits {
            let path = format!("reservedMemory[{index}].limits.{kind}");
            if !seen.insert((node, kind)) {
                breaches.add(&path, format!("is reserved twice for NUMA node {node}"));
            }
            if kind != "memory" && !kind.starts_with("hugepages-") {
                breaches.add(&path, "must be memory or hugepages-<size>");
            }
            if amount.amount() == QuantityText::zero().amount() {
                breaches.add(&path, "must not be zero");
            }
        }
    }
}

fn eviction(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    for (field, thresholds) in [("evictionHard", &kc.eviction_hard), ("evictionSoft", &kc.eviction_soft)] {
        for (signal, text) in thresholds.iter().flatten() {
            let path = format!("{field}.{signal}");
            if known_signal(signal, &path, breaches)
                && let Err(wrong) = node::threshold(text)
            {
                breaches.add(&path, wrong.to_string());
            }
        }
    }
    for signal in kc.eviction_soft.iter().flat_map(|soft| soft.keys()) {
        if !kc.eviction_soft_grace_period.as_ref().is_some_and(|periods| periods.contains_key(signal)) {
            breaches.add(&format!("evictionSoft.{signal}"), "needs an entry in evictionSoftGracePeriod");
        }
    }
    for (signal, period) in kc.eviction_soft_grace_period.iter().flatten() {
        let path = format!("evictionSoftGracePeriod.{signal}");
        known_signal(signal, &path, breaches);
        match period.parse::<GoDuration>() {
            Ok(period) => breaches.not_negative(&path, Some(period)),
            Err(error) => breaches.add(&path, error.to_string()),
        }
    }
    for (signal, text) in kc.eviction_minimum_reclaim.iter().flatten() {
        let path = format!("evictionMinimumReclaim.{signal}");
        if known_signal(signal, &path, breaches)
            && let Err(wrong) = min_reclaim(text)
        {
            breaches.add(&path, wrong.to_string());
        }
    }
    let longest = kc.eviction_max_pod_grace_period.map(i64::from);
    breaches.at_least("evictionMaxPodGracePeriod", longest, 0);
}

/// Whether there is such a signal; otherwise it is reported.
fn known_signal(name: &str, path: &str, breaches: &mut Breaches) -> bool {
    let is_known = Signal::named(name).is_some();
    if !is_known {
        let names = Signal::ALL.map(Signal::name).join(", ");
        breaches.add(path, format!("must be one of {names}"));
    }
    is_known
}

/// As upstream, except that an entry without effect is an error: a negative period, and a priority that is listed twice.
fn shutdown(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let total = kc.shutdown_grace_period.unwrap_or_default();
    let critical = kc.shutdown_grace_period_critical_pods.unwrap_or_default();
    let gate = |gate: &str| gates::enabled(gate, kc.feature_gates.as_ref());
    for (path, period) in [("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)] {
        if !period.is_zero() && !gate(gates::GRACEFUL_SHUTDOWN) {
            breaches.add(path, format!("needs the feature gate {}", gates::GRACEFUL_SHUTDOWN));
        } else if !period.is_zero() && period < GoDuration::from_secs(1) {
            breaches.add(path, format!("{period} must be zero, or 1s or more"));
        }
    }
    if critical > total {
        breaches.add("shutdownGracePeriodCriticalPods", "must not be above shutdownGracePeriod");
    }
    const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
    let by_priority = kc.shutdown_grace_period_by_pod_priority.as_deref().unwrap_or_default();
    if by_priority.is_empty() {
        return;
    }
    if !gate(gates::GRACEFUL_SHUTDOWN_BY_PRIORITY) {
        breaches.add(BY_PRIORITY, format!("needs the feature gate {}", gates::GRACEFUL_SHUTDOWN_BY_PRIORITY));
    }
    if !(total.is_zero() && critical.is_zero()) {
        breaches.add(BY_PRIORITY, "cannot be combined with shutdownGracePeriod");
    }
    let mut priorities = BTreeSet::new();
    for (index, entry) in by_priority.iter().enumerate() {
        breaches.at_least(
            &format!("{BY_PRIORITY}[{index}].shutdownGracePeriodSeconds"),
            entry.shutdown_grace_period_seconds,
            0,
        );
        let priority = entry.priority.unwrap_or_default();
        if !priorities.insert(priority) {
            let path = format!("{BY_PRIORITY}[{index}].priority");
            breaches.add(&path, format!("{priority} is listed twice; remove one of the two"));
        }
    }
}

/// Fields that need or exclude each other.
fn exclusions(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let filled = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    if filled(&kc.system_cgroups) && !filled(&kc.cgroup_root) {
        breaches.add("systemCgroups", "needs cgroupRoot");
    }
    if kc.system_cgroups.as_deref() == Some("/") {
        breaches.add("systemCgroups", "cannot be the root; name a cgroup, such as /system");
    }
    if kc.run_once == Some(true) {
        breaches.add("runOnce", "is no longer supported; remove it");
    }
    if kc.enable_system_log_query == Some(true) && kc.enable_system_log_handler == Some(false) {
        breaches.add("enableSystemLogQuery", "needs enableSystemLogHandler: true");
    }
    let gate = |gate: &str| gates::enabled(gate, kc.feature_gates.as_ref());
    if kc.enable_system_log_query == Some(true) && !gate("NodeLogQuery") {
        breaches.add("enableSystemLogQuery", "needs the feature gate NodeLogQuery");
    }
    if kc.server_tls_bootstrap == Some(true) && !gate("RotateKubeletServerCertificate") {
        breaches.add("serverTLSBootstrap", "needs the feature gate RotateKubeletServerCertificate");
    }
    let tiered = kc.memory_reservation_policy == Some(MemoryReservationPolicy::TieredReservation);
    if tiered && !gate(gates::MEMORY_QOS) {
        breaches.add("memoryReservationPolicy", "TieredReservation needs the feature gate MemoryQoS");
    }
    for (index, taint) in kc.register_with_taints.iter().flatten().enumerate() {
        if taint.time_added.is_some() {
            breaches.add(&format!("registerWithTaints[{index}].timeAdded"), "cannot be set here");
        }
    }
}

/// Sysctls that the node permits to pods: namespaced ones only, by name or with a `*` at the end.
fn sysctls(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    const NAMESPACED: [&str; 3] = ["kernel.shm", "kernel.msg", "kernel.sem"];
    for (index, pattern) in kc.allowed_unsafe_sysctls.iter().flatten().enumerate() {
        let path = format!("allowedUnsafeSysctls[{index}]");
        let dotted = pattern.replace('/', ".");
        let name = dotted.strip_suffix('*').unwrap_or(&dotted);
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if name.is_empty() || !plain {
            breaches.add(
                &path,
                format!("{pattern:?} is not the name of a sysctl, or a start of one followed by *"),
            );
        } else if !NAMESPACED.iter().any(|prefix| name.starts_with(prefix))
            && !["net.", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
        {
            breaches.add(
                &path,
                format!("{pattern:?} is not namespaced; setting it in one pod would change the host"),
            );
        }
    }
}

fn traces(kc: &KubeletConfiguration, breaches: &mut Breaches) {
    let Some(tracing) = &kc.tracing else { return };
    breaches.between("tracing.samplingRatePerMillion", tracing.sampling_rate_per_million, 0..=1_000_000);
    if let Some(Err(error)) = tracing.endpoint.as_deref().map(str::parse::<Collector>) {
        breaches.add("tracing.endpoint", error.to_string());
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
