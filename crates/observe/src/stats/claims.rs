//! How full the volumes of claims are, as metrics. The names and labels are upstream's.

use std::collections::BTreeSet;

use hostlet_pod::DesiredPods;
use hostlet_pod::objects::claim_name;
use hostlet_telemetry::{Metrics, Reading};
use tokio::sync::watch;

use super::storage::VolumeUsage;
use super::task::StorageStats;

/// A family: its name, what it is, and its value.
type FamilyOf = (&'static str, &'static str, fn(&VolumeUsage) -> u64);

const FAMILIES: [FamilyOf; 6] = [
    ("kubelet_volume_stats_available_bytes", "Number of available bytes in the volume.", |volume| {
        volume.filesystem.available
    }),
    ("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume.", |volume| {
        volume.filesystem.capacity
    }),
    ("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume.", |volume| {
        volume.filesystem.inodes
    }),
    ("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume.", |volume| {
        volume.filesystem.inodes_free
    }),
    ("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume.", |volume| {
        volume.space.inodes
    }),
    ("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume.", |volume| volume.space.bytes),
];

impl StorageStats {
    /// Registers the volumes of these pods' claims, as far as they are measured. A claim of several pods counts once.
    pub fn register(&self, metrics: &Metrics, desired_pods: &watch::Receiver<DesiredPods>) {
        for (name, help, value) in FAMILIES {
            let (stats, desired_pods) = (self.clone(), desired_pods.clone());
            metrics.register_gauge(name, help, move || stats.of_claims(&desired_pods.borrow(), value));
        }
    }

    fn of_claims(&self, desired: &DesiredPods, value: fn(&VolumeUsage) -> u64) -> Vec<Reading> {
        let storage = self.storage();
        let storage = storage.borrow();
        let mut seen = BTreeSet::new();
        let mut readings = Vec::new();
        for pod in &desired.pods {
            let Some(storage) = storage.get(&pod.reference.uid) else { continue };
            for volume in pod.spec().volumes.iter().flatten() {
                let claim = claim_name(&pod.reference.name, volume);
                let (Some(claim), Some(usage)) = (claim, storage.volumes.get(&volume.name)) else { continue };
                let namespace = &pod.reference.namespace;
                if seen.insert((namespace, claim.clone())) {
                    let namespace = ("namespace", namespace.to_string());
                    let labels = vec![namespace, ("persistentvolumeclaim", claim)];
                    readings.push((labels, value(usage)));
                }
            }
        }
        readings
    }
}
