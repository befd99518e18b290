//! The task from requests to what containers have, over restarts.

use std::path::Path;
use std::sync::Arc;

use hostlet_observe::pleg::Cache;
use hostlet_observe::status::PodStatusEntry;
use hostlet_pod::AdmittedPod;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::PodStatus;
use tokio_util::sync::DropGuard;

use super::*;
use crate::grants::testing::{guaranteed, no_devices, static_cpus, static_cpus_of_pods};
use crate::grants::{NumaGrants, NumaSettings};

/// A running task on a machine of four CPUs of which three can be granted.
struct Harness {
    grants: Grants,
    requests: watch::Sender<GrantRequests>,
    desired: watch::Sender<DesiredPods>,
    status_cache: StatusCache,
    states: watch::Receiver<GrantStates>,
    metrics: Metrics,
    _running: DropGuard,
}

impl Harness {
    fn start(root: &Path) -> Self {
        Self::start_with(root, static_cpus())
    }

    fn start_with(root: &Path, settings: NumaSettings) -> Self {
        let grants = Grants::new(no_devices(root), NumaGrants::new(settings, root.to_owned()));
        let (metrics, counts) = (Metrics::default(), GrantMetrics::default());
        counts.register(&metrics, grants.numa());
        let (requests, requests_out) = watch::channel(GrantRequests::default());
        let desired = watch::Sender::new(DesiredPods::default());
        let (states, states_out) = watch::channel(GrantStates::default());
        let status_cache = StatusCache::default();
        let recovery =
            Recovery { desired_pods: desired.subscribe(), observed: Cache::default(), cgroups: None };
        let task = GrantsTask::new(GrantsDeps {
            grants: grants.clone(),
            requests: requests_out,
            desired_pods: desired.subscribe(),
            status_cache: status_cache.clone(),
            states,
            recovery,
            metrics: counts,
        });
        let cancel = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(task.run(Heartbeat::default(), cancel.clone()));
        let _running = cancel.drop_guard();
        Self { grants, requests, desired, status_cache, states: states_out, metrics, _running }
    }

    /// All sources have reported these admitted pods.
    async fn admit(&self, pods: &[&Arc<Pod>]) {
        let pods = pods.iter().map(|pod| AdmittedPod::new(Arc::clone(pod))).collect();
        self.desired.send_replace(DesiredPods { ready: true, pods, ..DesiredPods::default() });
        self.settle().await;
    }

    /// These pods are to be granted what they need. Returns what became of it.
    async fn request(&self, pods: &[&Arc<Pod>]) -> Vec<Option<GrantState>> {
        self.requests.send_replace(pods.iter().map(|pod| Arc::clone(pod)).collect());
        self.settle().await;
        let states = self.states.borrow();
        pods.iter().map(|pod| states.get(&pod_uid(pod)).cloned()).collect()
    }

    async fn settle(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }

    fn cpus(&self, uid: &str) -> (String, bool) {
        let cpus = self.grants.numa().cpus(&guaranteed(uid, "2"), "c").unwrap();
        (cpus.list, cpus.are_exclusive)
    }
}

fn own(list: &str) -> (String, bool) {
    (list.to_owned(), true)
}

fn shared(list: &str) -> (String, bool) {
    (list.to_owned(), false)
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_its_cpus_from_its_request_to_its_end() {
    let root = tempfile::tempdir().unwrap();
    let harness = Harness::start(root.path());
    harness.admit(&[]).await;
    let (two, many) = (guaranteed("two", "2"), guaranteed("many", "3"));
    let states = harness.request(&[&two, &many]).await;
    assert_eq!(states[0], Some(GrantState::Granted));
    let Some(GrantState::Rejected(rejection)) = &states[1] else { panic!("{states:?}") };
    assert_eq!(rejection.reason, "UnexpectedAdmissionError");
    let message = "Allocate failed due to not enough cpus available to satisfy request: requested=3, available=1, which is unexpected";
    assert_eq!(rejection.message, message);
    assert_eq!((harness.cpus("two"), harness.cpus("other")), (own("2-3"), shared("0-1")));
    assert!(harness.grants.is_cpu_unlimited(&two) && !harness.grants.is_cpu_unlimited(&many));
    harness.admit(&[&two]).await;
    harness.request(&[]).await;
    assert_eq!(harness.cpus("two"), own("2-3"), "it is admitted");
    harness.status_cache.report(PodStatusEntry {
        pod: AdmittedPod::new(two.clone()),
        status: Arc::new(PodStatus::default()),
        terminating_since: None,
        lifecycle: LifecycleSummary::Terminated,
        has_released: false,
    });
    harness.settle().await;
    assert_eq!(harness.cpus("two"), shared("0-3"), "nobody has to ask for them");
    assert_eq!(harness.request(&[&many]).await, [Some(GrantState::Granted)]);
    assert_eq!((harness.cpus("many"), harness.cpus("two")), (own("1-3"), shared("0")));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_is_no_fault_of_the_pod_and_is_tried_again() {
    let root = tempfile::tempdir().unwrap();
    let harness = Harness::start(root.path());
    harness.admit(&[]).await;
    let file = root.path().join("cpu_manager_state");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let two = guaranteed("two", "2");
    let states = harness.request(&[&two]).await;
    let Some(GrantState::NotYet(reason)) = &states[0] else { panic!("{states:?}") };
    let expected = "waits, because what it is given cannot be recorded: cannot write ";
    assert!(reason.starts_with(expected), "{reason}");
    std::fs::remove_dir(&file).unwrap();
    tokio::time::sleep(RECORD_RETRY).await;
    assert_eq!(harness.request(&[&two]).await, [Some(GrantState::Granted)]);
    assert!(std::fs::read_to_string(&file).unwrap().contains(r#""entries":{"two":{"c":"2-3"}}"#));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_admitted_after_all_releases_what_it_had() {
    let root = tempfile::tempdir().unwrap();
    let harness = Harness::start(root.path());
    harness.admit(&[]).await;
    let two = guaranteed("two", "2");
    harness.request(&[&two]).await;
    harness.request(&[]).await;
    assert_eq!(harness.cpus("two"), shared("0-3"));
}

#[tokio::test(start_paused = true)]
async fn the_next_daemon_knows_what_runs_and_grants_nothing_before() {
    let root = tempfile::tempdir().unwrap();
    let (one, two, three) = (guaranteed("one", "1"), guaranteed("two", "2"), guaranteed("three", "3"));
    {
        let harness = Harness::start(root.path());
        harness.admit(&[]).await;
        harness.request(&[&one, &two]).await;
        harness.admit(&[&one, &two]).await;
        assert_eq!((harness.cpus("one"), harness.cpus("two")), (own("1"), own("2-3")));
    }
    let harness = Harness::start(root.path());
    assert_eq!(harness.request(&[&three]).await, [None], "it does not know who runs");
    // One of them was removed meanwhile.
    harness.admit(&[&two]).await;
    assert_eq!((harness.cpus("one"), harness.cpus("two")), (shared("0-1"), own("2-3")));
    assert!(matches!(harness.request(&[&three]).await[0], Some(GrantState::Rejected(_))));
    assert_eq!(harness.request(&[&one]).await, [Some(GrantState::Granted)]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_and_another_policy_are_no_reason_not_to_start() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("cpu_manager_state");
    for content in ["{", r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#] {
        std::fs::write(&file, content).unwrap();
        let harness = Harness::start(root.path());
        harness.admit(&[]).await;
        let two = guaranteed("two", "2");
        assert_eq!(harness.request(&[&two]).await, [Some(GrantState::Granted)]);
        assert_eq!(harness.cpus("two"), own("2-3"));
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(written.contains(r#""entries":{"two":{"c":"2-3"}}"#), "{written}");
    }
}

#[tokio::test(start_paused = true)]
async fn grants_of_the_node_and_of_pods_are_counted() {
    let root = tempfile::tempdir().unwrap();
    let harness = Harness::start_with(root.path(), static_cpus_of_pods());
    harness.admit(&[]).await;
    let mut own = Pod::clone(&guaranteed("own", "1"));
    let spec = own.spec.as_mut().unwrap();
    let amounts = serde_json::json!({"cpu": "2", "memory": "1Mi"});
    let resources = serde_json::json!({"requests": amounts, "limits": amounts});
    spec.resources = Some(serde_json::from_value(resources).unwrap());
    spec.containers.push(serde_json::from_value(serde_json::json!({"name": "shares"})).unwrap());
    let (own, one, many) = (Arc::new(own), guaranteed("one", "1"), guaranteed("many", "3"));
    let states = harness.request(&[&own, &one, &many]).await;
    assert_eq!(states[..2], [Some(GrantState::Granted), Some(GrantState::Granted)]);
    let text = harness.metrics.encode();
    for line in [
        r#"allocations_total{resource_name="cpu",source="pod"} 2"#,
        r#"allocations_total{resource_name="cpu",source="node"} 1"#,
        r#"allocation_errors_total{resource_name="cpu",source="node"} 1"#,
        r#"container_assignments_total{assignment_type="pod_exclusive",resource_name="cpu"} 1"#,
        r#"container_assignments_total{assignment_type="pod_shared",resource_name="cpu"} 1"#,
        r#"container_assignments_total{assignment_type="node_exclusive",resource_name="cpu"} 1"#,
    ] {
        assert!(text.contains(&format!("kubelet_resource_manager_{line}\n")), "{line}: {text}");
    }
    let cache = r#"aligned_compute_resources_count{boundary="uncore_cache",scope="container"} 2"#;
    assert!(text.contains(cache), "{text}");
    assert!(!text.contains(r#"failure_count{boundary="uncore_cache""#), "{text}");
    // Upstream has these with its feature gate only.
    let harness = Harness::start(root.path());
    assert!(!harness.metrics.encode().contains("resource_manager"));
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_without_policies_is_nothing() {
    let root = tempfile::tempdir().unwrap();
    let numa = NumaGrants::new(crate::grants::NumaSettings::none(), root.path().to_owned());
    numa.recover(Vec::new()).await;
    assert_eq!(numa.cpu_list(&"uid".into(), "c"), None);
    let files = ["cpu_manager_state", "memory_manager_state"].map(|name| root.path().join(name));
    let written = files.map(|file| std::fs::read_to_string(file).unwrap());
    assert!(written[0].starts_with(r#"{"policyName":"none","defaultCpuSet":"""#), "{}", written[0]);
    assert!(written[1].starts_with(r#"{"policyName":"None","machineState":{}"#), "{}", written[1]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ended_for_good_has_no_cpus_while_its_pod_runs() {
    let root = tempfile::tempdir().unwrap();
    let harness = Harness::start(root.path());
    harness.admit(&[]).await;
    let mut job = Pod::clone(&guaranteed("job", "3"));
    job.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    let (job, next) = (Arc::new(job), guaranteed("next", "2"));
    harness.request(&[&job]).await;
    harness.admit(&[&job]).await;
    let state = serde_json::json!({"terminated": {"exitCode": 0}});
    let container = serde_json::json!({"name": "c", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0});
    let status = serde_json::json!({"containerStatuses": [container]});
    harness.status_cache.report(PodStatusEntry {
        pod: AdmittedPod::new(job),
        status: Arc::new(serde_json::from_value(status).unwrap()),
        terminating_since: None,
        lifecycle: LifecycleSummary::Active,
        has_released: false,
    });
    assert_eq!(harness.request(&[&next]).await, [Some(GrantState::Granted)]);
}
