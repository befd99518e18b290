//! What dashboards, alerts and autoscalers look for in the metrics, and how they relate to the stock kubelet's and to `docs/metrics.md`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{FakeApiServer, Look, wait_for};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::json;

use crate::metrics::get;
use crate::support::{PODS, SOON, is_ready};

/// The families and labels in the queries of the kubernetes-mixin for kubelets: its dashboard and its alerts.
const QUERIED: [(&str, &[&str]); 34] = [
    ("kubelet_node_name", &["node"]),
    ("kubelet_running_pods", &[]),
    ("kubelet_running_containers", &["container_state"]),
    ("volume_manager_total_volumes", &["plugin_name", "state"]),
    ("kubelet_runtime_operations_total", &["operation_type"]),
    ("kubelet_runtime_operations_duration_seconds_bucket", &["operation_type", "le"]),
    ("kubelet_pod_start_duration_seconds_count", &[]),
    ("kubelet_pod_start_duration_seconds_bucket", &["le"]),
    ("kubelet_pod_worker_duration_seconds_count", &["operation_type"]),
    ("kubelet_pod_worker_duration_seconds_bucket", &["operation_type", "le"]),
    ("kubelet_volume_stats_available_bytes", &OF_CLAIMS),
    ("kubelet_volume_stats_capacity_bytes", &OF_CLAIMS),
    ("kubelet_volume_stats_inodes", &OF_CLAIMS),
    ("kubelet_volume_stats_inodes_free", &OF_CLAIMS),
    ("kubelet_volume_stats_inodes_used", &OF_CLAIMS),
    ("kubelet_volume_stats_used_bytes", &OF_CLAIMS),
    ("storage_operation_duration_seconds_count", &["operation_name", "volume_plugin", "status", "migrated"]),
    ("storage_operation_duration_seconds_bucket", &["operation_name", "volume_plugin", "le"]),
    ("kubelet_cgroup_manager_duration_seconds_count", &["operation_type"]),
    ("kubelet_cgroup_manager_duration_seconds_bucket", &["operation_type", "le"]),
    ("kubelet_pleg_relist_duration_seconds_count", &[]),
    ("kubelet_pleg_relist_duration_seconds_bucket", &["le"]),
    ("kubelet_pleg_relist_interval_seconds_bucket", &["le"]),
    ("rest_client_requests_total", &["code", "method", "host"]),
    ("rest_client_request_duration_seconds_bucket", &["verb", "host", "le"]),
    ("process_resident_memory_bytes", &[]),
    ("process_cpu_seconds_total", &[]),
    ("process_start_time_seconds", &[]),
    ("kubernetes_build_info", &["git_version", "major", "minor"]),
    ("kubelet_certificate_manager_client_ttl_seconds", &[]),
    ("kubelet_certificate_manager_client_expiration_renew_errors", &[]),
    ("kubelet_pod_start_sli_duration_seconds_bucket", &["le"]),
    ("kubelet_pod_status_sync_duration_seconds_bucket", &["le"]),
    ("kubelet_started_containers_total", &["container_type"]),
];

/// The same of hostlet's own families in `packaging/monitoring/`, as far as every node of a cluster has series of them.
const OWN: [(&str, &[&str]); 9] = [
    ("hostlet_node_ready", &[]),
    ("hostlet_loop_overdue", &["loop"]),
    ("hostlet_runtime_calls_hung", &[]),
    ("hostlet_api_connections_lost_total", &["purpose"]),
    ("hostlet_store_write_errors_total", &[]),
    ("hostlet_start_gate_waiting", &[]),
    ("hostlet_pod_step_duration_seconds_count", &["step"]),
    ("hostlet_kernel_problems_total", &["reason"]),
    ("hostlet_kernel_log_readable", &[]),
];

/// The labels of volumes of claims.
const OF_CLAIMS: [&str; 2] = ["namespace", "persistentvolumeclaim"];

/// The labels of the samples of each name, and the types of the families.
struct Scrape {
    samples: BTreeMap<String, Vec<BTreeSet<String>>>,
    types: BTreeMap<String, String>,
}

impl Scrape {
    fn parse(text: &str) -> Self {
        let (mut samples, mut types) = (BTreeMap::<String, Vec<BTreeSet<String>>>::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                types.extend(typed.split_once(' ').map(|(name, kind)| (name.to_owned(), kind.to_owned())));
            } else if let Some(end) = line.find(['{', ' ']).filter(|_| !line.starts_with('#')) {
                let labels = line.get(end..).unwrap_or_default().split("=\"");
                let names = labels.filter_map(|part| part.rsplit(['{', ',']).next()).map(str::to_owned);
                samples.entry(line[..end].to_owned()).or_default().push(names.collect());
            }
        }
        Self { samples, types }
    }

    fn has(&self, name: &str, labels: &[&str]) -> bool {
        let mut samples = self.samples.get(name).into_iter().flatten();
        samples.any(|found| labels.iter().all(|label| found.contains(*label)))
    }
}

/// The families in the table of `docs/metrics.md`, without those that are left out, or only those.
fn documented(left_out: bool) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md"))?;
    let (served, rest) = text.split_once("<!-- left out: begin -->").context("the table is missing")?;
    let rows = if left_out { rest } else { served }.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    Ok(cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect())
}

fn matches(family: &str, pattern: &str) -> bool {
    pattern.strip_suffix('*').map_or(family == pattern, |prefix| family.starts_with(prefix))
}

/// A claim that is bound to a directory of the host.
pub(crate) fn bind_claim(host: &FakeHost, server: &FakeApiServer, name: &str) -> Result<()> {
    let disk = host.directory().join("disk");
    std::fs::create_dir(&disk)?;
    let claim = json!({
        "metadata": {"name": name, "namespace": "default", "uid": "claim-1"},
        "spec": {"volumeName": "disk"}, "status": {"phase": "Bound"},
    });
    let claim: PersistentVolumeClaim = serde_json::from_value(claim)?;
    let path = format!("/api/v1/namespaces/default/persistentvolumeclaims/{name}");
    let claim = server.api().put(&path, &claim);
    let volume = json!({
        "metadata": {"name": "disk"},
        "spec": {"local": {"path": disk}, "claimRef": {"name": name, "namespace": "default", "uid": claim.metadata.uid}},
    });
    let volume: PersistentVolume = serde_json::from_value(volume)?;
    server.api().put("/api/v1/persistentvolumes/disk", &volume);
    Ok(())
}

#[tokio::test]
async fn dashboards_and_alerts_find_their_series_and_families_are_the_stock_kubelets() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    let daemon = host.join(&server, "").await.unwrap();
    let metadata = json!({"name": "a", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"});
    let container = json!({"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"});
    let spec = json!({
        "nodeName": host.node(), "restartPolicy": "Always", "containers": [container],
        "volumes": [
            {"name": "v", "emptyDir": {}}, {"name": "disk", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    });
    bind_claim(&host, &server, "data").unwrap();
    let path = format!("{PODS}/a");
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    server.api().put(&path, &pod);
    wait_for("a running pod", SOON, async || {
        let shown = server.api().get::<Pod>(&path);
        Ok(if shown.as_ref().is_some_and(is_ready) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{shown:?}"))
        })
    })
    .await
    .unwrap();
    let socket = daemon.socket().to_string_lossy().into_owned();
    // Cgroups of pods need root, and a hierarchy that is delegated; the tests on containerd have them.
    let is_out_of_reach = |name: &str| name.starts_with("kubelet_cgroup_manager");
    let scrape = wait_for("every series", SOON, async || {
        let scrape = Scrape::parse(&get(&socket, "/metrics")?);
        let wanted = QUERIED.iter().chain(&OWN);
        let missing = wanted.filter(|(name, labels)| !is_out_of_reach(name) && !scrape.has(name, labels));
        let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
        Ok(if missing.is_empty() { Look::Done(scrape) } else { Look::NotYet(format!("missing {missing:?}")) })
    });
    compare(&scrape.await.unwrap()).unwrap();
}

/// Each family has the stock kubelet's type or is hostlet's own, and is documented; each family of the stock kubelet is served or listed as
/// left out.
fn compare(scrape: &Scrape) -> Result<()> {
    let golden = include_str!("../../golden/metrics-types.txt").lines();
    let golden: BTreeMap<&str, &str> =
        golden.filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let (served, left_out) = (documented(false)?, documented(true)?);
    for (family, kind) in &scrape.types {
        if let Some(stock) = golden.get(family.as_str()) {
            ensure!(stock == kind, "{family} is a {kind}, the stock kubelet's is a {stock}");
        }
        ensure!(served.contains(family), "{family} is not in docs/metrics.md");
    }
    for family in golden.keys() {
        let is_left_out = left_out.iter().any(|pattern| matches(family, pattern));
        ensure!(
            served.contains(*family) != is_left_out,
            "{family} of the stock kubelet is in neither or in both tables of docs/metrics.md"
        );
    }
    Ok(())
}
