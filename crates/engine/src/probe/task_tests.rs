//! The prober in paused time, on the fake runtime.

use std::sync::Arc;

use hostlet_base::testing::at;
use hostlet_base::{
    CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, PodRef,
};
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry};
use hostlet_pod::defaults::set_defaults;
use hostlet_pod::{ContainerProbes, ContainerRef};
use hostlet_runtime::cri::fake::{Exec, FakeRuntime};
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata,
};
use hostlet_runtime::cri::{ExecOutput, Operation};
use hostlet_store::Table;
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::SeedableRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;

/// Timeout of expected changes.
const PATIENCE: Duration = Duration::from_secs(600);

struct Bench {
    fake: FakeRuntime,
    status_cache: StatusCache,
    timeline: Timeline,
    results: ProbeResults,
    failing: FailingProbes,
    metrics: Metrics,
    store: Store,
    events: Arc<Mutex<Vec<String>>>,
    clock: WallClock,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            fake: FakeRuntime::new(),
            status_cache: StatusCache::default(),
            timeline: Timeline::default(),
            results: ProbeResults::default(),
            failing: FailingProbes::default(),
            metrics: Metrics::default(),
            store: Store::default(),
            events: Arc::default(),
            clock: WallClock::of_tokio(at(10_000)),
            cancel: CancellationToken::new(),
            tasks: JoinSet::new(),
        };
        bench.fake.add_image("img");
        bench
    }

    /// Starts a daemon's prober; an earlier one has stopped.
    fn prober(&mut self) {
        self.cancel.cancel();
        self.cancel = CancellationToken::new();
        self.results = ProbeResults::default();
        self.metrics = Metrics::default();
        let events = self.events.clone();
        let metrics = ProbeMetrics::default();
        metrics.register(&self.metrics);
        let deps = ProberDeps {
            runtime: Arc::new(self.fake.clone()),
            status_cache: self.status_cache.clone(),
            timeline: self.timeline.clone(),
            statuses: StatusHandle::default(),
            results: self.results.clone(),
            failing: self.failing.clone(),
            metrics,
            store: self.store.clone(),
            events: Arc::new(move |_: &PodRef, container: Option<&ContainerRef>, event: &PodEvent| {
                events.lock().push(format!("{} {event}", container.map_or("", |container| &container.name)));
            }),
            clock: self.clock.clone(),
        };
        let prober = Prober::new(deps, StdRng::seed_from_u64(1));
        self.tasks.spawn(prober.run(self.cancel.clone()));
    }

    /// Runs a container in the fake runtime.
    async fn container(&self, uid: &str) -> ContainerId {
        let labels = [
            (POD_NAME_LABEL, "p"),
            (POD_NAMESPACE_LABEL, "default"),
            (POD_UID_LABEL, uid),
            (CONTAINER_NAME_LABEL, "c"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata = PodSandboxMetadata {
            name: "p".to_owned(),
            namespace: "default".to_owned(),
            uid: uid.to_owned(),
            attempt: 0,
        };
        let sandbox = PodSandboxConfig {
            metadata: Some(metadata),
            labels: labels[..3].iter().cloned().collect(),
            ..PodSandboxConfig::default()
        };
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: "img".to_owned(), ..ImageSpec::default() }),
            labels: labels.into_iter().collect(),
            ..ContainerConfig::default()
        };
        let id = self.fake.run_sandbox(sandbox.clone(), "").await.unwrap();
        let container = self.fake.create_container(&id, config, sandbox).await.unwrap();
        self.fake.start_container(&container).await.unwrap();
        container
    }

    /// Reports the status of a pod whose container runs since `since`.
    fn report(&self, uid: &str, probes: &Value, id: &ContainerId, since: Timestamp) {
        let mut spec = json!({"name": "c", "image": "img"});
        spec.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
        let mut pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "default", "uid": uid}, "spec": {"containers": [spec]},
        }))
        .unwrap();
        set_defaults(&mut pod);
        let status = json!({"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [{
            "name": "c", "image": "img", "imageID": "img", "ready": false, "started": false, "restartCount": 0,
            "containerID": format!("fake://{id}"), "state": {"running": {"startedAt": since.to_string()}},
        }]});
        self.status_cache.report(PodStatusEntry {
            pod: AdmittedPod::new(pod),
            status: Arc::new(serde_json::from_value(status).unwrap()),
            terminating_since: None,
            lifecycle: LifecycleSummary::Active,
            has_released: false,
        });
    }

    /// A pod with this probe, whose container has just started.
    async fn pod(&self, uid: &str, probes: Value) -> ContainerId {
        let id = self.container(uid).await;
        self.report(uid, &probes, &id, self.clock.now());
        id
    }

    fn found(&self, uid: &str, id: &ContainerId) -> ContainerProbes {
        self.results.of(&uid.into()).0.get(id).copied().unwrap_or_default()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .unwrap_or_else(|_| panic!("never: {what}; {:?}", self.events.lock()));
    }

    fn scripted(&self, command: &str, takes: Duration, stdout: &str, exit_code: i32) {
        let output = ExecOutput { stdout: stdout.as_bytes().to_vec(), stderr: Vec::new(), exit_code };
        self.fake.script_exec(&[command], Exec { takes, output });
    }

    fn execs(&self) -> usize {
        self.fake.calls_of(Operation::ExecSync).len()
    }
}

fn exec(command: &str) -> Value {
    json!({"exec": {"command": [command]}})
}

#[tokio::test(start_paused = true)]
async fn a_container_becomes_ready_at_once_and_unready_after_its_threshold() {
    let mut bench = Bench::new();
    bench.prober();
    bench.scripted("check", Duration::ZERO, "fine", 0);
    let began = Instant::now();
    let id = bench.pod("u", json!({"readinessProbe": exec("check")})).await;
    bench.until("ready", |bench| bench.found("u", &id).ready).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    bench.scripted("check", Duration::ZERO, "broken", 1);
    bench.until("unready", |bench| !bench.found("u", &id).ready).await;
    let elapsed = began.elapsed().as_secs();
    assert!((29..32).contains(&elapsed), "three periods, {elapsed}");
    assert_eq!(*bench.events.lock(), vec!["c Unhealthy: Readiness probe failed: broken"; 3]);
    let failing = bench.failing.of(&"u".into());
    assert_eq!((failing.len(), failing[0].answer.as_str()), (1, "broken"));
    let metrics = bench.metrics.encode();
    let labels = "container=\"c\",pod=\"p\",namespace=\"default\",pod_uid=\"u\"";
    let failed = format!("prober_probe_total{{probe_type=\"Readiness\",result=\"failed\",{labels}}} 3");
    assert!(metrics.contains(&failed), "{metrics}");
    assert!(
        metrics.contains("prober_probe_duration_seconds_count{probe_type=\"Readiness\",container=\"c\""),
        "{metrics}"
    );
    let steps = bench.timeline.tracks(|_| true);
    let details: Vec<&str> = steps[0].entries.iter().map(|entry| entry.detail.as_str()).collect();
    assert_eq!(details, ["c is ready", "c: Readiness probe failed: broken", "c is not ready"]);
    // The pod is removed.
    bench.status_cache.retain(&HashSet::new());
    bench.until("forgotten", |bench| bench.results.of(&"u".into()).0.is_empty()).await;
    assert!(!bench.metrics.encode().contains("pod_uid"), "{}", bench.metrics.encode());
}

#[tokio::test(start_paused = true)]
async fn a_failed_liveness_probe_wakes_the_worker_and_is_not_asked_again() {
    let mut bench = Bench::new();
    bench.prober();
    bench.scripted("check", Duration::from_secs(60), "", 0);
    let probe = json!({"exec": {"command": ["check"]}, "periodSeconds": 2, "timeoutSeconds": 1, "failureThreshold": 2});
    let id = bench.pod("u", json!({"livenessProbe": probe})).await;
    assert_eq!(timeout(PATIENCE, bench.results.news()).await.unwrap(), "u".into());
    assert_eq!(bench.found("u", &id).failed, Some(ProbeKind::Liveness));
    let event = "c Unhealthy: Liveness probe failed: command timed out: \"check\" timed out after 1s";
    assert_eq!(*bench.events.lock(), vec![event; 2]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.execs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_cannot_be_run_is_tried_three_times_and_counts_for_nothing() {
    let mut bench = Bench::new();
    bench.prober();
    let id = bench.container("u").await;
    bench.fake.exit_container(&id, 1);
    let probe = json!({"exec": {"command": ["check"]}, "failureThreshold": 1});
    bench.report("u", &json!({"livenessProbe": probe}), &id, bench.clock.now());
    bench.until("reported", |bench| bench.events.lock().len() == 2).await;
    assert_eq!((bench.execs(), bench.found("u", &id).failed), (6, None));
    let event = bench.events.lock()[0].clone();
    let expected = format!(
        "c Unhealthy: Liveness probe errored and resulted in unknown state: rpc error: code = Unknown desc = failed to \
         exec in container: container \"{id}\" is not running"
    );
    assert_eq!(event, expected);
}

#[tokio::test(start_paused = true)]
async fn a_slow_probe_delays_no_other() {
    let mut bench = Bench::new();
    bench.prober();
    bench.scripted("slow", Duration::from_secs(50), "", 0);
    for number in 0..200 {
        let probe = json!({"exec": {"command": ["slow"]}, "timeoutSeconds": 60});
        bench.pod(&format!("slow-{number}"), json!({"readinessProbe": probe})).await;
    }
    let began = Instant::now();
    let id = bench.pod("quick", json!({"readinessProbe": exec("quick")})).await;
    bench.until("ready", |bench| bench.found("quick", &id).ready).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_new_daemon_goes_on_with_the_findings() {
    let mut bench = Bench::new();
    bench.prober();
    let probe = |command: &str| json!({"exec": {"command": [command]}, "failureThreshold": 1});
    let probes =
        json!({"startupProbe": exec("up"), "readinessProbe": exec("ready"), "livenessProbe": probe("alive")});
    let id = bench.pod("u", probes.clone()).await;
    let since = bench.clock.now();
    bench.until("ready", |bench| bench.found("u", &id).ready).await;
    bench.scripted("ready", Duration::ZERO, "", 1);
    bench.scripted("up", Duration::ZERO, "", 1);
    bench.store = bench.store.copy();
    sleep(Duration::from_secs(5)).await;
    bench.prober();
    let found = ContainerProbes { started: true, ready: true, failed: None };
    assert_eq!(bench.found("u", &id), found, "known before anything is probed");
    bench.report("u", &probes, &id, since);
    let began = Instant::now();
    bench.until("probed", |bench| bench.events.lock().len() == 1).await;
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(
        (bench.found("u", &id), bench.events.lock()[0].as_str()),
        (found, "c Unhealthy: Readiness probe failed: ")
    );
    bench.until("unready", |bench| !bench.found("u", &id).ready).await;
    // A container that has to be restarted has to be restarted by the next daemon, too.
    bench.scripted("alive", Duration::ZERO, "", 1);
    bench.until("failed", |bench| bench.found("u", &id).failed.is_some()).await;
    bench.store = bench.store.copy();
    bench.prober();
    assert_eq!(bench.found("u", &id).failed, Some(ProbeKind::Liveness));
    assert_eq!(timeout(PATIENCE, bench.results.news()).await.unwrap(), "u".into());
    let row: Value = bench.store.get(Table::ProbeResults, "u").unwrap();
    assert_eq!(row, json!([{"container": id.to_string(), "started": true, "failed": "liveness"}]));
}
