//! Metrics of volumes, with upstream's names and labels. A volume of a claim counts under the plugin of its PersistentVolume, and under
//! that of claims until it is known which that is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_pod::AdmittedPod;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::Volume;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::kinds::empty_dir;
use super::kinds::registry::kind_of;
use super::ready::PodVolumes;

/// Upstream's buckets of `storage_operation_duration_seconds`.
const OPERATION_BUCKETS: [f64; 13] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

const DESIRED: &str = "desired_state_of_world";
const ACTUAL: &str = "actual_state_of_world";

/// The plugin of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plugin {
    /// Upstream's name.
    pub(super) name: Arc<str>,
    /// Whether it serves the volume in place of one that was part of Kubernetes.
    pub(super) is_migrated: bool,
}

/// The labels of an operation.
type Labels = [(&'static str, Cow<'static, str>); 4];

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct VolumeMetrics {
    totals: Family<[(&'static str, Cow<'static, str>); 2], Gauge>,
    operations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for VolumeMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(OPERATION_BUCKETS);
        Self { totals: Family::default(), operations: Family::new_with_constructor(histogram) }
    }
}

impl VolumeMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "volume_manager_total_volumes",
            "Number of volumes in Volume Manager",
            self.totals.clone(),
        );
        metrics.register(
            "storage_operation_duration_seconds",
            "Storage operation duration",
            self.operations.clone(),
        );
    }

    fn total(&self, state: &'static str, plugin: &Plugin, change: i64) {
        let labels = [("plugin_name", plugin.name.to_string().into()), ("state", state.into())];
        self.totals.get_or_create(&labels).inc_by(change);
    }

    fn operation(&self, name: &'static str, plugin: &Plugin, is_done: bool, took: Duration) {
        let status = if is_done { "success" } else { "fail-unknown" };
        let labels = [
            ("migrated", if plugin.is_migrated { "true" } else { "false" }.into()),
            ("operation_name", name.into()),
            ("status", status.into()),
            ("volume_plugin", plugin.name.to_string().into()),
        ];
        self.operations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// The share of one pod. Dropping it takes its volumes from the totals.
#[derive(Debug)]
pub(super) struct PodShare {
    metrics: VolumeMetrics,
    desired: BTreeMap<String, Plugin>,
    mounted: BTreeMap<String, Plugin>,
}

impl PodShare {
    pub(super) fn new(metrics: VolumeMetrics) -> Self {
        Self { metrics, desired: BTreeMap::new(), mounted: BTreeMap::new() }
    }

    /// Counts the volumes of the pod after an attempt to set them up, which took this long. `plugins` are those of volumes whose spec does
    /// not name them.
    pub(super) fn set_up(
        &mut self,
        pod: &AdmittedPod,
        volumes: &PodVolumes,
        plugins: &BTreeMap<String, Plugin>,
        took: Duration,
    ) {
        let named = |volume: &Volume| {
            let known = plugins.get(&volume.name).cloned();
            (
                volume.name.clone(),
                known.unwrap_or_else(|| Plugin { name: plugin(volume).into(), is_migrated: false }),
            )
        };
        let desired: BTreeMap<String, Plugin> = pod.host_volumes().map(named).collect();
        let mounted: BTreeMap<String, Plugin> =
            desired.iter().filter(|(name, _)| volumes.is_ready(name)).map(owned).collect();
        for (name, plugin) in desired.iter().filter(|(name, _)| !self.mounted.contains_key(*name)) {
            self.metrics.operation("volume_mount", plugin, mounted.contains_key(name), took);
        }
        self.replace(desired, mounted);
    }

    /// Counts an attempt to tear all of them down.
    pub(super) fn torn_down(&mut self, is_done: bool, took: Duration) {
        for plugin in self.mounted.values() {
            self.metrics.operation("volume_unmount", plugin, is_done, took);
        }
        let mounted = if is_done { BTreeMap::new() } else { self.mounted.clone() };
        self.replace(BTreeMap::new(), mounted);
    }

    fn replace(&mut self, desired: BTreeMap<String, Plugin>, mounted: BTreeMap<String, Plugin>) {
        let before = std::mem::replace(&mut self.desired, desired);
        self.change(DESIRED, &before, &self.desired);
        let before = std::mem::replace(&mut self.mounted, mounted);
        self.change(ACTUAL, &before, &self.mounted);
    }

    fn change(&self, state: &'static str, before: &BTreeMap<String, Plugin>, now: &BTreeMap<String, Plugin>) {
        before.values().for_each(|plugin| self.metrics.total(state, plugin, -1));
        now.values().for_each(|plugin| self.metrics.total(state, plugin, 1));
    }
}

impl Drop for PodShare {
    fn drop(&mut self) {
        self.replace(BTreeMap::new(), BTreeMap::new());
    }
}

fn owned((name, plugin): (&String, &Plugin)) -> (String, Plugin) {
    (name.clone(), plugin.clone())
}

/// Upstream's name of the plugin for a volume by its spec.
fn plugin(volume: &Volume) -> &'static str {
    // The default of the API server for a volume without a source.
    kind_of(volume).map_or(empty_dir::DIRECTORY.plugin, |kind| kind.plugin())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ready::Mounted;
    use super::*;

    fn pod(volumes: Value) -> std::sync::Arc<AdmittedPod> {
        let spec = json!({"containers": [{"name": "c"}], "volumes": volumes});
        let pod: k8s_openapi::api::core::v1::Pod =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        AdmittedPod::new(pod)
    }

    #[test]
    fn volumes_count_as_desired_and_as_mounted_until_they_are_torn_down() {
        let (all, metrics) = (Metrics::default(), VolumeMetrics::default());
        metrics.register(&all);
        let pod = pod(json!([{"name": "e", "emptyDir": {}}, {"name": "m", "configMap": {"name": "m"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]));
        let mounted = Mounted { host_path: "/e".into(), read_only: false, relabel: false };
        let volumes = PodVolumes { mounted: [("e".to_owned(), mounted)].into(), ..PodVolumes::default() };
        let mut share = PodShare::new(metrics);
        let second = Duration::from_secs(1);
        let plugins = BTreeMap::from([(
            "c".to_owned(),
            Plugin { name: "kubernetes.io/csi:d".into(), is_migrated: true },
        )]);
        // The empty directory is made once; the other one fails twice.
        share.set_up(&pod, &volumes, &plugins, second);
        share.set_up(&pod, &volumes, &plugins, second);
        let has = |lines: &[&str]| {
            let text = all.encode();
            lines.iter().for_each(|line| assert!(text.contains(&format!("{line}\n")), "{line}: {text}"));
        };
        has(&[
            "volume_manager_total_volumes{plugin_name=\"kubernetes.io/empty-dir\",state=\"actual_state_of_world\"} 1",
            "volume_manager_total_volumes{plugin_name=\"kubernetes.io/configmap\",state=\"desired_state_of_world\"} 1",
            "volume_manager_total_volumes{plugin_name=\"kubernetes.io/csi:d\",state=\"desired_state_of_world\"} 1",
            "_count{migrated=\"false\",operation_name=\"volume_mount\",status=\"success\",volume_plugin=\"kubernetes.io/empty-dir\"} 1",
            "_count{migrated=\"false\",operation_name=\"volume_mount\",status=\"fail-unknown\",volume_plugin=\"kubernetes.io/configmap\"} 2",
            "_count{migrated=\"true\",operation_name=\"volume_mount\",status=\"fail-unknown\",volume_plugin=\"kubernetes.io/csi:d\"} 2",
        ]);
        share.torn_down(true, second);
        drop(share);
        has(&[
            "volume_manager_total_volumes{plugin_name=\"kubernetes.io/empty-dir\",state=\"actual_state_of_world\"} 0",
            "volume_manager_total_volumes{plugin_name=\"kubernetes.io/configmap\",state=\"desired_state_of_world\"} 0",
            "_count{migrated=\"false\",operation_name=\"volume_unmount\",status=\"success\",volume_plugin=\"kubernetes.io/empty-dir\"} 1",
        ]);
    }
}
