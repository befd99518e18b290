//! Pods of a URL: they run, change and stay as its answers say, also over restarts of the daemon.

use std::sync::Arc;

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{
    manifest, sandboxes_of, wait_for_complaint, wait_for_log, wait_until_gone, wait_until_ready,
};

/// A server that answers every request which has the right header in the same way.
struct PodServer {
    answer: Arc<Mutex<(StatusCode, String)>>,
    address: String,
    _task: JoinSet<()>,
}

impl PodServer {
    async fn start(answer: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let answer = Arc::new(Mutex::new((StatusCode::OK, answer)));
        let (mut task, shown) = (JoinSet::new(), answer.clone());
        task.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let serve = |request: http::Request<Incoming>| {
                    let (status, text) = match request.headers().get("x-site").map(|site| site.as_bytes()) {
                        Some(b"berlin") => shown.lock().clone(),
                        Some(_) | None => (StatusCode::FORBIDDEN, String::new()),
                    };
                    let body = Full::new(Bytes::from(text));
                    async move { Response::builder().status(status).body(body) }
                };
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(serve)).await;
            }
        });
        Ok(Self { answer, address, _task: task })
    }

    fn answers(&self, status: StatusCode, text: impl Into<String>) {
        *self.answer.lock() = (status, text.into());
    }

    fn config(&self) -> String {
        format!(
            "staticPodURL: http://{}/pods\nstaticPodURLHeader: {{X-Site: [berlin]}}\nhttpCheckFrequency: 1s",
            self.address
        )
    }
}

fn list(names: &[&str]) -> String {
    let pods: Vec<String> = names.iter().map(|name| manifest(name, &["main"])).collect();
    format!(r#"{{"apiVersion": "v1", "kind": "PodList", "items": [{}]}}"#, pods.join(", "))
}

#[tokio::test]
async fn pods_of_a_url_run_and_follow_its_answers() {
    let host = FakeHost::start().unwrap();
    let server = PodServer::start(list(&["one", "two"])).await.unwrap();
    let daemon = host.start_hostlet(&server.config()).await.unwrap();
    host.write_manifest("file.json", &manifest("file", &["main"])).unwrap();
    wait_until_ready(&daemon, &["one", "two", "file"]).await.unwrap();
    let source =
        &daemon.pod("one").unwrap().unwrap().metadata.annotations.unwrap()["kubernetes.io/config.source"];
    assert_eq!(source, "http");

    server.answers(StatusCode::OK, "{half");
    let broken = |complaint: &str| {
        complaint.contains("/pods cannot be used") && complaint.contains("not YAML or JSON")
    };
    wait_for_complaint(&daemon, "the broken answer", broken).await.unwrap();
    server.answers(StatusCode::SERVICE_UNAVAILABLE, "");
    let failed = |complaint: &str| complaint.contains("it cannot be fetched: the server answered 503");
    wait_for_complaint(&daemon, "the failure", failed).await.unwrap();
    assert_eq!(daemon.pods().unwrap().len(), 3, "failures keep the pods");

    server.answers(StatusCode::OK, list(&["two", "three"]));
    wait_until_ready(&daemon, &["two", "three"]).await.unwrap();
    wait_until_gone(&host, "one").await.unwrap();
    wait_for_complaint(&daemon, "no complaint", str::is_empty).await.unwrap();
    server.answers(StatusCode::OK, list(&["file", "two"]));
    let twice = |complaint: &str| complaint.contains("is already defined by");
    wait_for_complaint(&daemon, "the conflict", twice).await.unwrap();
    assert_eq!(sandboxes_of(&host, "file"), [0]);
}

#[tokio::test]
async fn without_an_answer_the_pods_of_a_url_stay_and_no_other_is_removed() {
    let host = FakeHost::start().unwrap();
    let server = PodServer::start(list(&["one", "two"])).await.unwrap();
    let daemon = host.start_hostlet(&server.config()).await.unwrap();
    wait_until_ready(&daemon, &["one", "two"]).await.unwrap();
    daemon.stop().await.unwrap();

    server.answers(StatusCode::BAD_GATEWAY, "");
    let daemon = host.start_hostlet(&server.config()).await.unwrap();
    wait_for_log(&daemon, "it cannot be fetched").await.unwrap();
    wait_until_ready(&daemon, &["one", "two"]).await.unwrap();
    assert_eq!((sandboxes_of(&host, "one"), sandboxes_of(&host, "two")), (vec![0], vec![0]));
    server.answers(StatusCode::OK, list(&["two"]));
    wait_until_gone(&host, "one").await.unwrap();
    assert_eq!(sandboxes_of(&host, "two"), [0]);
}
