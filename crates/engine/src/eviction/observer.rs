//! Observes the node and its pods with what statistics measure. Measures pods only when somebody asks: that is, when a threshold is
//! crossed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::PodUid;
use hostlet_base::node::{Pressure, Signal};
use hostlet_observe::stats::{
    ContainerDisk, ContainerUsage, Detail, DiskStats, DiskUsage, MeasureError, PodPlaces, PodStorage,
    PodUsage, SignalReader, SignalReport, StorageStats, UsageStats, VolumePlace,
};
use hostlet_pod::{AdmittedPod, DesiredPods};
use hostlet_volume::{local_volume_dir, own_volume_dir};
use k8s_openapi::api::core::v1::Volume;
use tokio::sync::watch;
use tokio::time::timeout;

use super::alarms::{KernelAlarms, MemoryNotice};
use super::usage::{ContainerConsumption, DiskSpace, NodeObserver, PodConsumption, PodsConsumption};

/// How often volumes are measured while disks are full.
const VOLUME_PACE: Duration = Duration::from_secs(10);
/// How long volumes that were not measured yet are waited for.
const VOLUME_PATIENCE: Duration = Duration::from_secs(10);

/// Observes a real node: memory, processes and disks as statistics measure them.
pub struct StatsObserver {
    /// Of the node's resources.
    pub signals: SignalReader,
    /// Of memory and processes.
    pub usage: UsageStats,
    /// The kernel's own word on memory.
    pub alarms: KernelAlarms,
    /// Of writable layers and logs.
    pub disks: DiskStats,
    /// Of volumes.
    pub storage: StorageStats,
    /// The pods whose volumes are measured.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// The daemon's directory.
    pub root_dir: PathBuf,
}

#[async_trait]
impl NodeObserver for StatsObserver {
    async fn look(&self) -> SignalReport {
        let report = self.signals.look().await;
        // Measured a moment ago, for the report.
        if let Ok(usage) = self.usage.usage(Detail::Node).await {
            self.alarms.refresh(&usage);
        }
        report
    }

    async fn noticed(&self) -> MemoryNotice {
        self.alarms.noticed().await
    }

    async fn pods(&self, starved: Signal) -> Result<PodsConsumption, Arc<MeasureError>> {
        let (usage, disks) = match starved.pressure() {
            Pressure::Memory | Pressure::Pid => (self.usage.usage(Detail::Summary).await?, None),
            Pressure::Disk => {
                let (usage, disks, volumes) =
                    tokio::join!(self.usage.usage(Detail::Summary), self.disks.usage(), self.volumes());
                (usage?, Some((disks?, volumes)))
            }
        };
        let running = usage.pods.iter().filter(|pod| !pod.containers.is_empty());
        let of_disks = disks.as_ref().map(|(disks, _)| &**disks);
        let consumption = running.map(|pod| (pod.pod.uid.clone(), of_pod(pod, of_disks)));
        let mut consumption: PodsConsumption = consumption.collect();
        if let Some((_, volumes)) = &disks {
            let desired = self.desired_pods.borrow().clone();
            add_volumes(&mut consumption, &desired, volumes);
        }
        Ok(consumption)
    }
}

impl StatsObserver {
    /// What volumes take. Waits for those that were not measured yet, but not for long: one may be huge, or on a slow disk.
    async fn volumes(&self) -> BTreeMap<PodUid, PodStorage> {
        let places = volume_places(&self.desired_pods.borrow(), &self.root_dir, VOLUME_PACE);
        let mut storage = self.storage.storage();
        self.storage.ask(places.clone());
        let is_measured = |storage: &BTreeMap<PodUid, PodStorage>| {
            places.iter().all(|(uid, places)| {
                let known = storage.get(uid).map(|storage| &storage.volumes);
                places.volumes.keys().all(|name| known.is_some_and(|known| known.contains_key(name)))
            })
        };
        // An error means that the time is over, or that the daemon ends.
        let _ = timeout(VOLUME_PATIENCE, storage.wait_for(is_measured)).await;
        storage.borrow().clone()
    }
}

/// The volumes that the daemon makes for pods that have not ended, each measured at this pace.
pub fn volume_places(desired: &DesiredPods, root: &Path, pace: Duration) -> BTreeMap<PodUid, PodPlaces> {
    let of = |pod: &AdmittedPod| {
        let uid = &pod.reference.uid;
        let place = |volume: &Volume| {
            let path = own_volume_dir(root, uid, volume)?;
            Some((volume.name.clone(), VolumePlace { path, enough: u64::MAX, pace }))
        };
        let volumes = pod.spec().volumes.iter().flatten().filter_map(place).collect();
        PodPlaces { pod: pod.reference.clone(), volumes, external: BTreeMap::new(), containers: None }
    };
    let alive = desired.pods.iter().filter(|pod| !pod.has_ended());
    alive.map(|pod| (pod.reference.uid.clone(), of(pod))).collect()
}

fn of_pod(pod: &PodUsage, disks: Option<&DiskUsage>) -> PodConsumption {
    let processes = pod.containers.iter().filter_map(|container| container.unit.as_ref());
    PodConsumption {
        memory: pod.usage().map(|usage| usage.memory.working_set),
        processes: processes.map(|unit| unit.usage.processes.processes).sum(),
        volumes: DiskSpace::default(),
        containers: pod
            .containers
            .iter()
            .map(|container| {
                let disk = disks.and_then(|disks| disks.containers.get(&container.id));
                (container.name.clone(), of_container(container, disk))
            })
            .collect(),
    }
}

fn of_container(container: &ContainerUsage, disk: Option<&ContainerDisk>) -> ContainerConsumption {
    let layer = disk.and_then(|disk| disk.layer);
    let logs = disk.and_then(|disk| disk.logs);
    ContainerConsumption {
        memory: container.unit.as_ref().map(|unit| unit.usage.memory.working_set),
        layer: layer.map(|layer| DiskSpace { bytes: layer.bytes, inodes: layer.inodes.unwrap_or_default() }),
        logs: logs.map(|logs| DiskSpace { bytes: logs.bytes, inodes: logs.inodes }),
        image: container.image.clone(),
    }
}

/// Adds what volumes take, also those of pods of which nothing runs now: between two starts of a container, or after a reboot.
fn add_volumes(
    consumption: &mut PodsConsumption,
    desired: &DesiredPods,
    measured: &BTreeMap<PodUid, PodStorage>,
) {
    for pod in desired.pods.iter().filter(|pod| !pod.has_ended()) {
        let uid = &pod.reference.uid;
        let volumes = measured.get(uid).map(|measured| of_volumes(pod, measured)).unwrap_or_default();
        if volumes != DiskSpace::default() {
            consumption.entry(uid.clone()).or_default().volumes = volumes;
        }
    }
}

/// What counts as local storage of a pod (upstream's `IsLocalEphemeralVolume`).
fn of_volumes(pod: &AdmittedPod, measured: &PodStorage) -> DiskSpace {
    let is_local = |volume: &&Volume| local_volume_dir(Path::new("/"), &pod.reference.uid, volume).is_some();
    let local = pod.spec().volumes.iter().flatten().filter(is_local);
    let measured = local.filter_map(|volume| measured.volumes.get(&volume.name));
    measured.fold(DiskSpace::default(), |sum, usage| {
        sum.plus(DiskSpace { bytes: usage.space.bytes, inodes: usage.space.inodes })
    })
}

#[cfg(test)]
mod tests {
    use hostlet_host::SpaceUsage;
    use hostlet_observe::stats::VolumeUsage;
    use serde_json::json;

    use super::super::testing::pod;
    use super::*;

    /// Its volume may be what fills the disk, and nobody else's end would help.
    #[test]
    fn a_pod_of_which_nothing_runs_now_counts_with_its_volumes_unless_it_has_ended() {
        let with_volume = |name: &str, phase: &str| {
            pod(name).edited(|pod| {
                let volumes = json!([{"name": "data", "emptyDir": {}}]);
                pod.spec.get_or_insert_default().volumes = serde_json::from_value(volumes).unwrap();
                pod.status = serde_json::from_value(json!({"phase": phase})).unwrap();
            })
        };
        let running = ["running", "crashing"].map(|name| with_volume(name, "Running"));
        let pods = running.into_iter().chain([with_volume("ended", "Failed"), pod("without")]).collect();
        let desired = DesiredPods { pods, ..DesiredPods::default() };
        let space = SpaceUsage { bytes: 500, inodes: 3 };
        let volume = ("data".to_owned(), VolumeUsage { space, ..VolumeUsage::default() });
        let storage = PodStorage { volumes: [volume].into(), containers: None };
        let measured =
            ["running", "crashing", "ended"].map(|uid| (PodUid::from(uid), storage.clone())).into();
        let of_running = PodConsumption { processes: 2, ..PodConsumption::default() };
        let mut consumption: PodsConsumption = [(PodUid::from("running"), of_running.clone())].into();
        add_volumes(&mut consumption, &desired, &measured);
        let volumes = DiskSpace { bytes: 500, inodes: 3 };
        let expected: PodsConsumption = [
            (PodUid::from("running"), PodConsumption { volumes, ..of_running }),
            (PodUid::from("crashing"), PodConsumption { volumes, ..PodConsumption::default() }),
        ]
        .into();
        assert_eq!(consumption, expected);
    }
}
