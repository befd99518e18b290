//! The task with a faulty API server and its watch.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{QuietPeriod, WallClock};
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{LifecycleSummary, PodDirectory, PodStatusEntry, StatusCache};
use hostlet_pod::{AdmittedPod, ApiState, RejectedPod, Rejection};
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{StatusManager, StatusManagerDeps};
use crate::api::PrioritizedClients;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api_pods;

const POD: &str = "/api/v1/namespaces/default/pods/a";
const SETTLING: Duration = Duration::from_secs(300);

struct Setup {
    api: FakeApi,
    status_cache: StatusCache,
    rejected: watch::Sender<Vec<RejectedPod>>,
    quiet_period: QuietPeriod,
    metrics: Metrics,
    _running: DropGuard,
}

impl Setup {
    fn new() -> Self {
        let api = FakeApi::new(WallClock::system());
        let cancel = CancellationToken::new();
        let (tx, seen) = watch::channel(ApiState::default());
        let rejected = watch::Sender::new(Vec::new());
        let status_cache = StatusCache::default();
        let quiet_period = QuietPeriod::default();
        let deps = StatusManagerDeps {
            pods: PodDirectory::new(status_cache.clone(), rejected.subscribe(), seen.clone()),
            timeline: Timeline::default(),
            api: seen,
            quiet_period: quiet_period.clone(),
            clock: WallClock::system(),
        };
        let clients = PrioritizedClients { urgent: api.client(), normal: api.client() };
        let manager = StatusManager::new(clients, deps);
        let metrics = Metrics::default();
        manager.register(&metrics);
        #[expect(clippy::disallowed_methods, reason = "tasks of a test")]
        {
            tokio::spawn(api_pods::run(api.client(), "n1".to_owned(), Vec::new(), tx, cancel.clone()));
            tokio::spawn(manager.run(cancel.clone()));
        }
        Self { api, status_cache, rejected, quiet_period, metrics, _running: cancel.drop_guard() }
    }

    /// A pod bound to this node.
    fn pod(&self) -> Arc<AdmittedPod> {
        let pod =
            json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}});
        AdmittedPod::new(self.api.put(POD, &serde_json::from_value::<Pod>(pod).unwrap()))
    }

    fn report(&self, pod: &Arc<AdmittedPod>, status: Value, lifecycle: LifecycleSummary) {
        let status: Arc<PodStatus> = Arc::new(serde_json::from_value(status).unwrap());
        self.status_cache.report(PodStatusEntry {
            pod: pod.clone(),
            status,
            terminating_since: None,
            lifecycle,
            has_released: false,
        });
    }

    /// Many pods bound to this node, in the order of their UIDs.
    fn pods(&self, count: usize) -> Vec<Arc<AdmittedPod>> {
        let pods = (0..count).map(|number| {
            let name = format!("p{number}");
            let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}});
            let pod = serde_json::from_value::<Pod>(pod).unwrap();
            AdmittedPod::new(self.api.put(&format!("/api/v1/namespaces/default/pods/{name}"), &pod))
        });
        let mut pods: Vec<_> = pods.collect();
        pods.sort_by_key(|pod| hostlet_pod::pod_uid(pod));
        pods
    }

    /// A running pod whose first status has been written.
    async fn running_pod(&self) -> Arc<AdmittedPod> {
        let pod = self.pod();
        self.report(&pod, ready("True"), LifecycleSummary::Active);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(self.patches(), 1);
        pod
    }

    /// Reports a pod IP, a deferrable change.
    fn report_ip(&self, pod: &Arc<AdmittedPod>, ip: &str) {
        let mut status = ready("True");
        status["podIP"] = ip.into();
        self.report(pod, status, LifecycleSummary::Active);
    }

    fn patches(&self) -> usize {
        self.api.requests_of("PATCH", "/status").len()
    }

    fn end(&self, pod: &Arc<AdmittedPod>) {
        self.report(pod, json!({"phase": "Succeeded"}), LifecycleSummary::Terminated);
        self.status_cache.released(&hostlet_pod::pod_uid(pod));
    }

    /// How many changes reached the API server, and the sum of the seconds that they took.
    fn synced(&self) -> (u32, u32) {
        let text = self.metrics.encode();
        let value = |name: &str| {
            let name = format!("kubelet_pod_status_sync_duration_seconds_{name} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
            line.parse::<f64>().unwrap()
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
        let of = |name| value(name).round() as u32;
        (of("count"), of("sum"))
    }

    fn shown(&self) -> Option<PodStatus> {
        self.api.get::<Pod>(POD).map(|pod| pod.status.unwrap_or_default())
    }

    async fn settle(&self) {
        tokio::time::sleep(SETTLING).await;
    }
}

fn ready(value: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": value}]})
}

#[tokio::test(start_paused = true)]
async fn urgent_changes_are_written_at_once_and_the_rest_together() {
    let setup = Setup::new();
    let pod = setup.running_pod().await;
    for ip in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        setup.report_ip(&pod, ip);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(setup.patches(), 1, "it waits for more of its kind");
    setup.settle().await;
    assert_eq!(setup.shown().unwrap().pod_ip.as_deref(), Some("10.0.0.3"));
    assert_eq!(setup.patches(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_status_is_written_soon_and_a_quick_start_needs_no_other() {
    for is_quick in [false, true] {
        let setup = Setup::new();
        let pod = setup.pod();
        let mut status = json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"});
        setup.report(&pod, status.clone(), LifecycleSummary::Active);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(setup.patches(), 0);
        if is_quick {
            status["phase"] = "Running".into();
            setup.report(&pod, status, LifecycleSummary::Active);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(setup.patches(), 1);
        setup.settle().await;
        assert_eq!(setup.patches(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn while_pods_start_and_stop_the_rest_waits_for_a_lull_but_for_10_s_at_most() {
    let setup = Setup::new();
    let pod = setup.running_pod().await;
    let work = async |seconds: u32| {
        for _ in 0..10 * seconds {
            setup.quiet_period.note_work();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    setup.report_ip(&pod, "10.0.0.1");
    work(5).await;
    assert_eq!(setup.patches(), 1);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(setup.patches(), 2, "no further writes");
    setup.report_ip(&pod, "10.0.0.2");
    work(9).await;
    assert_eq!(setup.patches(), 2);
    work(2).await;
    assert_eq!(setup.patches(), 3);
    assert_eq!(setup.shown().unwrap().pod_ip.as_deref(), Some("10.0.0.2"));
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_gets_its_final_status_and_is_deleted_once() {
    let setup = Setup::new();
    let pod = setup.pod();
    setup.report(&pod, ready("True"), LifecycleSummary::Active);
    setup.settle().await;
    setup.api.delete(POD, Some(30));
    setup.settle().await;
    assert!(setup.shown().is_some(), "nothing is deleted before it has ended");
    setup.end(&pod);
    setup.settle().await;
    assert_eq!(setup.shown(), None);
    let deletes = setup.api.requests_of("DELETE", "/pods/a");
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].body["gracePeriodSeconds"], 0);
    assert_eq!(deletes[0].body["preconditions"]["uid"], json!(pod.metadata.uid));
    let last = setup.api.requests_of("PATCH", "/status").pop().unwrap();
    assert_eq!(last.body["status"]["phase"], "Succeeded");
}

fn faults() -> Vec<ApiFault> {
    let reject = |code, reason| ApiFault::Reject { code, reason, retry_after: 0 };
    vec![
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Delay(Duration::from_secs(20)),
        ApiFault::Hang,
        reject(409, "Conflict"),
        reject(500, "InternalError"),
        ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 7 },
    ]
}

#[tokio::test(start_paused = true)]
async fn any_faults_lead_to_the_same_end() {
    for fault in faults() {
        for method in ["PATCH", "DELETE"] {
            for skip in 0..2 {
                let setup = Setup::new();
                setup.api.fail(ApiRule {
                    skip,
                    times: 3,
                    ..ApiRule::always(method, "/pods/a", fault.clone())
                });
                let pod = setup.pod();
                setup.report(&pod, ready("True"), LifecycleSummary::Active);
                setup.settle().await;
                let phase = setup.shown().unwrap().phase;
                assert_eq!(phase.as_deref(), Some("Running"), "{fault:?} {method} {skip}");
                setup.api.delete(POD, Some(30));
                setup.end(&pod);
                setup.settle().await;
                assert_eq!(setup.shown(), None, "{fault:?} {method} {skip}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreated_pod_does_not_get_its_predecessors_status() {
    let setup = Setup::new();
    let old = setup.pod();
    setup.report(&old, ready("True"), LifecycleSummary::Active);
    setup.settle().await;
    setup.api.delete(POD, Some(0));
    let new = setup.pod();
    assert_ne!(old.metadata.uid, new.metadata.uid);
    setup.report(&old, ready("False"), LifecycleSummary::Terminating);
    setup.end(&old);
    setup.settle().await;
    assert_eq!(setup.shown().unwrap().phase.as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_shows_why_and_can_be_deleted() {
    let setup = Setup::new();
    setup
        .rejected
        .send_replace(vec![RejectedPod::new(setup.pod().object(), Rejection::new("OutOfpods", "no"))]);
    setup.settle().await;
    assert_eq!(setup.shown().unwrap().reason.as_deref(), Some("OutOfpods"));
    setup.api.put(POD, &{
        let mut pod: Pod = setup.api.get(POD).unwrap();
        pod.metadata.finalizers = Some(vec!["example.com/x".to_owned()]);
        pod
    });
    setup.api.delete(POD, Some(0));
    setup.settle().await;
    assert_eq!(
        setup.api.requests_of("DELETE", "/pods/a").len(),
        1,
        "requested once, although a finalizer keeps it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_static_pods_status_is_written_to_its_mirror_which_is_never_deleted() {
    let setup = Setup::new();
    let mirror = json!({"metadata": {"name": "a", "annotations": {"kubernetes.io/config.mirror": "hash"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}});
    setup.api.put(POD, &serde_json::from_value::<Pod>(mirror).unwrap());
    let pod = json!({"metadata": {"name": "a", "namespace": "default", "uid": "hash",
        "annotations": {"kubernetes.io/config.source": "file"}}, "spec": {"containers": [{"name": "c"}]}});
    let pod: Arc<AdmittedPod> = AdmittedPod::new(serde_json::from_value::<Pod>(pod).unwrap());
    setup.report(&pod, ready("True"), LifecycleSummary::Active);
    setup.settle().await;
    assert_eq!(setup.shown().unwrap().phase.as_deref(), Some("Running"));
    setup.api.delete(POD, Some(30));
    setup.end(&pod);
    setup.settle().await;
    assert!(setup.api.requests_of("DELETE", "/pods/a").is_empty());
}

/// The daemon was started with another `--node-ip` while the pod ran.
#[tokio::test(start_paused = true)]
async fn a_changed_node_address_is_written_to_pods_that_already_ran() {
    let setup = Setup::new();
    let pod = setup.pod();
    let at = |ip: &str| json!({"phase": "Running", "hostIP": ip, "hostIPs": [{"ip": ip}]});
    for ip in ["192.0.2.1", "192.0.2.2"] {
        setup.report(&pod, at(ip), LifecycleSummary::Active);
        setup.settle().await;
        let shown = setup.shown().unwrap();
        let all: Vec<_> = shown.host_ips.iter().flatten().map(|host| host.ip.as_str()).collect();
        assert_eq!((shown.host_ip.as_deref(), &all[..]), (Some(ip), &[ip][..]));
    }
}

/// The node controller says so of every pod on a node whose lease was renewed late.
#[tokio::test(start_paused = true)]
async fn readiness_that_another_client_withdrew_is_written_again_at_once() {
    let setup = Setup::new();
    setup.running_pod().await;
    for patches in [2, 3] {
        let mut live: Pod = setup.api.get(POD).unwrap();
        live.status = Some(serde_json::from_value(ready("False")).unwrap());
        setup.api.put(POD, &live);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(setup.shown().unwrap().conditions.unwrap()[0].status, "True");
        assert_eq!(setup.patches(), patches);
    }
}

/// A proxy answers 404 once although the pod exists.
#[tokio::test(start_paused = true)]
async fn a_stray_404_does_not_stop_a_pods_status() {
    for (method, path) in [("PATCH", "/pods/a/status"), ("DELETE", "/pods/a")] {
        let setup = Setup::new();
        let pod = setup.running_pod().await;
        let stray = ApiFault::Reject { code: 404, reason: "NotFound", retry_after: 0 };
        setup.api.fail(ApiRule::once(method, path, stray));
        setup.report(&pod, ready("False"), LifecycleSummary::Active);
        setup.settle().await;
        let conditions = setup.shown().unwrap().conditions.unwrap();
        assert_eq!(conditions[0].status, "False", "{method}");
        setup.api.delete(POD, Some(30));
        setup.end(&pod);
        setup.settle().await;
        assert_eq!(setup.shown(), None, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_a_webhook_strips_is_retried_with_back_off_and_changes_at_once() {
    let setup = Setup::new();
    setup.api.fail(ApiRule::always("PATCH", "/pods/a/status", ApiFault::Strip("/status/podIP")));
    let pod = setup.pod();
    setup.report_ip(&pod, "10.0.0.1");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let patches = setup.patches();
    assert!((2..15).contains(&patches), "{patches}");
    let mut unready = ready("False");
    unready["podIP"] = "10.0.0.1".into();
    setup.report(&pod, unready, LifecycleSummary::Active);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(setup.shown().unwrap().conditions.unwrap()[0].status, "False");
    setup.api.heal();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(setup.shown().unwrap().pod_ip.as_deref(), Some("10.0.0.1"));
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_from_its_report_until_the_api_server_has_it() {
    let setup = Setup::new();
    let pod = setup.running_pod().await;
    assert_eq!(setup.synced(), (1, 0));
    // One that is taken back before it is written is none, and the next one does not count from it.
    setup.report_ip(&pod, "10.0.0.1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    setup.report(&pod, ready("True"), LifecycleSummary::Active);
    setup.settle().await;
    assert_eq!((setup.patches(), setup.synced()), (1, (1, 0)));
    setup.report(&pod, ready("False"), LifecycleSummary::Active);
    setup.settle().await;
    assert_eq!(setup.synced(), (2, 0));
    // A change during a write counts by itself.
    setup.api.fail(ApiRule::once("PATCH", "/pods/a", ApiFault::Delay(Duration::from_secs(20))));
    setup.report(&pod, ready("True"), LifecycleSummary::Active);
    tokio::time::sleep(Duration::from_secs(15)).await;
    setup.report(&pod, ready("False"), LifecycleSummary::Active);
    setup.settle().await;
    assert_eq!(setup.synced(), (4, 25));
    // A failed write does not start the time again.
    setup.api.fail(ApiRule::once("PATCH", "/pods/a", ApiFault::Hang));
    setup.report(&pod, ready("True"), LifecycleSummary::Active);
    setup.settle().await;
    assert_eq!(setup.synced(), (5, 55));
    setup.api.delete(POD, Some(30));
    setup.end(&pod);
    setup.settle().await;
    assert_eq!((setup.shown(), setup.synced()), (None, (6, 55)), "a deletion is no status");
}

#[derive(Clone, Debug)]
enum Event {
    Tell(bool, u8),
    /// Another client writes its own condition.
    Others(u8),
    Fail(usize, bool),
    CutWatch,
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (any::<bool>(), 0..4u8).prop_map(|(ready, ip)| Event::Tell(ready, ip)),
        1 => (0..4u8).prop_map(Event::Others),
        2 => (0..faults().len(), any::<bool>()).prop_map(|(fault, patch)| Event::Fail(fault, patch)),
        1 => Just(Event::CutWatch),
        3 => (0..4000u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any events in any order, the server has the last reported status and the conditions of others.
    #[test]
    fn statuses_converge_to_the_last_reported_ones(events in prop::collection::vec(event(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let setup = Setup::new();
            let pod = setup.pod();
            let (mut reported, mut others) = (None, None);
            for event in events {
                match event {
                    Event::Tell(is_ready, ip) => {
                        let mut status = ready(if is_ready { "True" } else { "False" });
                        status["podIP"] = format!("10.0.0.{ip}").into();
                        setup.report(&pod, status, LifecycleSummary::Active);
                        reported = Some((is_ready, ip));
                    }
                    Event::Others(value) => {
                        let mut live: Pod = setup.api.get(POD).unwrap();
                        let mut status = serde_json::to_value(live.status.take().unwrap_or_default()).unwrap();
                        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                        conditions.retain(|condition| condition["type"] != "example.com/x");
                        conditions.push(json!({"type": "example.com/x", "status": "True", "reason": value.to_string()}));
                        status["conditions"] = conditions.into();
                        live.status = Some(serde_json::from_value(status).unwrap());
                        setup.api.put(POD, &live);
                        others = Some(value.to_string());
                    }
                    Event::Fail(fault, patch) => {
                        let method = if patch { "PATCH" } else { "WATCH" };
                        setup.api.fail(ApiRule::once(method, "/pods", faults()[fault].clone()));
                    }
                    Event::CutWatch => setup.api.fail(ApiRule::once("WATCH", "/pods", ApiFault::CutWatch(1))),
                    Event::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                }
            }
            setup.api.heal();
            tokio::time::sleep(Duration::from_secs(1200)).await;
            let shown = setup.shown().unwrap();
            let condition = |name: &str| shown.conditions.iter().flatten().find(|c| c.type_ == name);
            if let Some((is_ready, ip)) = reported {
                let wanted = if is_ready { "True" } else { "False" };
                prop_assert_eq!(condition("Ready").map(|c| c.status.as_str()), Some(wanted));
                prop_assert_eq!(shown.pod_ip.clone(), Some(format!("10.0.0.{ip}")));
            }
            prop_assert_eq!(condition("example.com/x").and_then(|c| c.reason.clone()), others);
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_have_ended_are_reported_before_others() {
    let setup = Setup::new();
    let pods = setup.pods(100);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (alive, ended) = pods.split_at(95);
    alive.iter().for_each(|pod| setup.report(pod, ready("True"), LifecycleSummary::Active));
    ended.iter().for_each(|pod| setup.report(pod, json!({"phase": "Failed"}), LifecycleSummary::Terminated));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let written = setup.api.requests_of("PATCH", "/status");
    assert_eq!(written.len(), 100);
    let phases: Vec<_> =
        written.iter().map(|write| write.body["status"]["phase"].as_str().unwrap()).collect();
    assert_eq!(phases[..5], ["Failed"; 5]);
}
