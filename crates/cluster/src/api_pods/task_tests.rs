//! The task against a failing API server.

use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_pod::ApiState;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::run;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

const PODS: &str = "/api/v1/namespaces/default/pods";

struct Source {
    api: FakeApi,
    state: watch::Receiver<ApiState>,
    _running: DropGuard,
}

fn start(api: FakeApi) -> Source {
    let (tx, state) = watch::channel(ApiState::default());
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(run(api.client(), "n1".to_owned(), Vec::new(), tx, cancel.clone()));
    Source { api, state, _running: cancel.drop_guard() }
}

impl Source {
    fn put(&self, name: &str, node: &str) {
        let pod =
            json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c"}]}});
        self.api.put(&format!("{PODS}/{name}"), &serde_json::from_value::<Pod>(pod).unwrap());
    }

    async fn names(&mut self, expected: &[&str]) {
        let is_there = |state: &ApiState| {
            let mut names: Vec<_> = state.pods.values().filter_map(|p| p.pod.metadata.name.clone()).collect();
            names.sort();
            state.ready && names == expected
        };
        let waited = tokio::time::timeout(Duration::from_secs(600), self.state.wait_for(is_there)).await;
        let seen = waited.is_ok();
        drop(waited);
        assert!(seen, "expected {expected:?}, last state: {:?}", self.state.borrow());
    }
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_this_node_are_published_on_every_change() {
    let mut source = start(FakeApi::new(WallClock::system()));
    source.names(&[]).await;
    source.put("a", "n1");
    source.put("b", "n2");
    source.put("c", "n1");
    source.names(&["a", "c"]).await;
    source.api.delete(&format!("{PODS}/a"), Some(0));
    source.names(&["c"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_first_is_retried() {
    let api = FakeApi::new(WallClock::system());
    api.fail(ApiRule { times: 5, ..ApiRule::always("WATCH", "/pods", ApiFault::Reset) });
    let mut source = start(api);
    source.state.wait_for(|state| state.problem.is_some()).await.unwrap();
    assert!(!source.state.borrow().ready);
    source.put("a", "n1");
    source.names(&["a"]).await;
    assert_eq!(source.state.borrow().problem, None);
}

#[tokio::test(start_paused = true)]
async fn changes_survive_cut_half_open_and_expired_watches() {
    let api = FakeApi::new(WallClock::system());
    api.fail(ApiRule::once("WATCH", "/pods", ApiFault::CutWatch(1)));
    api.fail(ApiRule::once("WATCH", "/pods", ApiFault::HalfOpenWatch(1)));
    api.fail(ApiRule::once(
        "WATCH",
        "/pods",
        ApiFault::Reject { code: 410, reason: "Expired", retry_after: 0 },
    ));
    api.fail(ApiRule::once(
        "WATCH",
        "/pods",
        ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 1 },
    ));
    let mut source = start(api);
    source.names(&[]).await;
    let mut expected = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        source.put(name, "n1");
        expected.push(name);
        source.names(&expected).await;
    }
    source.api.compact();
    source.put("f", "n1");
    expected.push("f");
    source.names(&expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_problem_ends_when_the_watch_is_open_again_without_changes() {
    let mut source = start(FakeApi::new(WallClock::system()));
    source.put("a", "n1");
    source.names(&["a"]).await;
    let before = source.api.requests().len();
    source.api.fail(ApiRule { times: 3, ..ApiRule::always("WATCH", "/pods", ApiFault::Reset) });
    let has_problem = |state: &ApiState| state.problem.is_some();
    timeout(Duration::from_secs(600), source.state.wait_for(has_problem)).await.unwrap().unwrap();
    let is_over = |state: &ApiState| state.problem.is_none();
    timeout(Duration::from_secs(600), source.state.wait_for(is_over)).await.unwrap().unwrap();
    source.names(&["a"]).await;
    assert_eq!(source.api.requests().len(), before + 4, "resumed, not listed again");
}
