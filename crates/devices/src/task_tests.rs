//! Plugins over real sockets: registration, lists, allocations, restarts of plugins and of the daemon.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodUid, WallClock};
use hostlet_plugins::{InstanceId, PluginEvent, PluginHandler, PluginInstance};
use hostlet_proto::device_plugin::{DevicePluginOptions, RegisterRequest};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::fake::{FakeDevicePlugin, device, devices, register};
use crate::testing::{GPU, container, pod};
use crate::{AllocateError, DevicePluginHandler, Devices, DevicesSettings, PluginPhase, PodStage};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with a daemon.
struct Host {
    dir: TempDir,
    devices: Devices,
    handler: DevicePluginHandler,
    running: JoinSet<()>,
}

impl Host {
    async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    async fn start_in(dir: TempDir) -> Self {
        let settings = DevicesSettings {
            dir: dir.path().to_owned(),
            copy: dir.path().join("copy"),
            numa_nodes: [0, 1].into(),
            uptime: Duration::MAX,
        };
        let (devices, handler, task) = Devices::new(settings, WallClock::system());
        let mut running = JoinSet::new();
        running.spawn(task.run(CancellationToken::new()));
        let host = Self { dir, devices, handler, running };
        let socket = host.kubelet();
        let is_open = async {
            while tokio::net::UnixStream::connect(&socket).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, is_open).await.unwrap();
        host
    }

    /// Kills the daemon and starts it again.
    async fn restart(mut self) -> Self {
        self.running.shutdown().await;
        Self::start_in(self.dir).await
    }

    fn kubelet(&self) -> PathBuf {
        self.dir.path().join("kubelet.sock")
    }

    fn checkpoint(&self) -> PathBuf {
        self.dir.path().join("kubelet_internal_checkpoint")
    }

    fn plugin(&self, ids: &[&str]) -> FakeDevicePlugin {
        FakeDevicePlugin::start(self.dir.path(), "gpu.sock", GPU, devices(ids)).unwrap()
    }

    /// Waits until capacity and allocatable are these.
    async fn offers(&self, expected: [i64; 2]) {
        let mut capacity = self.devices.capacity();
        let seen = capacity.wait_for(|all| [all.capacity.units(GPU), all.allocatable.units(GPU)] == expected);
        timeout(PATIENCE, seen).await.unwrap().unwrap();
    }

    async fn allocate(&self, uid: &str, count: usize, stage: PodStage) -> Result<(), AllocateError> {
        self.devices.allocate(&pod(uid, &[], &[container("main", count)]), "main", None, stage).await
    }

    fn held(&self, uid: &str) -> Vec<String> {
        let held = self.devices.held(&uid.into(), "main");
        held.into_iter().flat_map(|held| held.devices.into_keys()).collect()
    }
}

#[tokio::test]
async fn a_plugin_registers_lists_and_allocates() {
    let host = Host::start().await;
    let metrics = Metrics::default();
    host.devices.register(&metrics);
    let plugin = host.plugin(&["a", "b"]);
    let pod = pod("u1", &[], &[container("main", 1)]);
    assert!(!host.devices.needs(&pod));
    plugin.register().await.unwrap();
    host.offers([2, 2]).await;
    assert!(host.devices.needs(&pod));
    host.allocate("u1", 1, PodStage::New).await.unwrap();
    host.allocate("u1", 1, PodStage::New).await.unwrap();
    assert_eq!(plugin.script.lock().allocated, [["a"]], "once");
    let grant = host.devices.grant(&"u1".into(), "main").unwrap();
    assert_eq!(grant.env, [("GPU_DEVICES".to_owned(), "a".to_owned())].into());
    assert_eq!(grant.devices[0].container_path, "/dev/a");
    assert_eq!(host.devices.grant(&"u1".into(), "other"), None);
    let checkpoint = fs::read_to_string(host.checkpoint()).unwrap();
    assert!(checkpoint.contains("\"PodUID\":\"u1\",\"ContainerName\":\"main\""), "{checkpoint}");
    host.devices.pre_start(&"u1".into(), "main", PodStage::Running).await.unwrap();
    assert!(!plugin.script.lock().calls.contains(&"PreStartContainer"), "it does not ask for that");
    let status = &host.devices.health(&"u1".into(), "main")[0];
    let resource = &status.resources.as_ref().unwrap()[0];
    assert_eq!(
        (&*status.name, &*resource.resource_id, resource.health.as_deref()),
        (GPU, "a", Some("Healthy"))
    );
    let text = metrics.encode();
    assert!(
        text.contains("kubelet_device_plugin_registration_total{resource_name=\"example.com/gpu\"} 1"),
        "{text}"
    );
    assert!(
        text.contains(
            "kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"example.com/gpu\"} 1"
        )
    );
    host.devices.retain(&BTreeSet::new());
    assert_eq!(host.held("u1"), Vec::<String>::new());
}

#[tokio::test]
async fn a_plugin_says_what_it_prefers_and_prepares() {
    let host = Host::start().await;
    let plugin = host.plugin(&["a", "b", "c"]);
    {
        let mut script = plugin.script.lock();
        script.options =
            DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: true };
        script.preferred = vec!["c".to_owned(), "none".to_owned()];
        script.cdi = true;
    }
    plugin.register().await.unwrap();
    host.offers([3, 3]).await;
    host.allocate("u1", 2, PodStage::New).await.unwrap();
    assert_eq!(host.held("u1"), ["a", "c"]);
    let uid = PodUid::from("u1");
    assert_eq!(
        host.devices.grant(&uid, "main").unwrap().cdi_devices,
        ["example.com/gpu=a", "example.com/gpu=c"]
    );
    host.devices.pre_start(&uid, "main", PodStage::Running).await.unwrap();
    assert_eq!(plugin.script.lock().prepared, [["a", "c"]]);
    plugin.script.lock().failures.insert("PreStartContainer", Status::internal("stuck"));
    assert_eq!(
        host.devices.pre_start(&uid, "main", PodStage::Running).await.unwrap_err().to_string(),
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = stuck"
    );
    plugin.script.lock().failures.insert("GetPreferredAllocation", Status::unavailable("later"));
    assert_eq!(
        host.allocate("u2", 1, PodStage::New).await.unwrap_err().to_string(),
        "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unavailable desc = later"
    );
}

#[tokio::test]
async fn a_failed_allocation_leaves_nothing() {
    let host = Host::start().await;
    let plugin = host.plugin(&["a"]);
    plugin.register().await.unwrap();
    host.offers([1, 1]).await;
    plugin.script.lock().failures.insert("Allocate", Status::unknown("unknown device"));
    assert_eq!(
        host.allocate("u1", 1, PodStage::New).await.unwrap_err().to_string(),
        "rpc error: code = Unknown desc = unknown device"
    );
    assert_eq!(host.held("u1"), Vec::<String>::new());
    plugin.script.lock().failures.clear();
    // What cannot be recorded is not given to anybody.
    fs::remove_dir_all(host.dir.path()).unwrap();
    let error = host.allocate("u1", 1, PodStage::New).await.unwrap_err().to_string();
    assert!(
        error.starts_with("failed to write checkpoint file \"kubelet_internal_checkpoint\": cannot write"),
        "{error}"
    );
    assert_eq!(host.held("u1"), Vec::<String>::new());
}

#[tokio::test]
async fn a_plugin_whose_allocation_hangs_blocks_only_its_own_resource() {
    let host = Host::start().await;
    let hangs = host.plugin(&["a"]);
    hangs.script.lock().hangs.insert("Allocate");
    hangs.register().await.unwrap();
    let other =
        FakeDevicePlugin::start(host.dir.path(), "nic.sock", "example.com/nic", devices(&["n"])).unwrap();
    other.register().await.unwrap();
    host.offers([1, 1]).await;
    let nic = json!({"name": "main", "resources": {"limits": {"example.com/nic": "1"}}});
    let nic = pod("u2", &[], &[nic]);
    let mut capacity = host.devices.capacity();
    timeout(PATIENCE, capacity.wait_for(|all| all.allocatable.units("example.com/nic") == 1))
        .await
        .unwrap()
        .unwrap();
    let blocked = host.allocate("u1", 1, PodStage::New);
    let free = host.devices.allocate(&nic, "main", None, PodStage::New);
    tokio::select! {
        result = blocked => panic!("it does not hang: {result:?}"),
        allocated = free => allocated.unwrap(),
    }
    assert_eq!(host.held("u2"), ["n"]);
}

/// kubernetes/kubernetes#118559, #133382, #119248 and others: over real sockets and a real file.
#[tokio::test]
async fn allocations_survive_restarts_of_the_plugin_and_the_daemon() {
    let host = Host::start().await;
    let plugin = host.plugin(&["a", "b"]);
    plugin.register().await.unwrap();
    host.offers([2, 2]).await;
    host.allocate("u1", 1, PodStage::New).await.unwrap();
    let grant = host.devices.grant(&"u1".into(), "main");
    // The plugin is killed.
    drop(plugin);
    host.offers([2, 0]).await;
    assert_eq!(host.devices.grant(&"u1".into(), "main"), grant);
    assert!(matches!(host.allocate("u2", 1, PodStage::New).await, Err(AllocateError::NotYet(_))));
    let plugin = host.plugin(&["b", "c"]);
    plugin.register().await.unwrap();
    host.offers([2, 2]).await;
    host.allocate("u2", 2, PodStage::New).await.unwrap();
    assert_eq!(host.held("u2"), ["b", "c"]);

    let host = host.restart().await;
    assert!(host.devices.had_checkpoint());
    assert_eq!(host.devices.grant(&"u1".into(), "main"), grant);
    host.offers([0, 0]).await;
    assert!(!plugin.socket().exists(), "the plugin is to notice that the kubelet is a new one");
    host.allocate("u1", 1, PodStage::Running).await.unwrap();
    assert!(matches!(host.allocate("u2", 2, PodStage::New).await, Err(AllocateError::NotYet(_))));
    let plugin = host.plugin(&["a", "b", "c"]);
    plugin.register().await.unwrap();
    host.offers([3, 3]).await;
    host.allocate("u2", 2, PodStage::New).await.unwrap();
    assert_eq!(
        (host.held("u1"), host.held("u2")),
        (vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()])
    );
    assert_eq!(plugin.script.lock().allocated, Vec::<Vec<String>>::new(), "everybody has theirs");
}

#[tokio::test]
async fn a_damaged_checkpoint_is_set_aside_reported_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kubelet_internal_checkpoint"), "{\"Data\":").unwrap();
    let host = Host::start_in(dir).await;
    let problems = host.devices.problems();
    assert!(problems[0].contains("it is not a checkpoint of devices"), "{problems:?}");
    let plugin = host.plugin(&["a"]);
    plugin.register().await.unwrap();
    host.offers([1, 1]).await;
    host.allocate("u1", 1, PodStage::New).await.unwrap();
    let names = fs::read_dir(host.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.filter(|name| name.to_string_lossy().contains("aside-")).count();
    assert_eq!(aside, 1);
    let host = host.restart().await;
    assert_eq!((host.held("u1"), host.devices.problems()), (vec!["a".to_owned()], vec![]));
}

#[tokio::test]
async fn what_a_plugin_says_wrongly_it_is_told() {
    let host = Host::start().await;
    let request = |version: &str, endpoint: &str, resource: &str| RegisterRequest {
        version: version.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    let error = async |request| {
        let status: Status = register(&host.kubelet(), request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        status.message().to_owned()
    };
    assert!(
        error(request("v2", "gpu.sock", GPU)).await.contains("requested API version \"v2\" is not supported")
    );
    assert!(
        error(request("v1beta1", "gpu.sock", "gpu")).await.contains("the ResourceName \"gpu\" is invalid")
    );
    assert!(error(request("v1beta1", "../x", GPU)).await.contains("the endpoint \"../x\" is invalid"));
    let missing = error(request("v1beta1", "gpu.sock", GPU)).await;
    assert!(missing.contains("failed to dial device plugin") && missing.contains("gpu.sock"), "{missing}");
    let plugin = host.plugin(&["a"]);
    plugin.script.lock().failures.insert("GetDevicePluginOptions", Status::internal("no"));
    let error = plugin.register().await.unwrap_err();
    assert!(error.message().contains("failed to get device plugin options"), "{error}");
    assert!(host.devices.resources().borrow().is_empty());
    // As upstream it is known, without devices, and not asked again.
    plugin.script.lock().failures = [("ListAndWatch", Status::internal("no"))].into();
    plugin.register().await.unwrap();
    let mut revision = host.devices.revision();
    let is_away = |_: &u64| host.devices.views().first().is_some_and(|view| view.plugin == PluginPhase::Away);
    timeout(PATIENCE, revision.wait_for(is_away)).await.unwrap().unwrap();
    host.offers([0, 0]).await;
    assert_eq!(
        plugin.script.lock().calls,
        ["GetDevicePluginOptions", "GetDevicePluginOptions", "ListAndWatch"]
    );
}

#[tokio::test]
async fn changes_of_health_are_reported_for_the_pods_that_have_the_device() {
    let host = Host::start().await;
    let plugin = host.plugin(&["a", "b"]);
    plugin.register().await.unwrap();
    host.offers([2, 2]).await;
    host.allocate("u1", 1, PodStage::New).await.unwrap();
    let mut unhealthy = devices(&["a", "b"]);
    unhealthy[0].health = "Unhealthy".to_owned();
    plugin.lists(unhealthy);
    let changes = host.devices.health_changes();
    let (uid, ()) = timeout(PATIENCE, changes.next()).await.unwrap();
    assert_eq!(uid, "u1".into());
    let health = host.devices.health(&uid, "main")[0].resources.as_ref().unwrap()[0].health.clone();
    assert_eq!(health.as_deref(), Some("Unhealthy"));
    let view = host.devices.views().remove(0);
    assert_eq!((view.capacity, view.allocatable), (2, 1));
    assert_eq!(view.devices[0].holders[0].container, "main");
}

#[tokio::test]
async fn a_plugin_of_the_plugin_registration_is_followed_until_it_is_removed() {
    let host = Host::start().await;
    let place = tempfile::tempdir().unwrap();
    let numa = vec![device("a", &[1])];
    let plugin = FakeDevicePlugin::start(place.path(), "gpu.sock", GPU, numa).unwrap();
    let versions = ["v1beta1".to_owned()];
    assert_eq!(host.handler.plugin_type(), "DevicePlugin");
    assert!(host.handler.validate("gpu", plugin.socket(), &versions).is_err());
    host.handler.validate(GPU, plugin.socket(), &versions).unwrap();
    let instance = Arc::new(PluginInstance {
        id: InstanceId(1),
        name: GPU.to_owned(),
        endpoint: plugin.socket().to_owned(),
        versions: versions.to_vec(),
        socket: place.path().join("reg.sock"),
        since: Timestamp::UNIX_EPOCH,
    });
    host.handler.changed(PluginEvent::Registered(instance.clone()));
    host.offers([1, 1]).await;
    assert_eq!(host.handler.describe(GPU), Some(json!({"devices": 1, "healthy": 1})));
    assert_eq!(host.devices.views()[0].devices[0].numa_nodes, [1]);
    host.handler.changed(PluginEvent::Deregistered(instance));
    host.offers([1, 0]).await;
}
