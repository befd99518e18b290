//! Volumes of drivers with the owners that ship and a driver in memory: what a worker asks for arrives at the driver, and nothing is left.

use std::path::Path;

use hostlet_csi::fake::{FakeDriver, Method, Outcome};
use hostlet_csi::{
    CsiSettings, KnownDrivers, NoAttachments, NodeCapabilities, NodeService, Services, found_on_disk,
};
use hostlet_host::testing::FakeMounts;
use hostlet_store::Store;
use tempfile::TempDir;
use tonic::Code;

use super::*;

const DRIVER: &str = "csi.example.com";

/// A host with a driver that stages, whose daemon can be started again.
struct Life {
    root: TempDir,
    mounts: FakeMounts,
    driver: FakeDriver,
    objects: FakeObjects,
    store: Store,
    services: watch::Sender<Services>,
}

/// A daemon, which ends when it is dropped.
struct Daemon {
    volumes: Volumes,
    _tasks: JoinSet<()>,
}

impl Life {
    fn new(mode: &str) -> Self {
        let mounts = FakeMounts::default();
        let capabilities = NodeCapabilities { stage: true, ..NodeCapabilities::default() };
        let objects = FakeObjects::new(WallClock::system());
        let source = json!({"driver": DRIVER, "volumeHandle": "vol-1", "volumeAttributes": {"a": "b"}});
        let spec = json!({"csi": source, "volumeMode": mode, "accessModes": ["ReadWriteOnce"]});
        let volume = json!({"metadata": {"name": "pv-1"}, "spec": spec});
        let volume = Arc::new(serde_json::from_value(volume).unwrap());
        objects.set_claim("ns", "claim", ClaimState::Bound(volume));
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("pods").join(UID)).unwrap();
        let driver = FakeDriver::new(capabilities).with_mounts(mounts.clone());
        let life = Self {
            root,
            mounts,
            driver,
            objects,
            store: Store::default(),
            services: watch::Sender::default(),
        };
        life.register();
        life
    }

    fn register(&self) {
        let service: Arc<dyn NodeService> = Arc::new(self.driver.clone());
        self.services.send_replace([(DRIVER.to_owned(), service)].into());
    }

    fn root(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    fn start(&self) -> Daemon {
        let mounts: Arc<dyn Mounts> = Arc::new(self.mounts.clone());
        let settings = CsiSettings {
            root: self.root(),
            node: "node-1".to_owned(),
            boot: "1".to_owned(),
            mounts: mounts.clone(),
            store: self.store.clone(),
            services: self.services.subscribe(),
            clock: WallClock::system(),
        };
        let (owners, csi) = CsiVolumes::new(settings, found_on_disk(&self.root()));
        let spec = Arc::new(serde_json::from_value(json!({"attachRequired": false})).unwrap());
        let known = KnownDrivers { specs: [(DRIVER.into(), spec)].into(), is_listed: true };
        let (task, volumes) = Volumes::new(VolumeSettings {
            root: self.root(),
            node: NODE,
            labels: Arc::new(BTreeMap::new),
            mounts,
            objects: Arc::new(self.objects.clone()),
            csi,
            drivers: DriverObjects::new(watch::channel(known).1),
            expansions: None,
            file_label: None,
            clock: WallClock::system(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(owners.run(Arc::new(NoAttachments), None, CancellationToken::new()));
        tasks.spawn(task.run(CancellationToken::new()));
        Daemon { volumes, _tasks: tasks }
    }

    fn pod(&self) -> PathBuf {
        self.root().join("pods").join(UID)
    }

    /// Nothing of the volume is left, and the driver was called as the specification says.
    fn is_clean(&self) {
        assert_eq!(self.driver.violations(), Vec::<String>::new());
        assert!(self.driver.published().is_empty() && self.driver.staged().is_empty());
        assert_eq!(self.mounts.now().within(Path::new("/")).count(), 0);
        for left in
            ["volumes/kubernetes.io~csi/pv-1", "volumeDevices/kubernetes.io~csi/pv-1", "volume-subpaths"]
        {
            assert!(self.pod().join(left).symlink_metadata().is_err(), "{left}");
        }
    }
}

fn pod_with_data() -> Arc<AdmittedPod> {
    pod(
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}, {"name": "e", "emptyDir": {}}]),
    )
}

impl Daemon {
    async fn set_up(&self) -> PodVolumes {
        let subject = VolumeOwner { pod: pod_with_data(), memory_limit: None };
        self.volumes.set_up(subject).await.unwrap()
    }

    async fn changed(&self) {
        tokio::time::timeout(PATIENCE, self.volumes.changed()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_staged_published_used_and_taken_back_by_the_next_daemon() {
    let life = Life::new("Filesystem");
    let daemon = life.start();
    let volumes = daemon.set_up().await;
    assert_eq!(volumes.problems, []);
    let place = life.pod().join("volumes/kubernetes.io~csi/pv-1/mount");
    assert_eq!(volumes.mounted["data"].host_path, place);
    assert_eq!(life.driver.published().keys().collect::<Vec<_>>(), [&place]);
    daemon.volumes.mount_part(part(UID, place.clone())).await.unwrap();
    // The next daemon asks for nothing again.
    drop(daemon);
    let calls = life.driver.calls().len();
    let daemon = life.start();
    let volumes = daemon.set_up().await;
    assert_eq!((volumes.problems.len(), &volumes.mounted["data"].host_path), (0, &place));
    let again: Vec<_> = life.driver.calls()[calls..].iter().map(|call| call.method()).collect();
    assert!(!again.contains(&Method::Stage) && !again.contains(&Method::Publish), "{again:?}");
    daemon.volumes.tear_down(&UID.into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    life.is_clean();
}

#[tokio::test(start_paused = true)]
async fn a_device_is_given_to_containers_and_taken_back() {
    let life = Life::new("Block");
    let daemon = life.start();
    let volumes = daemon.set_up().await;
    assert_eq!(volumes.problems, []);
    let link = life.pod().join("volumeDevices/kubernetes.io~csi/pv-1");
    assert_eq!(volumes.devices["data"].host_path, link);
    let published = life.root().join("plugins/kubernetes.io/csi/volumeDevices/publish/pv-1").join(UID);
    assert_eq!(std::fs::read_link(&link).unwrap(), published);
    daemon.volumes.tear_down(&UID.into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    life.is_clean();
    assert!(!life.root().join("plugins/kubernetes.io/csi/volumeDevices/pv-1/dev").exists());
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_registers_late_or_fails_at_first_is_waited_for() {
    let life = Life::new("Filesystem");
    life.services.send_replace(Services::default());
    let daemon = life.start();
    let text = daemon.set_up().await.problems.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("not found in the list of registered CSI drivers"), "{text}");
    life.driver.next(Method::Publish, [Outcome::Fails(Code::Internal)]);
    life.register();
    daemon.changed().await;
    let mut texts = Vec::new();
    loop {
        let volumes = daemon.set_up().await;
        if volumes.is_ready("data") {
            break;
        }
        texts.extend(volumes.problems.iter().map(ToString::to_string));
        daemon.changed().await;
    }
    assert!(texts.iter().any(|text| text.contains("rpc error: code = Internal")), "{texts:?}");
    daemon.volumes.tear_down(&UID.into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    life.is_clean();
}
