//! Mirror pods with an API server that has faults and other clients.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry, StatusCache};
use hostlet_pod::{AdmittedPod, ApiState, DesiredPods};
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{MirrorDeps, Mirrors};
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api_pods;

const PODS: &str = "/api/v1/namespaces/default/pods";

struct Setup {
    api: FakeApi,
    desired_pods: watch::Sender<DesiredPods>,
    node: watch::Sender<Option<Arc<Node>>>,
    status_cache: StatusCache,
    reported: Arc<Mutex<Vec<String>>>,
    _running: DropGuard,
}

impl Setup {
    fn new() -> Self {
        let api = FakeApi::new(WallClock::system());
        let cancel = CancellationToken::new();
        let (tx, seen) = watch::channel(ApiState::default());
        let (desired_pods, wanted_out) = watch::channel(DesiredPods::default());
        let (node, node_out) = watch::channel(None);
        let (status_cache, reported) = (StatusCache::default(), Arc::new(Mutex::new(Vec::new())));
        let heard = reported.clone();
        let deps = MirrorDeps {
            desired_pods: wanted_out,
            api: seen,
            node: node_out,
            status_cache: status_cache.clone(),
            timeline: Timeline::default(),
            events: Arc::new(move |_, _, event| heard.lock().push(event.message.clone())),
            clock: WallClock::system(),
        };
        let mirrors = Mirrors::new(api.client(), deps);
        #[expect(clippy::disallowed_methods, reason = "tasks of a test")]
        {
            tokio::spawn(api_pods::run(api.client(), "n1".to_owned(), Vec::new(), tx, cancel.clone()));
            tokio::spawn(mirrors.run(cancel.clone()));
        }
        Self { api, desired_pods, node, status_cache, reported, _running: cancel.drop_guard() }
    }

    fn registered() -> Self {
        let setup = Self::new();
        setup.register();
        setup
    }

    fn register(&self) {
        let node = json!({"metadata": {"name": "n1", "uid": "node"}});
        self.node.send_replace(Some(Arc::new(serde_json::from_value(node).unwrap())));
    }

    /// Sets the version of the pod `web` in the manifests; `None` removes it.
    fn manifest(&self, hash: Option<&str>) {
        let pods = hash.into_iter().map(Self::pod);
        self.desired_pods.send_replace(DesiredPods {
            ready: true,
            pods: pods.collect(),
            ..DesiredPods::default()
        });
    }

    fn pod(hash: &str) -> Arc<AdmittedPod> {
        let pod = json!({"metadata": {"name": "web-n1", "namespace": "default", "uid": hash, "annotations":
                {"kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file"}},
                "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}, "status": {"phase": "Pending"}});
        AdmittedPod::new(serde_json::from_value::<Pod>(pod).unwrap())
    }

    /// Sets the lifecycle of this version of the pod.
    fn lifecycle(&self, hash: &str, lifecycle: LifecycleSummary) {
        self.status_cache.report(PodStatusEntry {
            pod: Self::pod(hash),
            status: Arc::default(),
            terminating_since: None,
            lifecycle,
            has_released: false,
        });
    }

    /// The mirror pods on the server, as (hash, UID).
    async fn shown(&self) -> Vec<(String, String)> {
        tokio::time::sleep(Duration::from_secs(120)).await;
        let mirrors = self.api.list::<Pod>(PODS).into_iter();
        let of = |pod: Pod| {
            let hash = pod.metadata.annotations.unwrap()["kubernetes.io/config.mirror"].clone();
            (hash, pod.metadata.uid.unwrap())
        };
        mirrors.map(of).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_has_a_mirror_from_node_registration_to_its_manifests_removal() {
    let setup = Setup::new();
    setup.manifest(Some("h1"));
    assert!(setup.shown().await.is_empty());
    setup.register();
    assert_eq!(setup.shown().await[0].0, "h1");
    let mirror: Pod = setup.api.get(&format!("{PODS}/web-n1")).unwrap();
    let owner = &mirror.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Node", "node", Some(true)));
    assert_eq!(setup.api.requests_of("POST", "/pods").len(), 1);
    setup.manifest(None);
    assert!(setup.shown().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_mirror_is_created_again() {
    let setup = Setup::registered();
    setup.manifest(Some("h1"));
    let before = setup.shown().await;
    for grace in [Some(0), Some(30)] {
        setup.api.delete(&format!("{PODS}/web-n1"), grace);
        let after = setup.shown().await;
        assert_eq!(after[0].0, "h1");
        assert_ne!(after[0].1, before[0].1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_edited_pod_gets_a_new_mirror() {
    let setup = Setup::registered();
    setup.manifest(Some("h1"));
    let before = setup.shown().await;
    setup.manifest(Some("h2"));
    let after = setup.shown().await;
    assert_eq!(after[0].0, "h2");
    assert_ne!(after[0].1, before[0].1);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_remains_until_its_pod_has_terminated() {
    let setup = Setup::registered();
    setup.manifest(Some("h1"));
    setup.lifecycle("h1", LifecycleSummary::Active);
    let before = setup.shown().await;
    setup.manifest(Some("h2"));
    assert_eq!(setup.shown().await, before, "it is not terminating yet");
    setup.lifecycle("h1", LifecycleSummary::Terminating);
    assert_eq!(setup.shown().await, before, "it has its grace period");
    setup.lifecycle("h1", LifecycleSummary::Terminated);
    assert_eq!(setup.shown().await[0].0, "h2");
    setup.lifecycle("h2", LifecycleSummary::Active);
    setup.manifest(None);
    assert_eq!(setup.shown().await.len(), 1);
    setup.lifecycle("h2", LifecycleSummary::Terminated);
    assert!(setup.shown().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_cannot_be_created_is_reported_with_the_error() {
    let setup = Setup::registered();
    let reject = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    setup.api.fail(ApiRule::always("POST", "/pods", reject));
    setup.manifest(Some("h1"));
    setup.shown().await;
    let reported = setup.reported.lock().clone();
    assert!(reported[0].contains("Failed to create the mirror pod: "), "{reported:?}");
    setup.api.heal();
    assert_eq!(setup.shown().await.len(), 1);

    let setup = Setup::registered();
    let other =
        json!({"metadata": {"name": "web-n1"}, "spec": {"nodeName": "n2", "containers": [{"name": "c"}]}});
    setup.api.put(&format!("{PODS}/web-n1"), &serde_json::from_value::<Pod>(other).unwrap());
    setup.manifest(Some("h1"));
    tokio::time::sleep(Duration::from_secs(120)).await;
    let reported = setup.reported.lock().clone();
    assert!(reported[0].contains("not its mirror pod"), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_all_manifests_were_read() {
    let setup = Setup::registered();
    setup.manifest(Some("h1"));
    let before = setup.shown().await;
    setup.desired_pods.send_replace(DesiredPods::default());
    assert_eq!(setup.shown().await, before);
}

#[tokio::test(start_paused = true)]
async fn any_faults_converge_to_one_mirror() {
    let reject = |code, reason| ApiFault::Reject { code, reason, retry_after: 3 };
    let faults = [
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Hang,
        reject(403, "Forbidden"),
        reject(429, "TooManyRequests"),
        reject(500, "InternalError"),
    ];
    for fault in faults {
        let setup = Setup::registered();
        setup.api.fail(ApiRule { times: 2, ..ApiRule::always("POST", "/pods", fault.clone()) });
        setup.api.fail(ApiRule { times: 2, ..ApiRule::always("DELETE", "/pods", fault.clone()) });
        setup.manifest(Some("h1"));
        assert_eq!(setup.shown().await.len(), 1, "{fault:?}");
        setup.manifest(Some("h2"));
        let shown = setup.shown().await;
        assert_eq!(shown.len(), 1, "{fault:?}");
        assert_eq!(shown[0].0, "h2", "{fault:?}");
        setup.manifest(None);
        assert!(setup.shown().await.is_empty(), "{fault:?}");
    }
}
