//! Volumes of this host that grow with their claims, with claims that are only recorded, in paused time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{PodRef, WallClock};
use hostlet_csi::{ClaimOfPod, DriverObjects, Expansions, Growth, KnownDrivers, Protocol, StandIn};
use hostlet_host::testing::{in_mount_namespace, skipped};
use hostlet_host::{HostDisks, Mounts};
use hostlet_pod::AdmittedPod;
use hostlet_pod::objects::{ClaimState, FakeObjects};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::testing::{Disk, FakeDisks, FakeMounts, Host, NODE, UID, block_device, pod};
use crate::threads::DeviceLocks;
use crate::{PodVolumes, VolumeOwner, VolumeSettings, Volumes};

const GI: i64 = 1 << 30;

/// Claims of 10 GiB, whose PersistentVolumes are as large as was set.
#[derive(Clone, Default)]
struct FakeClaims {
    desired: Arc<Mutex<i64>>,
    told: watch::Sender<Vec<String>>,
    is_silent: Arc<AtomicBool>,
}

impl FakeClaims {
    async fn tells(&self, count: usize) -> Vec<String> {
        self.told.subscribe().wait_for(|told| told.len() >= count).await.unwrap().clone()
    }
}

#[async_trait]
impl Expansions for FakeClaims {
    async fn look(&self, of: &ClaimOfPod, at: Moment, size: NodeSize) -> Result<Look, ClaimUpdateError> {
        if self.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let desired = *self.desired.lock();
        if desired <= size.known.unwrap_or(10 * GI) {
            return Ok(Look::Unchanged(Some(10 * GI)));
        }
        self.told.send_modify(|told| told.push(format!("{} of {} {at:?}", of.name, of.volume)));
        let growth = Growth {
            claim: Arc::default(),
            quantity: Default::default(),
            size: desired,
            protocol: Protocol::Legacy,
        };
        Ok(Look::Grow(Box::new(growth)))
    }

    async fn grown(
        &self,
        _: &ClaimOfPod,
        _: Moment,
        growth: &Growth,
        result: &Result<(), GrowError>,
    ) -> Result<(), ClaimUpdateError> {
        let text = result.as_ref().map_or_else(ToString::to_string, |()| (growth.size / GI).to_string());
        self.told.send_modify(|told| told.push(text));
        Ok(())
    }
}

struct Room {
    _host: Host,
    claims: FakeClaims,
    volumes: Volumes,
    source: TempDir,
    _tasks: JoinSet<()>,
}

impl Room {
    /// A pod's claim whose volume is a directory of this host.
    fn new() -> Self {
        let (host, source) = (Host::new(), tempfile::tempdir().unwrap());
        let (mounts, local) = (Arc::new(host.mounts.clone()), json!({"path": source.path()}));
        Self::on(host, source, mounts, &local)
    }

    /// One whose volume is this one.
    fn on(host: Host, source: TempDir, mounts: Arc<dyn Mounts>, local: &Value) -> Self {
        let clock = WallClock::of_tokio("2026-11-21T07:00:00Z".parse().unwrap());
        let claims = FakeClaims::default();
        let objects = FakeObjects::new(clock.clone());
        let volume = json!({
            "metadata": {"name": "pv-1"},
            "spec": {"local": local, "claimRef": {"name": "data", "namespace": "ns"}},
        });
        objects.set_claim("ns", "data", ClaimState::Bound(Arc::new(serde_json::from_value(volume).unwrap())));
        let (_, csi, answers) = StandIn::new();
        let (task, volumes) = Volumes::new(VolumeSettings {
            root: host.root.path().to_owned(),
            node: NODE,
            labels: Arc::new(BTreeMap::new),
            mounts,
            objects: Arc::new(objects),
            csi,
            drivers: DriverObjects::new(watch::channel(KnownDrivers::default()).1),
            expansions: Some(Arc::new(claims.clone())),
            file_label: None,
            clock,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(CancellationToken::new()));
        tasks.spawn(answers);
        Self { _host: host, claims, volumes, source, _tasks: tasks }
    }

    async fn set_up(&self, pod: &Arc<AdmittedPod>) -> PodVolumes {
        self.volumes.set_up(VolumeOwner { pod: pod.clone(), memory_limit: None }).await.unwrap()
    }
}

fn claiming(more: Value) -> Arc<AdmittedPod> {
    let mut claim = json!({"claimName": "data"});
    claim.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod(json!([{"name": "v", "persistentVolumeClaim": claim}]))
}

#[tokio::test(start_paused = true)]
async fn a_volume_grows_before_its_pod_uses_it_and_meanwhile_until_that_ends() {
    let room = Room::new();
    *room.claims.desired.lock() = 20 * GI;
    let volumes = room.set_up(&claiming(json!({}))).await;
    assert_eq!((volumes.problems.as_slice(), volumes.is_ready("v")), (&[] as &[_], true));
    assert_eq!(*room.claims.told.borrow(), ["data of pv-1 Mounting", "20"]);
    *room.claims.desired.lock() = 30 * GI;
    assert_eq!(room.claims.tells(4).await[2..], ["data of pv-1 InUse", "30"]);
    room.volumes.tear_down(&UID.into()).await.unwrap();
    *room.claims.desired.lock() = 40 * GI;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(room.claims.told.borrow().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_only_read_does_not_grow_while_it_is_used() {
    let room = Room::new();
    room.set_up(&claiming(json!({"readOnly": true}))).await;
    *room.claims.desired.lock() = 20 * GI;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(room.claims.told.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_grow_is_not_used_before_it_does_and_is_usable_meanwhile_otherwise() {
    let room = Room::new();
    *room.claims.desired.lock() = 20 * GI;
    room.claims.is_silent.store(true, Ordering::Relaxed);
    assert!(room.set_up(&claiming(json!({}))).await.is_ready("v"), "no pod waits for the API server");
    room.claims.is_silent.store(false, Ordering::Relaxed);
    room.claims.tells(2).await;
    // What is at the path is no volume any more.
    fs::remove_dir(room.source.path()).unwrap();
    fs::write(room.source.path(), "").unwrap();
    *room.claims.desired.lock() = 30 * GI;
    assert_eq!(room.claims.tells(4).await[3], "only directory and block device are supported");
    assert!(room.set_up(&claiming(json!({}))).await.is_ready("v"));
    fs::remove_file(room.source.path()).unwrap();
    fs::create_dir(room.source.path()).unwrap();
    room.claims.told.subscribe().wait_for(|told| told.last().unwrap() == "30").await.unwrap();
}

#[test]
fn a_filesystem_grows_to_its_device_and_one_that_cannot_is_not_used() {
    in_mount_namespace(|dir, mounts| {
        let Some(disk) = Disk::new(dir) else { return skipped("needs loop devices and mkfs.ext4") };
        let local = |fs_type: &str| json!({"path": disk.path(), "fsType": fs_type});
        let (mounts, pod) = (mounts.clone(), claiming(json!({})));
        let room = |fs_type: &str| {
            Room::on(Host::new(), tempfile::tempdir().unwrap(), Arc::new(mounts.clone()), &local(fs_type))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // Upstream grows none of this type either.
            let ext2 = room("ext2");
            *ext2.claims.desired.lock() = 20 * GI;
            let volumes = ext2.set_up(&pod).await;
            let problem = volumes.problems[0].to_string();
            let expected = "MountVolume.Setup failed while expanding volume for volume \"pv-1\" : ResizeFS.Resize - resize of format ext2";
            assert!(problem.starts_with(expected) && !volumes.is_ready("v"), "{problem}");
            assert!(!ext2.set_up(&pod).await.is_ready("v"), "nor at the next attempt");
            *ext2.claims.desired.lock() = 10 * GI;
            assert!(ext2.set_up(&pod).await.is_ready("v"));
            ext2.volumes.tear_down(&UID.into()).await.unwrap();
            disk.wipe();
            let ext4 = room("ext4");
            let volumes = ext4.set_up(&pod).await;
            let at = volumes.mounted["v"].host_path.clone();
            fs::write(at.join("file"), "precious").unwrap();
            let blocks = || nix::sys::statvfs::statvfs(&at).unwrap().blocks();
            let before = blocks();
            disk.resize(64 << 20);
            let (disks, devices) = (HostDisks, DeviceLocks::default());
            let means = Means { mounts: &mounts, disks: &disks, devices: &devices };
            match grow_on_host(&growable(&at, disk.path()), means) {
                Ok(()) => assert!(blocks() > before * 3, "{} after {before}", blocks()),
                // Growing a mounted ext4 takes CAP_SYS_RESOURCE.
                Err(error) => {
                    let text = error.to_string();
                    let expected = format!("resize of device {} failed: exit status: 1.", disk.path().display());
                    assert!(text.starts_with(&expected) && text.contains("Permission denied"), "{text}");
                    assert!(!has_capability(SYS_RESOURCE), "{text}");
                }
            }
            assert_eq!(fs::read_to_string(at.join("file")).unwrap(), "precious");
            ext4.volumes.tear_down(&UID.into()).await.unwrap();
        });
    });
}

/// CAP_SYS_RESOURCE (capabilities(7)).
const SYS_RESOURCE: u32 = 24;

fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() >> number & 1 == 1
}

fn growable(at: &Path, path: &Path) -> Growable {
    let (pod, name) = (PodRef::new("ns", "a", "uid-a"), "data".to_owned());
    let claim = ClaimOfPod { pod, name, volume: "pv-1".to_owned(), read_only: false };
    let form = GrowableForm::Mounted { at: at.to_owned(), ready: "/ready".into() };
    Growable { claim, path: path.to_owned(), form }
}

#[test]
fn only_the_filesystem_of_a_device_grows() {
    let Some(path) = block_device() else { return skipped("needs a block device") };
    let (mounts, disks, devices) = (FakeMounts::default(), FakeDisks::default(), DeviceLocks::default());
    let means = Means { mounts: &mounts, disks: &disks, devices: &devices };
    let volume = growable(Path::new("/pod/pv-1"), &path);
    grow_on_host(&volume, means).unwrap();
    grow_on_host(&Growable { form: GrowableForm::Device, ..volume.clone() }, means).unwrap();
    let dir = tempfile::tempdir().unwrap();
    grow_on_host(&Growable { path: dir.path().into(), ..volume }, means).unwrap();
    assert_eq!(disks.calls(), [format!("grow {} /pod/pv-1", path.display())]);
}
