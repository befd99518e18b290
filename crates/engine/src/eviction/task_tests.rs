//! The task in paused time, with volumes in a temporary directory.

use std::fs;
use std::time::Duration;

use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_base::testing::at;
use hostlet_observe::log::LogLayout;
use hostlet_observe::pleg::Cache;
use hostlet_observe::stats::{StorageSettings, no_drivers};
use hostlet_observe::status::timeline::TimelineStep;
use hostlet_pod::{AdmittedPod, ExternalVolumes, PodPhase, StatusOverride};
use hostlet_runtime::cri::fake::FakeRuntime;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::eviction::testing::FakeNode;

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    root: TempDir,
    desired_pods: watch::Sender<DesiredPods>,
    kills: watch::Receiver<BTreeMap<PodUid, PodKill>>,
    timeline: Timeline,
    events: Arc<Mutex<Vec<String>>>,
    metrics: Metrics,
    _tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        let (root, events, metrics) =
            (TempDir::new().unwrap(), Arc::<Mutex<Vec<String>>>::default(), Metrics::default());
        let logs =
            LogLayout { pod_logs_dir: root.path().join("logs"), containers_dir: root.path().join("links") };
        let (task, storage) = StorageStats::new(StorageSettings {
            runtime: Arc::new(FakeRuntime::new()),
            observed: Cache::default(),
            logs,
            root_dir: root.path().to_owned(),
            external: watch::channel(ExternalVolumes::new()).1,
            external_pace: None,
            drivers: no_drivers(),
            clock: WallClock::of_tokio(at(0)),
        });
        let (desired_pods, timeline) = (watch::Sender::new(DesiredPods::default()), Timeline::default());
        let (kills_in, kills) = watch::channel(BTreeMap::new());
        let sink = events.clone();
        let deps = EvictionDeps {
            desired_pods: desired_pods.subscribe(),
            status_cache: StatusCache::default(),
            observed: Cache::default(),
            timeline: timeline.clone(),
            limited: Some(LimitedStorage { storage, root_dir: root.path().to_owned() }),
            observer: Arc::new(FakeNode::default()),
            reclaimers: Vec::new(),
            pressure: watch::Sender::default(),
            kills: kills_in,
            events: Arc::new(move |pod, _, event| sink.lock().push(format!("{} {event}", pod.name))),
            node_events: Arc::new(|_| {}),
            clock: WallClock::of_tokio(at(0)),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(CancellationToken::new()));
        tasks.spawn(Eviction::new(EvictionSettings::default(), deps, &metrics).run(CancellationToken::new()));
        Self { root, desired_pods, kills, timeline, events, metrics, _tasks: tasks }
    }

    fn desire(&self, pods: &[Arc<AdmittedPod>]) {
        let kills = self.kills.borrow().clone();
        self.desired_pods.send_replace(DesiredPods { ready: true, pods: pods.to_vec(), kills });
    }

    fn write(&self, pod: &str, kib: usize) {
        let dir = self.root.path().join("pods").join(pod).join("volumes/kubernetes.io~empty-dir/data");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("file"), vec![1; kib << 10]).unwrap();
    }

    async fn killed(&mut self, pod: &str) -> PodKill {
        let wait = self.kills.wait_for(|kills| kills.contains_key(&PodUid::from(pod)));
        let kills = timeout(PATIENCE, wait).await.expect("it is not evicted").unwrap();
        kills[&PodUid::from(pod)].clone()
    }

    async fn nobody_else(&mut self, killed: usize) {
        let wait = self.kills.wait_for(|kills| kills.len() > killed);
        assert!(timeout(PATIENCE, wait).await.is_err());
    }
}

/// A pod whose volume `data` may have 1 MiB.
fn pod(name: &str, source: &str) -> Arc<AdmittedPod> {
    let mut pod = hostlet_pod::testing::pod(name, name, "Always", &["c"]);
    pod.metadata
        .annotations
        .get_or_insert_default()
        .insert(CONFIG_SOURCE_ANNOTATION.to_owned(), source.to_owned());
    let volumes = json!([{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]);
    pod.spec.get_or_insert_default().volumes = serde_json::from_value(volumes).unwrap();
    AdmittedPod::new(pod)
}

#[tokio::test(start_paused = true)]
async fn a_pod_beyond_its_limit_is_evicted_once_and_others_stay() {
    let mut bench = Bench::new();
    let (greedy, modest) = (pod("greedy", "api"), pod("modest", "api"));
    bench.write("greedy", 100);
    bench.write("modest", 900);
    bench.desire(&[greedy.clone(), modest.clone()]);
    bench.nobody_else(0).await;
    bench.write("greedy", 1_100);
    let kill = bench.killed("greedy").await;
    let message = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ";
    let status = StatusOverride {
        phase: PodPhase::Failed,
        reason: "Evicted".to_owned(),
        message: message.to_owned(),
        disruption: None,
    };
    assert_eq!(kill, PodKill { status, grace_seconds: Some(1), evict: true });
    bench.desire(&[greedy.clone(), modest.clone()]);
    bench.nobody_else(1).await;
    assert_eq!(*bench.events.lock(), [format!("greedy Evicted: {message}")]);
    let steps = bench.timeline.tracks(|pod| &*pod.name == "greedy");
    assert_eq!(steps[0].entries[0].step, TimelineStep::Evicted);
    let counted = "kubelet_evictions{eviction_signal=\"emptydirfs.limit\"} 1";
    assert!(bench.metrics.encode().contains(counted), "{}", bench.metrics.encode());

    // It is killed until its source no longer names it; the same UID later is another pod.
    bench.desire(std::slice::from_ref(&modest));
    timeout(PATIENCE, bench.kills.wait_for(BTreeMap::is_empty)).await.unwrap().unwrap();
    bench.desire(&[greedy, modest]);
    bench.killed("greedy").await;
    assert_eq!(bench.events.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn critical_and_ended_pods_are_spared() {
    let mut bench = Bench::new();
    let ended = pod("ended", "api").edited(|pod| {
        pod.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
    });
    let system = pod("system", "api").edited(|pod| {
        pod.spec.get_or_insert_default().priority = Some(2_000_001_000);
    });
    for name in ["manifest", "system", "ended"] {
        bench.write(name, 2_000);
    }
    bench.desire(&[pod("manifest", "file"), system, ended]);
    bench.nobody_else(0).await;
    assert!(bench.events.lock().is_empty());
}
