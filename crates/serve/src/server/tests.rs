//! The control socket from a client's view: requests over a real Unix socket, real log files, an in-memory runtime.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::node::{CgroupLimit, NodeAddresses, NodePressure, PluginResources};
use hostlet_base::settings::{ImageGcPolicy, ImageVerification};
use hostlet_base::{
    CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, PodEvent, PodRef,
    PodUid, WallClock,
};
use hostlet_cluster::api::Connections;
use hostlet_cluster::api_objects::OfflineObjects;
use hostlet_cluster::node::{self, NodeDescriber, NodeInputs, RuntimeFacts};
use hostlet_csi::CsiVolumes;
use hostlet_devices::{Devices, DevicesSettings};
use hostlet_dra::Claims;
use hostlet_engine::container_logs::ContainerLogs;
use hostlet_engine::grants::NumaGrants;
use hostlet_engine::shutdown::ShutdownView;
use hostlet_engine::source::{SourceState, StaticPod};
use hostlet_engine::worker::RestartRequests;
use hostlet_host::FilesystemUsage;
use hostlet_image::credentials::{NoSecrets, RegistryCredentials};
use hostlet_image::gc::{ImageGcDeps, ImageGcTask};
use hostlet_image::{Arrivals, ImageRequest, Images, PullLimits, PullPolicy};
use hostlet_observe::log::LogWatches;
use hostlet_observe::pleg::{Pleg, PlegHandle};
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{
    ImageOwner, ImagePull, LifecycleSummary, PodActivities, PodDirectory, PodStatusEntry, RecentEvents,
    StatusCache,
};
use hostlet_plugins::PluginList;
use hostlet_pod::{
    AdmittedPod, ApiState, ContainerKind, ContainerRef, DesiredPods, FailingProbes, ManifestOrigin, pod_ref,
};
use hostlet_runtime::cri::fake::{FakeRuntime, Pull};
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata,
};
use hostlet_runtime::cri::{Calls, RuntimeService};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    ClaimsEndpoint, ControlServer, DevicesEndpoint, EventsEndpoint, ExecEndpoint, ExplainEndpoint,
    HostProblems, ImageEndpoints, ImagePulls, LogsEndpoint, MetricsEndpoints, NodeEndpoints, PodFinder,
    PodsEndpoint, RestartEndpoint, RuntimeHealth, TimelineEndpoint, UsageEndpoint, VolumesEndpoint,
};

/// Unused images may be removed at once.
const IMAGE_GC: ImageGcPolicy = ImageGcPolicy {
    high_percent: 85,
    low_percent: 80,
    minimum_age: Duration::ZERO,
    maximum_age: Some(Duration::from_secs(3600)),
};

/// Timeout of expected events.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with one running pod, `default/web-node1`, with one container, `c`.
struct Bench {
    dir: TempDir,
    fake: FakeRuntime,
    pleg: PlegHandle,
    pod: Pod,
    container: ContainerId,
    status_cache: StatusCache,
    activities: PodActivities,
    /// Pulls one image at a time.
    images: Images,
    events: RecentEvents,
    restarts: RestartRequests,
    source: watch::Sender<SourceState>,
    desired_pods: watch::Sender<DesiredPods>,
    awaited_grants: watch::Sender<BTreeMap<PodUid, String>>,
    /// The reported download progress.
    arrived: Arc<Mutex<Option<u64>>>,
    cancel: CancellationToken,
    _tasks: JoinSet<()>,
}

/// Progress set by a test.
struct Arrived(Arc<Mutex<Option<u64>>>);

#[async_trait]
impl Arrivals for Arrived {
    async fn bytes_since(&self, _: Timestamp) -> Option<u64> {
        *self.0.lock()
    }
}

impl Bench {
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("c")).unwrap();
        let fake = FakeRuntime::new();
        fake.add_image("docker.io/library/img:1");
        let container = run_pod(&fake, &dir).await;
        let runtime = Arc::new(fake.clone());
        let (relister, pleg) = Pleg::new(runtime.clone(), StdRng::seed_from_u64(1));
        let pod = pod(&container);
        let (status_cache, timeline) = (StatusCache::default(), Timeline::default());
        let activities = PodActivities::new(timeline.clone());
        let limits = PullLimits { serialize: true, max_parallel: None, qps: 0, burst: 0 };
        let (clock, credentials) = (WallClock::system(), RegistryCredentials::default());
        let images = Images::new(
            runtime.clone(),
            limits,
            ImageVerification::Never,
            credentials,
            Store::default(),
            clock,
        );
        let arrived: Arc<Mutex<Option<u64>>> = Arc::default();
        let status = Arc::new(pod.status.clone().unwrap());
        let events = RecentEvents::new(WallClock::system());
        let restarts = RestartRequests::default();
        status_cache.report(PodStatusEntry {
            pod: AdmittedPod::new(pod.clone()),
            status,
            terminating_since: None,
            lifecycle: LifecycleSummary::Active,
            has_released: false,
        });
        let (source, desired_pods) = (watch::Sender::default(), watch::Sender::default());
        let pods = PodDirectory::of(status_cache.clone());
        let finder = PodFinder { node: "node1".to_owned(), pods: pods.clone() };
        let api = watch::channel(ApiState::default()).1;
        let (shutdown, certificate) = (watch::channel(ShutdownView::default()).1, watch::channel(None).1);
        let health =
            RuntimeHealth { status: watch::channel(None).1, pleg: pleg.clone(), calls: Calls::default() };
        let host = HostProblems {
            store: watch::channel(None).1,
            shims: watch::channel(None).1,
            foreign: watch::channel(None).1,
            kubelets: watch::channel(Some("another kubelet".to_owned())).1,
            offline: watch::channel(None).1,
            exposure: watch::channel(Some("anybody".to_owned())).1,
            limits: watch::channel(vec![CgroupLimit {
                of: "pods".to_owned(),
                cgroup: "/kubepods".to_owned(),
                problem: Some("cannot write".to_owned()),
                ..CgroupLimit::default()
            }])
            .1,
            pressure: watch::channel(NodePressure::default()).1,
        };
        let pulls = ImagePulls {
            images: images.clone(),
            arrivals: Arc::new(Arrived(arrived.clone())),
            pods,
            activities: activities.clone(),
        };
        let logs = ContainerLogs {
            pleg: pleg.clone(),
            status_cache: status_cache.clone(),
            watches: LogWatches::default(),
        };
        let describer = NodeDescriber {
            settings: Arc::new(node::testing::settings()),
            inputs: NodeInputs {
                host: watch::channel(node::testing::facts().host.machine).1,
                addresses: NodeAddresses::fixed([]),
                runtime: watch::channel(RuntimeFacts::default()).1,
                status: watch::channel(None).1,
                ready_at: watch::channel(None).1,
                pleg: pleg.health(),
                pressure: watch::channel(NodePressure::default()).1,
                kernel: watch::channel(node::KernelConditions::default()).1,
                volumes_in_use: node::VolumesInUse::none(),
                devices: watch::channel(PluginResources::default()).1,
                storage: watch::channel(None).1,
                others: watch::channel(Vec::new()).1,
            },
            latest: watch::channel(None).1,
            limits: watch::channel(Vec::new()).1,
        };
        let (image_gc, gc) = ImageGcTask::new(
            IMAGE_GC,
            ImageGcDeps {
                runtime: runtime.clone(),
                images: runtime.clone(),
                pods: Arc::new(Vec::new),
                archives: watch::channel(Some(BTreeSet::new())).1,
                measure: Arc::new(|_| {
                    Ok(FilesystemUsage { capacity: 1000, available: 600, ..FilesystemUsage::default() })
                }),
                store: Store::default(),
                events: Arc::new(|_| {}),
                clock: WallClock::system(),
            },
            &Metrics::default(),
        );
        let settings = DevicesSettings {
            dir: dir.path().join("device-plugins"),
            copy: dir.path().join("devices"),
            numa_nodes: [0].into(),
            uptime: Duration::ZERO,
        };
        let (devices, _, _) = Devices::new(settings, WallClock::system());
        let awaited_grants = watch::Sender::default();
        let server = ControlServer {
            pods: PodsEndpoint {
                finder: finder.clone(),
                manifests: source.subscribe(),
                api: api.clone(),
                awaited_grants: awaited_grants.subscribe(),
                runtime: health.clone(),
                host: host.clone(),
                archives: None,
                certificate: certificate.clone(),
                shutdown: shutdown.clone(),
                plugins: PluginList::none(),
            },
            explain: ExplainEndpoint {
                finder: finder.clone(),
                manifests: source.subscribe(),
                api: api.clone(),
                desired_pods: desired_pods.subscribe(),
                awaited_grants: awaited_grants.subscribe(),
                runtime: health,
                host,
                pulls: pulls.clone(),
                archives: None,
                timeline: timeline.clone(),
                shutdown,
                failing_probes: FailingProbes::default(),
                offline: OfflineObjects::default(),
            },
            timeline: TimelineEndpoint { node: "node1".to_owned(), timeline },
            events: EventsEndpoint { node: "node1".to_owned(), events: events.clone() },
            logs: LogsEndpoint { finder: finder.clone(), logs },
            exec: ExecEndpoint { finder: finder.clone(), runtime: runtime.clone() },
            restart: RestartEndpoint { finder, observed: pleg.cache().clone(), restarts: restarts.clone() },
            images: ImageEndpoints { runtime: runtime.clone(), pulls, gc },
            volumes: VolumesEndpoint {
                volumes: CsiVolumes::none(),
                pods: PodDirectory::of(StatusCache::default()),
            },
            claims: ClaimsEndpoint { claims: Claims::none(), pods: PodDirectory::of(StatusCache::default()) },
            devices: DevicesEndpoint { devices, pods: PodDirectory::of(StatusCache::default()) },
            node: NodeEndpoints {
                describer: describer.clone(),
                runtime,
                connections: Connections::default(),
                api,
                certificate,
                plugins: PluginList::none(),
                numa: NumaGrants::none(),
                pods: PodDirectory::of(StatusCache::default()),
            },
            usage: UsageEndpoint { stats: watch::channel(None).1, describer },
            metrics: MetricsEndpoints { metrics: Metrics::default(), probes: Metrics::default() },
        };
        let listener = ControlServer::bind(&dir.path().join("socket")).await.unwrap();
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(relister.run(cancel.clone()));
        tasks.spawn(server.run(listener, cancel.clone()));
        tasks.spawn(image_gc.run(cancel.clone()));
        pleg.cache().newer_than(&pod_ref(&pod), None).await.unwrap();
        Self {
            dir,
            fake,
            pleg,
            pod,
            container,
            status_cache,
            activities,
            images,
            events,
            restarts,
            source,
            desired_pods,
            awaited_grants,
            arrived,
            cancel,
            _tasks: tasks,
        }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("c/0.log")
    }

    fn write(&self, line: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        writeln!(file, "2026-01-01T00:00:00Z {line}").unwrap();
    }

    /// Sends a request; returns the status and the whole response.
    async fn get(&self, path: &str) -> (u16, String) {
        let mut answer = self.start(path).await;
        let text = answer.until_closed().await;
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        (status, text)
    }

    /// Posts a JSON body; returns the status and the whole response.
    async fn post(&self, path: &str, body: &str) -> (u16, String) {
        let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let text = self.send("POST", path, &head, body).await.until_closed().await;
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    async fn start(&self, path: &str) -> Answer {
        self.send("GET", path, "", "").await
    }

    async fn send(&self, method: &str, path: &str, head: &str, body: &str) -> Answer {
        let mut stream = UnixStream::connect(self.dir.path().join("socket")).await.unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: hostlet\r\n{head}Connection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer { stream, text: String::new() }
    }
}

/// A response as raw text, including chunk sizes.
struct Answer {
    stream: UnixStream,
    text: String,
}

impl Answer {
    async fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            assert!(self.more().await, "closed without {part:?}: {}", self.text);
        }
    }

    async fn until_closed(&mut self) -> String {
        while self.more().await {}
        self.text.clone()
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let count = timeout(PATIENCE, self.stream.read(&mut buffer)).await;
        let count = count.unwrap_or_else(|_| panic!("nothing more after {}", self.text)).unwrap();
        self.text += std::str::from_utf8(&buffer[..count]).unwrap();
        count > 0
    }
}

async fn run_pod(fake: &FakeRuntime, dir: &TempDir) -> ContainerId {
    let labels = [
        (POD_NAME_LABEL, "web-node1"),
        (POD_NAMESPACE_LABEL, "default"),
        (POD_UID_LABEL, "uid-1"),
        (CONTAINER_NAME_LABEL, "c"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let sandbox_config = PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: "web-node1".to_owned(),
            namespace: "default".to_owned(),
            uid: "uid-1".to_owned(),
            attempt: 0,
        }),
        labels: labels[..3].iter().cloned().collect(),
        log_directory: dir.path().display().to_string(),
        ..PodSandboxConfig::default()
    };
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
        image: Some(ImageSpec { image: "docker.io/library/img:1".to_owned(), ..ImageSpec::default() }),
        log_path: "c/0.log".to_owned(),
        labels: labels.into_iter().collect(),
        ..ContainerConfig::default()
    };
    let sandbox = fake.run_sandbox(sandbox_config.clone(), "").await.unwrap();
    let container = fake.create_container(&sandbox, config, sandbox_config).await.unwrap();
    fake.start_container(&container).await.unwrap();
    container
}

fn pod(container: &ContainerId) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web-node1", "namespace": "default", "uid": "uid-1"},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"containerStatuses": [{
            "name": "c", "image": "img", "imageID": "img", "ready": true, "restartCount": 0,
            "containerID": format!("fake://{container}"), "state": {"running": {}},
        }]},
    }))
    .unwrap()
}

#[tokio::test]
async fn logs_are_decoded_and_limited_as_requested() {
    let bench = Bench::new().await;
    bench.write("stdout P one ");
    bench.write("stdout F line");
    bench.write("stderr F another");
    let (status, text) = bench.get("/v1/logs?pod=web").await;
    assert_eq!(status, 200);
    assert!(text.contains("\r\none line\nanother\n\r\n"), "{text}");
    let (_, text) = bench.get("/v1/logs?pod=default/web-node1&container=c&tail=1&timestamps=true").await;
    assert!(text.contains("\r\n2026-01-01T00:00:00.000000000Z another\n\r\n"), "{text}");
    let (_, text) = bench.get("/v1/logs?pod=web&since=2026-01-01T00:00:01Z").await;
    assert!(!text.contains("another"), "{text}");
}

#[tokio::test]
async fn errors_say_why_a_log_is_not_available() {
    let bench = Bench::new().await;
    for (query, status, said) in [
        ("pod=wep", 404, r#"pod "wep" not found; did you mean web-node1?"#),
        ("pod=web&namespace=other", 404, r#"pod "web" not found"#),
        ("pod=web&container=d", 404, "container d is not valid for pod web-node1, choose one of: [c]"),
        ("pod=web&previous=true", 404, r#"previous terminated container "c" in pod "web-node1" not found"#),
        ("pod=web", 500, "cannot open the log"),
        ("pod=web&tail=x", 400, "tail"),
    ] {
        let (found, text) = bench.get(&format!("/v1/logs?{query}")).await;
        assert_eq!(found, status, "{query}: {text}");
        assert!(text.contains(said), "{query}: {text}");
    }
}

#[tokio::test]
async fn following_ends_with_the_container() {
    let bench = Bench::new().await;
    bench.write("stdout F before");
    let mut answer = bench.start("/v1/logs?pod=web&follow=true").await;
    answer.until("before\n").await;
    bench.write("stdout F later");
    answer.until("later\n").await;
    bench.write("stdout F last words");
    bench.fake.stop_container(&bench.container, 0).await.unwrap();
    bench.pleg.relist(&pod_ref(&bench.pod));
    let text = answer.until_closed().await;
    assert!(text.contains("last words\n"), "{text}");
    assert!(text.ends_with("\r\n0\r\n\r\n"), "a whole answer: {text}");
}

#[tokio::test]
async fn following_is_aborted_at_shutdown() {
    let bench = Bench::new().await;
    bench.write("stdout F before");
    let mut answer = bench.start("/v1/logs?pod=web&follow=true").await;
    answer.until("before\n").await;
    bench.cancel.cancel();
    let text = answer.until_closed().await;
    assert!(!text.ends_with("\r\n0\r\n\r\n"), "not the end of the log: {text}");
}

#[tokio::test]
async fn a_command_is_prepared_in_a_running_container() {
    let bench = Bench::new().await;
    bench.fake.serve_streams_at("http://127.0.0.1:1");
    let (status, text) = bench.post("/v1/exec?pod=web&stdin=true", r#"["sh","-c","x"]"#).await;
    let url = format!(r#"{{"url":"http://127.0.0.1:1/exec/{}"}}"#, bench.container);
    assert!(status == 200 && text.contains(&url), "{text}");
    for (query, body, status, said) in [
        ("pod=wep", r#"["ls"]"#, 404, "did you mean web-node1?"),
        ("pod=web&container=d", r#"["ls"]"#, 404, "container d is not valid"),
        ("pod=web", "[]", 400, "the command is empty"),
    ] {
        let (found, text) = bench.post(&format!("/v1/exec?{query}"), body).await;
        assert!(found == status && text.contains(said), "{query}: {text}");
    }
    // The status is a moment behind the runtime.
    bench.fake.stop_container(&bench.container, 0).await.unwrap();
    let (status, text) = bench.post("/v1/exec?pod=web", r#"["ls"]"#).await;
    assert!(status == 500 && text.contains("is not running"), "{status} {text}");
}

#[tokio::test]
async fn of_two_versions_of_a_pod_the_active_one_is_reached_and_explained() {
    let bench = Bench::new().await;
    bench.fake.serve_streams_at("http://127.0.0.1:1");
    let mut older = bench.pod.clone();
    (older.metadata.uid, older.status) = (Some("uid-0".to_owned()), None);
    bench.status_cache.report(PodStatusEntry {
        pod: AdmittedPod::new(older),
        status: Arc::default(),
        terminating_since: None,
        lifecycle: LifecycleSummary::Terminated,
        has_released: false,
    });
    let (status, text) = bench.post("/v1/exec?pod=web", r#"["ls"]"#).await;
    assert!(status == 200 && text.contains(bench.container.as_str()), "{status} {text}");
    bench.write("stdout F of the active one");
    let (status, text) = bench.get("/v1/logs?pod=web").await;
    assert!(status == 200 && text.contains("of the active one"), "{status} {text}");
    // Both were removed from their source.
    let (_, text) = bench.get("/v1/explain?pod=web").await;
    assert!(!text.contains("has not read the manifests"), "{text}");
}

#[tokio::test]
async fn a_restart_is_requested_of_the_pods_worker() {
    let bench = Bench::new().await;
    let (status, text) = bench.post("/v1/restart?pod=web", "null").await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains(r#"{"pod":"default/web-node1","containers":["c"]}"#), "{text}");
    let observed = bench.pleg.cache().get(&pod_ref(&bench.pod)).unwrap();
    assert_eq!(bench.restarts.due(&observed), [bench.container.clone()].into());
    let (status, text) = bench.post("/v1/restart?pod=web&container=d", "null").await;
    assert!(status == 404 && text.contains("container d is not valid"), "{text}");
    let (status, _) = bench.get("/v1/restart?pod=web").await;
    assert_eq!(status, 405, "reading changes nothing");
}

#[tokio::test]
async fn events_are_listed_and_watched() {
    let bench = Bench::new().await;
    let pods = bench.events.of_pods(Arc::new(|_, _, _| {}));
    let (web, other) = (pod_ref(&bench.pod), PodRef::new("default", "other", "u2"));
    let c = ContainerRef { kind: ContainerKind::Main, name: "c".to_owned() };
    pods(&web, Some(&c), &PodEvent::normal("Pulled", "first"));
    pods(&other, None, &PodEvent::warning("Failed", "of another"));
    let (_, all) = bench.get("/v1/events").await;
    assert!(all.contains("\"reason\":\"Pulled\"") && all.contains("of another"), "{all}");
    let mut watch = bench.start("/v1/events?pod=web&watch=true").await;
    watch.until("\"first\"").await;
    pods(&other, None, &PodEvent::warning("Failed", "of another, again"));
    pods(&web, None, &PodEvent::normal("Started", "later"));
    watch.until("\"later\"").await;
    assert!(!watch.text.contains("of another"), "{}", watch.text);
    bench.cancel.cancel();
    watch.until_closed().await;
}

#[tokio::test]
async fn the_node_is_described() {
    let bench = Bench::new().await;
    let (status, text) = bench.get("/v1/node").await;
    assert_eq!(status, 200, "{text}");
    for part in
        [r#""name":"node1""#, r#""containerRuntimeVersion":"containerd://1.6.20""#, r#""memory":"100Mi""#]
    {
        assert!(text.contains(part), "{part} not in {text}");
    }
    assert!(!text.contains("apiServer"), "standalone: {text}");
}

#[tokio::test]
async fn a_limit_that_is_not_in_force_is_shown() {
    let bench = Bench::new().await;
    let refused = "the limit of pods on the cgroup /kubepods is not in force: cannot write";
    for path in ["/v1/pods", "/v1/explain?pod=web"] {
        let (status, text) = bench.get(path).await;
        assert!(status == 200 && text.contains(refused), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_pod_is_not_called_admitted_before_it_is() {
    let bench = Bench::new().await;
    let metadata = json!({"name": "new-node1", "namespace": "default", "uid": "uid-2"});
    let new: Arc<Pod> =
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap());
    let origin = ManifestOrigin::File("/m/new.yaml".into());
    let defined = Arc::new(StaticPod { pod: new.clone(), origin, unsupported: Vec::new() });
    bench.source.send_replace(SourceState { ready: true, pods: vec![defined], problems: Vec::new() });
    let (_, text) = bench.get("/v1/explain?pod=new").await;
    // As on a first start: the runtime has not answered yet.
    assert!(text.contains("hostlet cannot act on the pod") && !text.contains("admitted"), "{text}");
    let pods = vec![AdmittedPod::new(new)];
    bench.desired_pods.send_replace(DesiredPods { ready: true, pods, ..DesiredPods::default() });
    let (_, text) = bench.get("/v1/explain?pod=new").await;
    assert!(text.contains("Before that: The pod was admitted"), "{text}");
}

#[tokio::test]
async fn a_pod_that_waits_for_a_grant_is_listed_with_what_it_waits_for() {
    let bench = Bench::new().await;
    let metadata = json!({"name": "gpu-node1", "namespace": "default", "uid": "uid-2"});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
    let origin = ManifestOrigin::File("/m/gpu.yaml".into());
    let defined = Arc::new(StaticPod { pod: Arc::new(pod), origin, unsupported: Vec::new() });
    bench.source.send_replace(SourceState { ready: true, pods: vec![defined], problems: Vec::new() });
    let (_, text) = bench.get("/v1/pods").await;
    assert!(!text.contains("gpu-node1"), "nothing is decided yet: {text}");
    let reason = "waits for example.com/gpu: its device plugin is not registered".to_owned();
    bench.awaited_grants.send_replace([("uid-2".into(), reason)].into());
    let (_, text) = bench.get("/v1/pods").await;
    for part in [
        r#""name":"gpu-node1""#,
        r#""phase":"Pending""#,
        r#""reason":"AdmissionDelayed""#,
        "The pod waits for example.com/gpu: its",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.find("gpu-node1") < text.find("web-node1"), "by name: {text}");
}

#[tokio::test]
async fn the_runtimes_images_are_listed() {
    let bench = Bench::new().await;
    let (status, text) = bench.get("/v1/images").await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains(r#""tags":["docker.io/library/img:1"]"#), "{text}");
}

#[tokio::test]
async fn unused_images_are_listed_and_removed_on_request() {
    let bench = Bench::new().await;
    bench.fake.add_image("r.example/unused:1");
    bench.fake.add_image("r.example/pinned:1");
    bench.fake.pin_image("r.example/pinned:1");
    let (status, text) = bench.get("/v1/images/unused").await;
    assert_eq!(status, 200, "{text}");
    for part in [
        r#""usedPercent":40"#,
        r#""highThresholdPercent":85"#,
        r#""names":["r.example/unused:1""#,
        r#""kept":"pinned""#,
        r#""expires":"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("library/img"), "a container uses it: {text}");
    assert_eq!(bench.get("/v1/images/prune").await.0, 405);
    let (status, text) = bench.post("/v1/images/prune", "null").await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("r.example/unused:1") && text.contains(r#""freed":1048576"#), "{text}");
    let names: Vec<String> = bench.fake.wire_images().into_iter().flat_map(|image| image.repo_tags).collect();
    assert_eq!(names, ["docker.io/library/img:1", "r.example/pinned:1"]);
}

#[tokio::test]
async fn a_pull_is_listed_with_its_pods_and_progress() {
    let bench = Bench::new().await;
    let (_, text) = bench.get("/v1/pulls").await;
    assert!(text.contains("{\"pulls\":[]}"), "{text}");
    let never = Pull { latency: Duration::MAX, error: None };
    for image in ["docker.io/library/slow:1", "docker.io/library/later:1"] {
        bench.fake.script_pull(image, never.clone());
    }
    let pod = pod_ref(&bench.pod);
    let pull = async |image| {
        let request = ImageRequest {
            pod: &pod,
            image,
            policy: PullPolicy::Always,
            sandbox: PodSandboxConfig::default(),
            secrets: &NoSecrets,
        };
        bench.images.ensure(request, &mut |_| {}).await
    };
    let owner = ImageOwner::Container("c".to_owned());
    let shown = ImagePull { owner, image: "slow:1".to_owned() };
    bench.activities.pull_begins(&pod, &shown, Timestamp::now());
    let look = async {
        while bench.images.pulls().len() < 2 {
            tokio::task::yield_now().await;
        }
        *bench.arrived.lock() = Some(1234);
        let (_, pulls) = bench.get("/v1/pulls").await;
        for part in [
            "\"image\":\"slow:1\",\"pods\":[\"default/web-node1\"]",
            "\"waitsForTurn\":false},{\"image\":\"later:1\",\"pods\":[]",
            "\"waitsForTurn\":true}],\"bytes\":1234}",
        ] {
            assert!(pulls.contains(part), "{part} not in {pulls}");
        }
        // A runtime without progress.
        *bench.arrived.lock() = None;
        let (_, pulls) = bench.get("/v1/pulls").await;
        assert!(pulls.contains("\"waitsForTurn\":true}]}"), "{pulls}");
    };
    tokio::select! {
        // In this order, so that the second waits for the first.
        biased;
        _ = pull("slow:1") => panic!("the pull ended"),
        _ = pull("later:1") => panic!("the pull ended"),
        () = look => {}
    }
    let (_, text) = bench.get("/v1/pulls").await;
    assert!(text.contains("{\"pulls\":[]}"), "pulls without waiting pods have stopped: {text}");
}

#[tokio::test]
async fn the_socket_is_restricted_to_its_owner_and_identified() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("socket");
    assert_eq!(ControlServer::identity(&path), None);
    let listener = ControlServer::bind(&path).await.unwrap();
    let own = ControlServer::identity(&path);
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(UnixStream::connect(&path).await.is_ok());
    // Kept open, so that its inode is not reused.
    let before = std::fs::hard_link(&path, dir.path().join("kept"));
    drop(listener);
    let _successor = ControlServer::bind(&path).await.unwrap();
    assert!(before.is_ok() && ControlServer::identity(&path) != own);
}

#[tokio::test]
async fn usage_is_measured_once_the_runtime_has_answered() {
    let bench = Bench::new().await;
    let (status, text) = bench.get("/v1/usage").await;
    assert_eq!(status, 503);
    assert!(text.contains("nothing is measured before the container runtime has answered"), "{text}");
}
