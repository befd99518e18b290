//! Tests of the measurements in paused time, on the fake runtime and a tree of files.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{ContainerId, PodRef, PodUid, WallClock};
use hostlet_host::{FilesystemUsage, SpaceUsage};
use hostlet_pod::{AdmittedPod, DesiredPods, DriverVolume, ExternalVolume, ExternalVolumes};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Failure, FakeRuntime, Fault, Rule};
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::testing::run;
use super::{
    ContainerStorage, DriverAnswer, DriverStats, DriverStatsError, PodPlaces, PodStorage, StorageSettings,
    StorageStats, VolumePlace,
};
use crate::log::LogLayout;
use crate::pleg::Pleg;

const INTERVAL: Duration = Duration::from_secs(10);

/// What a driver answers; `None` while it does not.
type Answers = Arc<Mutex<BTreeMap<String, Option<Option<DriverAnswer>>>>>;

struct Bench {
    /// What drivers say of volumes, by handle.
    answers: Answers,
    root: TempDir,
    fake: FakeRuntime,
    logs: LogLayout,
    stats: StorageStats,
    storage: watch::Receiver<BTreeMap<PodUid, PodStorage>>,
    external: watch::Sender<ExternalVolumes>,
    _tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        let (root, fake) = (TempDir::new().unwrap(), FakeRuntime::new());
        fake.add_image("img");
        let logs = LogLayout {
            pod_logs_dir: root.path().join("log/pods"),
            containers_dir: root.path().join("log/containers"),
        };
        let mut tasks = JoinSet::new();
        let runtime = Arc::new(fake.clone());
        let (pleg, handle) = Pleg::new(runtime.clone(), StdRng::seed_from_u64(1));
        tasks.spawn(pleg.run(CancellationToken::new()));
        let external = watch::Sender::new(ExternalVolumes::new());
        let answers = Answers::default();
        let of = answers.clone();
        let drivers: DriverStats = Arc::new(move |volume, _| {
            let answer = of.lock().get(&volume.handle).cloned().flatten();
            Box::pin(async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            })
        });
        let (task, stats) = StorageStats::new(StorageSettings {
            runtime,
            observed: handle.cache().clone(),
            logs: logs.clone(),
            root_dir: root.path().to_owned(),
            external: external.subscribe(),
            external_pace: Some(INTERVAL * 6),
            drivers,
            clock: WallClock::system(),
        });
        tasks.spawn(task.run(CancellationToken::new()));
        let storage = stats.storage();
        Self { answers, root, fake, logs, stats, storage, external, _tasks: tasks }
    }

    /// Starts a container of the pod.
    async fn run(&self, pod: &PodRef, name: &str) -> ContainerId {
        run(&self.fake, pod, name).await.1
    }

    fn write(&self, path: &str, kib: usize) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; kib << 10]).unwrap();
    }

    fn places(&self, pod: &PodRef, volumes: &[(&str, u64)], containers: bool) -> PodPlaces {
        let place = |(name, enough): &(&str, u64)| {
            let path = self.root.path().join("volumes").join(name);
            ((*name).to_owned(), VolumePlace::limited(path, *enough))
        };
        PodPlaces {
            pod: pod.clone(),
            volumes: volumes.iter().map(place).collect(),
            external: BTreeMap::new(),
            containers: containers.then(|| self.root.path().join("etc-hosts")),
        }
    }

    fn measure(&self, places: &[PodPlaces]) {
        self.stats.measure(places.iter().map(|p| (p.pod.uid.clone(), p.clone())).collect());
    }

    /// Waits until the storage of a pod is as expected.
    async fn until(&mut self, pod: &PodRef, is_so: impl Fn(&PodStorage) -> bool) -> PodStorage {
        let wait = self.storage.wait_for(|all| all.get(&pod.uid).is_some_and(&is_so));
        let all = timeout(Duration::from_secs(600), wait).await.expect("not measured in time").unwrap();
        all[&pod.uid].clone()
    }

    /// Sets the volumes that outlive their pods, each with its directory below the root.
    fn set_external(&self, volumes: &[(&PodRef, &str, &str)]) {
        let mut all = ExternalVolumes::new();
        for (pod, name, dir) in volumes {
            let dir = self.root.path().join(dir);
            let volume = ExternalVolume { unit: dir.clone(), dir, driver: None };
            all.entry((*pod).clone()).or_default().insert((*name).to_owned(), volume);
        }
        self.external.send_replace(all);
    }

    /// Sets the volumes of drivers: the pod, the volume and its handle, the driver, whether it is a block device.
    fn set_driver_volumes(&self, volumes: &[(&PodRef, &str, &str, bool)]) {
        let mut all = ExternalVolumes::new();
        for (pod, name, driver, is_block) in volumes {
            let driver =
                DriverVolume { driver: (*driver).into(), handle: (*name).to_owned(), is_block: *is_block };
            let dir = self.root.path().join("volumes");
            let volume = ExternalVolume { unit: dir.clone(), dir, driver: Some(driver) };
            all.entry((*pod).clone()).or_default().insert((*name).to_owned(), volume);
        }
        self.external.send_replace(all);
    }

    fn stats_calls(&self) -> usize {
        self.fake.calls_of(Operation::ListContainerStats).len()
    }
}

fn pod(name: &str) -> PodRef {
    PodRef::new("default", name, name)
}

#[tokio::test(start_paused = true)]
async fn what_counts_is_measured_and_measured_again() {
    let mut bench = Bench::new();
    let web = pod("web");
    let (app, _side, gone) =
        (bench.run(&web, "app").await, bench.run(&web, "side").await, bench.run(&web, "gone").await);
    bench.fake.set_written(&app, 5_000);
    bench.fake.set_written(&gone, 7_000);
    bench.fake.exit_container(&gone, 0);
    sleep(Duration::from_secs(3)).await;
    let dir = bench.logs.pod_dir(&web);
    let dir = dir.strip_prefix(bench.root.path()).unwrap().to_str().unwrap().to_owned();
    // Logs of earlier instances count, those of containers that do not run do not.
    bench.write(&format!("{dir}/app/0.log"), 8);
    bench.write(&format!("{dir}/app/1.log"), 4);
    bench.write(&format!("{dir}/gone/0.log"), 400);
    bench.write(&format!("{dir}/note"), 4);
    bench.write("etc-hosts", 1);
    bench.write("volumes/data/file", 64);
    bench.measure(&[bench.places(&web, &[("data", u64::MAX), ("empty", u64::MAX)], true)]);
    let storage = bench.until(&web, |it| it.containers.is_some() && it.volumes.len() == 2).await;
    let containers = storage.containers.clone().unwrap();
    let names: Vec<&str> = containers.by_name.keys().map(|name| &**name).collect();
    assert_eq!(names, ["app", "side"]);
    let expected = ContainerStorage { writable_layer: 5_000, logs: 12 << 10, ..containers.by_name["app"] };
    assert_eq!(containers.by_name["app"], expected);
    assert_eq!(containers.pod_files, 8 << 10);
    let data = storage.volumes["data"];
    assert!(data.space.bytes >= 64 << 10 && data.space.bytes < 90 << 10, "{storage:?}");
    assert_eq!(data.space.inodes, 2);
    assert!(data.filesystem.capacity > 0);
    assert_eq!(storage.volumes["empty"].space.bytes, 0);

    bench.write("volumes/data/more", 64);
    bench.fake.set_written(&app, 6_000);
    bench.until(&web, |it| it.volumes["data"].space.bytes >= 128 << 10).await;
    bench.until(&web, |it| it.containers.as_ref().unwrap().by_name["app"].writable_layer == 6_000).await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_limits_cost_nothing() {
    let bench = Bench::new();
    let (web, other) = (pod("web"), pod("other"));
    bench.run(&web, "app").await;
    bench.run(&other, "app").await;
    sleep(INTERVAL * 20).await;
    assert_eq!(bench.stats_calls(), 0);
    bench.measure(&[bench.places(&web, &[("data", 1)], false)]);
    sleep(INTERVAL * 20).await;
    assert_eq!(bench.stats_calls(), 0, "a limit of a volume needs no stats of containers");
    bench.measure(&[bench.places(&web, &[], true)]);
    sleep(INTERVAL * 10).await;
    let calls = bench.fake.calls_of(Operation::ListContainerStats);
    assert!((10..=11).contains(&calls.len()), "{}", calls.len());
    assert!(calls.iter().all(|call| call.pod.as_ref() == Some(&web.uid)));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_measured_until_it_is_no_longer_asked_for() {
    let mut bench = Bench::new();
    let web = pod("web");
    bench.write("volumes/data/file", 4);
    bench.measure(&[bench.places(&web, &[("data", u64::MAX)], false)]);
    bench.until(&web, |it| !it.volumes.is_empty()).await;
    bench.measure(&[]);
    timeout(INTERVAL, bench.storage.wait_for(BTreeMap::is_empty)).await.unwrap().unwrap();
    // The same again is measured at once.
    bench.measure(&[bench.places(&web, &[("data", u64::MAX)], false)]);
    bench.until(&web, |it| !it.volumes.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_fails_or_hangs_delays_no_volume_and_no_other_pod_for_long() {
    let mut bench = Bench::new();
    let (bad, good) = (pod("bad"), pod("good"));
    bench.run(&bad, "app").await;
    let app = bench.run(&good, "app").await;
    bench.fake.set_written(&app, 1);
    sleep(Duration::from_secs(3)).await;
    let failure = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
    bench.fake.faults().add(Rule::new(Operation::ListContainerStats, Fault::Hang).pod(&bad.uid).times(1));
    bench.fake.faults().add(Rule::new(Operation::ListContainerStats, failure).pod(&good.uid).times(2));
    bench.write("volumes/data/file", 4);
    bench.measure(&[
        bench.places(&bad, &[("data", u64::MAX)], true),
        bench.places(&good, &[("data", u64::MAX)], true),
    ]);
    bench.until(&bad, |it| !it.volumes.is_empty()).await;
    let good = bench.until(&good, |it| it.containers.is_some()).await;
    assert_eq!(good.containers.unwrap().by_name["app"].writable_layer, 1);
    assert_eq!(bench.storage.borrow()[&bad.uid].containers, None);
}

#[tokio::test(start_paused = true)]
async fn volumes_without_limits_are_measured_while_somebody_asks() {
    let mut bench = Bench::new();
    let (web, other) = (pod("web"), pod("other"));
    for volume in ["data", "free"] {
        bench.write(&format!("volumes/{volume}/file"), 64);
    }
    bench.measure(&[bench.places(&web, &[("data", 1)], false)]);
    bench.until(&web, |it| it.volumes.len() == 1).await;
    let asked = |bench: &Bench| {
        let mut places = [
            bench.places(&web, &[("data", u64::MAX), ("free", u64::MAX)], false),
            bench.places(&other, &[("free", 1)], false),
        ];
        for place in places.iter_mut().flat_map(|places| places.volumes.values_mut()) {
            place.pace = INTERVAL * 6;
        }
        bench.stats.ask(places.into_iter().map(|places| (places.pod.uid.clone(), places)).collect());
    };
    asked(&bench);
    bench.until(&other, |it| it.volumes.len() == 1).await;
    // What has a limit is measured as often as before, and now beyond that limit.
    bench.until(&web, |it| it.volumes.len() == 2 && it.volumes["data"].space.bytes >= 64 << 10).await;
    let at = |bench: &Bench, volume: &str| bench.storage.borrow()[&web.uid].volumes[volume].at;
    let before = (at(&bench, "data"), at(&bench, "free"));
    sleep(INTERVAL * 2).await;
    let after = (at(&bench, "data"), at(&bench, "free"));
    assert!(after.0 > before.0 && after.1 == before.1, "{before:?} {after:?}");
    // Asking again and again keeps them.
    for _ in 0..20 {
        sleep(INTERVAL * 6).await;
        asked(&bench);
    }
    assert!(at(&bench, "free") > after.1);
    // Nobody asks any more.
    sleep(INTERVAL * 70).await;
    let storage = bench.storage.borrow();
    assert_eq!(storage.keys().collect::<Vec<_>>(), [&web.uid]);
    assert_eq!(storage[&web.uid].volumes.keys().collect::<Vec<_>>(), ["data"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_volume_that_outlives_its_pod_the_filesystem_is_measured_all_the_time() {
    let mut bench = Bench::new();
    let (web, other) = (pod("web"), pod("other"));
    bench.write("volumes/data/file", 4);
    bench.measure(&[bench.places(&web, &[("data", u64::MAX)], false)]);
    bench.set_external(&[
        (&web, "disk", "volumes"),
        (&other, "disk", "missing"),
        (&other, "fine", "volumes"),
    ]);
    let storage = bench.until(&web, |it| it.volumes.len() == 2).await;
    let disk = storage.volumes["disk"];
    assert!(disk.filesystem.capacity > 0, "{disk:?}");
    let used = (disk.filesystem.used, disk.filesystem.inodes_used());
    assert_eq!((disk.space.bytes, disk.space.inodes), used);
    bench.until(&other, |it| it.volumes.keys().eq(["fine"])).await;
    let at = |bench: &Bench| bench.storage.borrow()[&web.uid].volumes["disk"].at;
    sleep(INTERVAL * 5).await;
    assert_eq!(at(&bench), disk.at);
    sleep(INTERVAL * 2).await;
    assert!(at(&bench) > disk.at);
    bench.set_external(&[]);
    bench.until(&web, |it| it.volumes.keys().eq(["data"])).await;
    assert_eq!(bench.storage.borrow().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_two_pods_has_one_series_of_each_family() {
    let mut bench = Bench::new();
    let (web, other) = (pod("web"), pod("other"));
    bench.write("volumes/data/file", 4);
    bench.set_external(&[(&web, "disk", "volumes"), (&other, "disk", "volumes"), (&other, "nfs", "volumes")]);
    bench.until(&web, |it| it.volumes.len() == 1).await;
    bench.until(&other, |it| it.volumes.len() == 2).await;
    let desired = |pod: &PodRef| {
        let volumes = json!([
            {"name": "disk", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "nfs", "nfs": {"server": "s", "path": "/"}},
            {"name": "new", "persistentVolumeClaim": {"claimName": "not-measured"}},
        ]);
        let metadata = json!({"name": &*pod.name, "namespace": "default", "uid": pod.uid.as_str()});
        let object = json!({"metadata": metadata, "spec": {"containers": [], "volumes": volumes}});
        AdmittedPod::new(serde_json::from_value::<Pod>(object).unwrap())
    };
    let pods = DesiredPods { ready: true, pods: vec![desired(&web), desired(&other)], kills: [].into() };
    let metrics = Metrics::default();
    bench.stats.register(&metrics, &watch::channel(pods).1);
    let text = metrics.encode();
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let usage = bench.storage.borrow()[&web.uid].volumes["disk"];
    let filesystem = usage.filesystem;
    let values = [
        ("available_bytes", filesystem.available),
        ("capacity_bytes", filesystem.capacity),
        ("inodes", filesystem.inodes),
        ("inodes_free", filesystem.inodes_free),
        ("inodes_used", filesystem.inodes_used()),
        ("used_bytes", filesystem.used),
    ];
    let labels = "{namespace=\"default\",persistentvolumeclaim=\"claim\"}";
    let expected = values.map(|(name, value)| format!("kubelet_volume_stats_{name}{labels} {value}"));
    assert_eq!(samples, expected);
}

#[tokio::test(start_paused = true)]
async fn drivers_are_asked_and_one_that_hangs_delays_no_other() {
    let mut bench = Bench::new();
    let (web, other) = (pod("web"), pod("other"));
    bench.write("volumes/data/file", 4);
    let filesystem = FilesystemUsage { capacity: 7, ..FilesystemUsage::default() };
    let said = Some(Some(Ok((SpaceUsage { bytes: 5, inodes: 6 }, filesystem))));
    {
        let mut answers = bench.answers.lock();
        answers.insert("said".to_owned(), said.clone());
        answers.insert("device".to_owned(), said);
        // The driver cannot measure.
        answers.insert("unknown".to_owned(), Some(None));
        answers.insert("raw".to_owned(), Some(None));
        answers.insert("failed".to_owned(), Some(Some(Err(DriverStatsError("no".to_owned())))));
    }
    let hanging: Vec<String> = (0..20).map(|number| format!("hangs-{number}")).collect();
    let mut volumes = vec![
        (&web, "device", "good", true),
        (&web, "failed", "good", false),
        (&web, "raw", "plain", true),
        (&web, "said", "good", false),
        (&web, "unknown", "plain", false),
    ];
    volumes.extend(hanging.iter().map(|name| (&other, name.as_str(), "bad", false)));
    bench.set_driver_volumes(&volumes);
    let storage = bench.until(&web, |it| it.volumes.len() == 3).await;
    assert_eq!(storage.volumes.keys().collect::<Vec<_>>(), ["device", "said", "unknown"]);
    for name in ["device", "said"] {
        let usage = storage.volumes[name];
        assert_eq!((usage.space.bytes, usage.space.inodes, usage.filesystem.capacity), (5, 6, 7));
    }
    assert!(storage.volumes["unknown"].filesystem.capacity > 7, "its filesystem");
    sleep(INTERVAL * 20).await;
    assert!(!bench.storage.borrow().contains_key(&other.uid));
}
