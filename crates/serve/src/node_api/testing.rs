//! A pod that runs in the in-memory runtime, and requests without a network.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use hostlet_observe::pleg::{Pleg, PlegHandle};
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry, StatusCache};
use hostlet_pod::testing::run;
use hostlet_pod::{AdmittedPod, pod_ref};
use hostlet_runtime::cri::fake::FakeRuntime;

/// A node with the pod `default/web` (`uid-1`), whose container `c` runs; `d` does not.
pub(super) struct Bench {
    pub(super) fake: FakeRuntime,
    pub(super) pleg: PlegHandle,
    pub(super) status_cache: StatusCache,
    _running: (JoinSet<()>, DropGuard),
}

/// The pod from its source.
pub(super) fn web() -> Pod {
    let metadata = json!({"name": "web", "namespace": "default", "uid": "uid-1"});
    let spec = json!({"containers": [{"name": "c", "image": "img:1"}, {"name": "d", "image": "img:1"}]});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

impl Bench {
    pub(super) async fn new() -> Self {
        let fake = FakeRuntime::new();
        run(&fake, &pod_ref(&web()), None).await;
        let (relister, pleg) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
        let status_cache = StatusCache::default();
        let status: PodStatus = serde_json::from_value(json!({"phase": "Running"})).unwrap();
        status_cache.report(PodStatusEntry {
            pod: AdmittedPod::new(web()),
            status: Arc::new(status),
            terminating_since: None,
            lifecycle: LifecycleSummary::Active,
            has_released: false,
        });
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(relister.run(cancel.clone()));
        pleg.cache().newer_than(&pod_ref(&web()), None).await.unwrap();
        Self { fake, pleg, status_cache, _running: (tasks, cancel.drop_guard()) }
    }
}

/// The status, headers and text of an answer.
pub(super) async fn ask(router: Router, method: &str, path: &str) -> (u16, HeaderMap, String) {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let body = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
    (status, headers, String::from_utf8(body.to_vec()).unwrap())
}

/// The object of an answer.
pub(super) async fn object(router: Router, path: &str) -> Value {
    let (status, headers, text) = ask(router, "GET", path).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "application/json"), "{text}");
    serde_json::from_str(&text).unwrap()
}
