//! The route from a client's view, without TLS: real log files, an in-memory runtime.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use hostlet_base::WallClock;
use hostlet_engine::container_logs::ContainerLogs;
use hostlet_engine::container_logs::testing::Running;
use hostlet_observe::log::LogWatches;
use hostlet_observe::status::PodDirectory;
use hostlet_pod::pod_ref;
use hostlet_runtime::cri::RuntimeService;
use http_body_util::BodyExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{ContainerLogDeps, routes};

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    running: Running,
    deps: ContainerLogDeps,
}

impl Bench {
    async fn new() -> Self {
        let running = Running::new().await;
        let logs = ContainerLogs {
            pleg: running.pleg.clone(),
            status_cache: running.status_cache.clone(),
            watches: LogWatches::default(),
        };
        let deps = ContainerLogDeps {
            pods: PodDirectory::of(running.status_cache.clone()),
            logs,
            split_streams: false,
            clock: WallClock::system(),
            cancel: CancellationToken::new(),
        };
        Self { running, deps }
    }

    async fn start(&self, path: &str) -> Response {
        let request = Request::get(format!("/containerLogs/{path}")).body(Body::empty()).unwrap();
        routes(self.deps.clone()).oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.start(path).await;
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        let status = response.status();
        let body = timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap();
        (status, String::from_utf8(body.to_bytes().into()).unwrap())
    }

    async fn log(&self, query: &str) -> String {
        let (status, text) = self.get(&format!("default/web/c?{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}: {text}");
        text
    }
}

#[tokio::test]
async fn a_log_is_answered_as_asked() {
    let bench = Bench::new().await;
    bench.running.write("stdout P one ");
    bench.running.write("stdout F line");
    bench.running.write("stderr F another");
    assert_eq!(bench.log("").await, "one line\nanother\n");
    assert_eq!(bench.log("tailLines=1&timestamps=true").await, "2026-01-01T00:00:00.000000000Z another\n");
    assert_eq!(bench.log("limitBytes=5").await, "one l");
    assert_eq!(bench.log("sinceSeconds=1&stream=All").await, "");
}

#[tokio::test]
async fn only_get_is_answered() {
    let bench = Bench::new().await;
    for method in ["HEAD", "POST", "DELETE"] {
        let request = Request::builder().method(method).uri("/containerLogs/default/web/c");
        let request = request.body(Body::empty()).unwrap();
        let response = routes(bench.deps.clone()).oneshot(request).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &"GET".parse().unwrap())
        );
    }
}

#[tokio::test]
async fn one_stream_needs_the_feature_gate() {
    let mut bench = Bench::new().await;
    bench.running.write("stdout F out");
    bench.running.write("stderr F err");
    let (status, text) = bench.get("default/web/c?stream=Stderr").await;
    let expected = "unable to return the given log stream: \"Stderr\". \
                    Please enable PodLogsQuerySplitStreams feature gate in kubelet";
    assert_eq!((status, text.as_str()), (StatusCode::BAD_REQUEST, expected));
    bench.deps.split_streams = true;
    assert_eq!(
        (bench.log("stream=Stderr").await, bench.log("stream=Stdout").await),
        ("err\n".into(), "out\n".into())
    );
}

#[tokio::test]
async fn errors_are_the_stock_kubelets() {
    let bench = Bench::new().await;
    let cases = [
        ("default/web/c?tailLines=x", 400, r#"{"message": "Unable to decode query."}"#),
        ("default/none/c?tailLines=-1", 422, r#"{"message": "Invalid request."}"#),
        ("default/none/c", 404, r#"pod "none" does not exist"#),
        ("default/n%7Fne/c", 404, r#"pod "n\x7fne" does not exist"#),
        ("other/web/c", 404, r#"pod "web" does not exist"#),
        ("default/web/d", 404, r#"container "d" not found in pod "web""#),
        ("default/web/%01", 404, r#"container "\x01" not found in pod "web""#),
        ("default/web/..%2Fc", 404, r#"container "../c" not found in pod "web""#),
        ("default/web/late", 400, r#"container "late" in pod "web" is waiting to start: ContainerCreating"#),
        ("default/web/c?previous=true", 400, r#"previous terminated container "c" in pod "web" not found"#),
    ];
    for (path, status, text) in cases {
        let (found, body) = bench.get(path).await;
        assert_eq!((found.as_u16(), body.as_str()), (status, text), "{path}");
    }
    bench.running.fake.remove_container(&bench.running.id).await.unwrap();
    bench.running.pleg.relist(&pod_ref(&bench.running.pod));
    let absent = format!("unable to retrieve container logs for containerd://{}", bench.running.id);
    let gone = async {
        while bench.get("default/web/c").await != (StatusCode::BAD_REQUEST, absent.clone()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn following_answers_at_once_and_ends_with_the_container() {
    let bench = Bench::new().await;
    let response = timeout(PATIENCE, bench.start("default/web/c?follow=true")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body().into_data_stream();
    bench.running.write("stdout F later");
    let piece = timeout(PATIENCE, futures::StreamExt::next(&mut body)).await.unwrap().unwrap().unwrap();
    assert_eq!(piece, "later\n");
    bench.running.write("stdout F last words");
    bench.running.fake.stop_container(&bench.running.id, 0).await.unwrap();
    bench.running.pleg.relist(&pod_ref(&bench.running.pod));
    let rest: Vec<_> = timeout(PATIENCE, futures::StreamExt::collect(body)).await.unwrap();
    let rest: Vec<u8> = rest.into_iter().flat_map(|piece| piece.unwrap()).collect();
    assert_eq!(rest, b"last words\n");
}
