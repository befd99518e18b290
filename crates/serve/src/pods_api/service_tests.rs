//! The API over its socket, as agents call it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostlet_observe::status::{LifecycleSummary, PodDirectory, PodStatusEntry, StatusCache};
use hostlet_plugins::connect;
use hostlet_pod::{AdmittedPod, ApiState, RejectedPod};
use hostlet_proto::pods_api::pods_client::PodsClient;
use hostlet_proto::pods_api::{EventType, GetPodRequest, ListPodsRequest, WatchPodsEvent, WatchPodsRequest};
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::Channel;

use super::encode;
use super::*;

struct Harness {
    pods: StatusCache,
    is_ready: Arc<AtomicBool>,
    metrics: Metrics,
    client: PodsClient<Channel>,
    /// Admission, which rejects nothing.
    _rejected: watch::Sender<Vec<RejectedPod>>,
    _running: JoinSet<()>,
    _dir: TempDir,
}

impl Harness {
    async fn start() -> Self {
        let (dir, pods) = (tempfile::tempdir().unwrap(), StatusCache::default());
        let (is_ready, metrics) = (Arc::new(AtomicBool::new(false)), Metrics::default());
        let settings = PodsApiSettings { dir: dir.path().join("pods-api") };
        let ready = is_ready.clone();
        let readiness: Readiness = Arc::new(move || ready.load(Ordering::Relaxed));
        let (rejected_in, rejected) = watch::channel(Vec::new());
        let directory = PodDirectory::new(pods.clone(), rejected, watch::channel(ApiState::default()).1);
        let server = PodsApiServer::new(settings, directory, readiness, &metrics);
        let mut running = JoinSet::new();
        running.spawn(server.run(CancellationToken::new()));
        let socket = dir.path().join("pods-api/pods-api.sock");
        let channel = loop {
            match connect(&socket).await {
                Ok(channel) => break channel,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let client = PodsClient::new(channel);
        Self { pods, is_ready, metrics, client, _rejected: rejected_in, _running: running, _dir: dir }
    }

    /// Reports a pod in this phase, and returns it in Protobuf.
    fn report(&self, name: &str, phase: &str) -> Vec<u8> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "main"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let status = PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() };
        self.pods.report(PodStatusEntry {
            pod: AdmittedPod::new(pod.clone()),
            status: Arc::new(status.clone()),
            terminating_since: None,
            lifecycle: LifecycleSummary::Active,
            has_released: false,
        });
        encode::pod(&Pod { status: Some(status), ..pod })
    }
}

fn of(event: WatchPodsEvent) -> (EventType, Vec<u8>) {
    (event.r#type(), event.pod)
}

#[tokio::test]
async fn agents_list_get_and_watch_pods() {
    let mut harness = Harness::start().await;
    let early = harness.client.list_pods(ListPodsRequest {}).await.unwrap_err();
    assert_eq!((early.code(), early.message()), (Code::FailedPrecondition, "Kubelet is initializing"));
    harness.is_ready.store(true, Ordering::Relaxed);
    let (b, a) = (harness.report("b", "Running"), harness.report("a", "Pending"));
    let listed = harness.client.list_pods(ListPodsRequest {}).await.unwrap().into_inner().pods;
    assert_eq!(listed, [a.clone(), b.clone()], "by UID");
    let request = |uid: &str| GetPodRequest { pod_uid: uid.to_owned() };
    assert_eq!(harness.client.get_pod(request("b")).await.unwrap().into_inner().pod, b);
    let missing = harness.client.get_pod(request("c")).await.unwrap_err();
    assert_eq!((missing.code(), missing.message()), (Code::NotFound, "pod with UID c not found"));

    let mut events = harness.client.watch_pods(WatchPodsRequest {}).await.unwrap().into_inner();
    let mut next = async || of(events.message().await.unwrap().unwrap());
    assert_eq!(next().await, (EventType::Added, a));
    assert_eq!(next().await, (EventType::Added, b));
    assert_eq!(next().await, (EventType::InitialSyncComplete, Vec::new()));
    let c = harness.report("c", "Pending");
    assert_eq!(next().await, (EventType::Added, c));
    let changed = harness.report("a", "Running");
    assert_eq!(next().await, (EventType::Modified, changed));
    harness.pods.retain(&HashSet::from(["a".into(), "c".into()]));
    let name = json!({"metadata": {"name": "b", "namespace": "default", "uid": "b"}});
    let removed = encode::pod(&serde_json::from_value(name).unwrap());
    assert_eq!(next().await, (EventType::Deleted, removed));
    let text = harness.metrics.encode();
    for line in [
        "list_total{server_api_version=\"v1alpha1\",status_code=\"OK\"} 1",
        "list_total{server_api_version=\"v1alpha1\",status_code=\"FailedPrecondition\"} 1",
        "get_total{server_api_version=\"v1alpha1\",status_code=\"NotFound\"} 1",
        "watch_total{server_api_version=\"v1alpha1\",status_code=\"OK\"} 1",
    ] {
        assert!(text.contains(&format!("kubelet_pod_requests_{line}\n")), "{text}");
    }
}
