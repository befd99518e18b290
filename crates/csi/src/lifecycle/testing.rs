//! A host for tests of the life of volumes: a daemon that can be killed, a driver, a cluster that attaches, a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{PodRef, PodUid, WallClock, watching};
use hostlet_host::testing::FakeMounts;
use hostlet_host::{Origin, PodDirs, pods_dir};
use hostlet_store::Store;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::fake::FakeDriver;
use crate::{
    AccessMode, AttachError, Attachments, ClaimOfPod, ClaimUpdateError, CsiSettings, CsiVolumes, Expansions,
    Form, GrowError, Growth, Look, Moment, NodeCapabilities, NodeService, NodeSize, PodStates, Protocol,
    Publish, PublishState, ReleaseError, Secrets, Services, VolumeId, found_on_disk,
};

/// The driver of all tests.
pub(super) const DRIVER: &str = "csi.example.com";

/// How long a test waits for something that comes.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// A cluster: what it has attached, and what the Node's status says.
#[derive(Clone, Default)]
pub(super) struct FakeCluster {
    pub(super) reported: watch::Sender<BTreeSet<String>>,
    pub(super) attached: watch::Sender<BTreeSet<String>>,
    /// Whether the node has no room for more volumes.
    pub(super) is_full: Arc<AtomicBool>,
}

#[async_trait]
impl Attachments for FakeCluster {
    async fn reported_in_use(&self, volume: &VolumeId) {
        let name = volume.unique_name();
        watching::becomes(&mut self.reported.subscribe(), |reported| reported.contains(&name)).await;
    }

    async fn attached(&self, volume: &VolumeId) -> Result<BTreeMap<String, String>, AttachError> {
        let name = volume.unique_name();
        if self.is_full.load(Ordering::Relaxed) {
            return Err(AttachError::Exhausted(name));
        }
        let mut attached = self.attached.subscribe();
        let is_attached = watching::becomes(&mut attached, |attached| attached.contains(&name));
        match timeout(Duration::from_secs(120), is_attached).await {
            Ok(()) => Ok(BTreeMap::from([("device".to_owned(), "/dev/x".to_owned())])),
            Err(_) => Err(AttachError::NotInNodeStatus),
        }
    }
}

/// What claims say of the sizes of volumes, and what they learned.
#[derive(Clone, Default)]
pub(super) struct FakeExpansions {
    /// The size that a volume is to have, by its handle.
    pub(super) desired: watch::Sender<BTreeMap<String, i64>>,
    /// The sizes of claims, by handle.
    pub(super) claims: Arc<Mutex<BTreeMap<String, i64>>>,
    /// What was published: `vol-1: 20` or `vol-1: <error>`.
    pub(super) published: Arc<Mutex<Vec<String>>>,
    /// Whether the API server says nothing.
    pub(super) is_silent: Arc<AtomicBool>,
    pub(super) looks: Arc<AtomicUsize>,
}

/// The size of each claim at first.
pub(super) const SIZE: i64 = 10;

#[async_trait]
impl Expansions for FakeExpansions {
    async fn look(&self, of: &ClaimOfPod, at: Moment, size: NodeSize) -> Result<Look, ClaimUpdateError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.is_silent.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
        let handle = &of.volume.replace("pv", "vol");
        let claimed = self.claims.lock().get(handle).copied().unwrap_or(SIZE);
        let desired = self.desired.borrow().get(handle).copied().unwrap_or(SIZE);
        let known = match at {
            Moment::Mounting => claimed,
            Moment::InUse => size.known.unwrap_or(claimed),
        };
        if desired <= known {
            return Ok(Look::Unchanged(Some(known)));
        }
        let protocol = Protocol::Recovery { gives_up: size.has_failed };
        let quantity = Quantity(desired.to_string());
        Ok(Look::Grow(Box::new(Growth { claim: Arc::default(), quantity, size: desired, protocol })))
    }

    async fn grown(
        &self,
        of: &ClaimOfPod,
        _at: Moment,
        growth: &Growth,
        result: &Result<(), GrowError>,
    ) -> Result<(), ClaimUpdateError> {
        let handle = of.volume.replace("pv", "vol");
        let text = result.as_ref().map_or_else(ToString::to_string, |()| growth.size.to_string());
        self.published.lock().push(format!("{handle}: {text}"));
        if result.is_ok() {
            self.claims.lock().insert(handle, growth.size);
        }
        Ok(())
    }
}

/// A daemon that runs.
struct Daemon {
    volumes: CsiVolumes,
    task: JoinSet<()>,
}

/// The host.
pub(super) struct Host {
    pub(super) dir: TempDir,
    pub(super) driver: FakeDriver,
    pub(super) cluster: FakeCluster,
    pub(super) claims: FakeExpansions,
    pub(super) store: Store,
    pub(super) services: watch::Sender<Services>,
    mounts: FakeMounts,
    boot: u32,
    daemon: Option<Daemon>,
}

impl Host {
    /// A host whose driver can stage, with a daemon.
    pub(super) fn new() -> Self {
        Self::with(NodeCapabilities { stage: true, ..NodeCapabilities::default() })
    }

    pub(super) fn with(capabilities: NodeCapabilities) -> Self {
        let mounts = FakeMounts::default();
        let driver = FakeDriver::new(capabilities).with_mounts(mounts.clone());
        let mut host = Self {
            dir: tempfile::tempdir().unwrap(),
            driver,
            cluster: FakeCluster::default(),
            claims: FakeExpansions::default(),
            store: Store::default(),
            services: watch::Sender::default(),
            mounts,
            boot: 1,
            daemon: None,
        };
        host.register();
        host.start();
        host
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(super) fn register(&self) {
        let service: Arc<dyn NodeService> = Arc::new(self.driver.clone());
        self.services.send_replace(BTreeMap::from([(DRIVER.to_owned(), service)]));
    }

    pub(super) fn deregister(&self) {
        self.services.send_replace(Services::default());
    }

    pub(super) fn start(&mut self) {
        let settings = CsiSettings {
            root: self.root(),
            node: "node-1".to_owned(),
            boot: self.boot.to_string(),
            mounts: Arc::new(self.mounts.clone()),
            store: self.store.clone(),
            services: self.services.subscribe(),
            clock: WallClock::system(),
        };
        let (task, volumes) = CsiVolumes::new(settings, found_on_disk(&self.root()));
        let mut running = JoinSet::new();
        let (attachments, expansions) = (Arc::new(self.cluster.clone()), Arc::new(self.claims.clone()));
        running.spawn(task.run(attachments, Some(expansions), CancellationToken::new()));
        self.daemon = Some(Daemon { volumes, task: running });
    }

    /// Kills the daemon, wherever it is.
    pub(super) async fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.task.shutdown().await;
        }
    }

    pub(super) async fn restart(&mut self) {
        self.kill().await;
        self.start();
    }

    pub(super) async fn reboot(&mut self) {
        self.kill().await;
        self.driver.reboot();
        self.boot += 1;
        self.start();
    }

    pub(super) fn volumes(&self) -> &CsiVolumes {
        &self.daemon.as_ref().unwrap().volumes
    }

    /// A pod wants a volume.
    pub(super) async fn want(&self, desired: Publish) {
        let dirs = PodDirs::new(&self.root(), &desired.pod).unwrap();
        fs::create_dir_all(dirs.path()).unwrap();
        self.volumes().publish(desired).await;
    }

    pub(super) async fn release(&self, pod: &str) -> Result<(), ReleaseError> {
        timeout(PATIENCE, self.volumes().release(&pod.into())).await.unwrap()
    }

    /// Waits for a state of a pod's volume.
    pub(super) async fn becomes(
        &self,
        pod: &str,
        name: &str,
        is: impl Fn(&PublishState) -> bool,
    ) -> PublishState {
        let mut states = self.volumes().follow(&pod.into());
        let found = |states: &PodStates| states.get(name).is_some_and(&is);
        let states = timeout(PATIENCE, states.wait_for(found)).await.unwrap().unwrap().clone();
        states[name].clone()
    }

    pub(super) async fn published(&self, pod: &str, name: &str) -> PathBuf {
        match self.becomes(pod, name, |state| matches!(state, PublishState::Published(_))).await {
            PublishState::Published(published) => published.path,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn failed(&self, pod: &str, name: &str) -> String {
        match self.becomes(pod, name, |state| matches!(state, PublishState::Failed(_))).await {
            PublishState::Failed(text) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Mounts something else on a path.
    pub(super) fn mount_again(&self, path: &Path) {
        self.mounts.add(path, "ext4", Origin::default());
    }

    /// Removes the topmost mount at a path.
    pub(super) fn unmount(&self, path: &Path) {
        assert!(self.mounts.remove(path));
    }

    /// What remains of volumes below the daemon's directory: files and mount points.
    pub(super) fn remains(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let root = self.root();
        let mut waiting = vec![root.join("plugins"), pods_dir(&root)];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
                if name == "mount" || name == "globalmount" || path.is_file() {
                    found.insert(shown(&root, &path));
                } else {
                    waiting.push(path);
                }
            }
        }
        found
    }

    pub(super) fn rows(&self) -> Vec<String> {
        self.store.keys(hostlet_store::Table::CsiVolumes)
    }
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().display().to_string()
}

pub(super) fn id(handle: &str) -> VolumeId {
    VolumeId { driver: DRIVER.to_owned(), handle: handle.to_owned() }
}

/// What a pod wants of the volume `vol-<n>` behind the PersistentVolume `pv-<n>`.
pub(super) fn desired(pod: &str, n: u32) -> Publish {
    Publish {
        id: id(&format!("vol-{n}")),
        pod: PodUid::from(pod),
        spec_name: format!("pv-{n}"),
        is_ephemeral: false,
        is_attached: false,
        form: Form::Filesystem { fs_type: "ext4".to_owned(), options: vec!["noatime".to_owned()] },
        access_mode: AccessMode::ReadWriteOnce,
        read_only: false,
        attributes: BTreeMap::from([("class".to_owned(), "fast".to_owned())]),
        pod_attributes: BTreeMap::new(),
        stage_secrets: Secrets::default(),
        publish_secrets: Secrets::default(),
        group: None,
        own_group: None,
        is_republished: false,
        se_linux_label: None,
        claim: Some(ClaimOfPod {
            pod: PodRef::new("ns", pod, pod),
            name: format!("claim-{n}"),
            volume: format!("pv-{n}"),
            read_only: false,
        }),
        is_migrated: false,
        expand_secrets: Ok(Secrets::default()),
    }
}
