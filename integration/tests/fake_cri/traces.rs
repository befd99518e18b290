//! Traces of the work on pods, as a collector gets them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to fail")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::support::{SOON, wait_until_ready, write_pods};

/// What a collector got.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collected {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collected {
    /// Listens until the tasks are dropped.
    fn listen(&self, socket: &Path, tasks: &mut JoinSet<()>) {
        let listener = UnixListener::bind(socket).unwrap();
        let server = Server::builder().add_service(TraceServiceServer::new(self.clone()));
        tasks.spawn(async move {
            server.serve_with_incoming(UnixListenerStream::new(listener)).await.unwrap();
        });
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).cloned().collect()
    }

    fn resource(&self) -> BTreeMap<String, String> {
        let requests = self.0.lock();
        let resource = requests[0].resource_spans[0].resource.clone().unwrap();
        texts(&resource.attributes)
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some((attribute.key.clone(), text.clone())),
        _ => None,
    };
    attributes.iter().filter_map(text).collect()
}

#[tokio::test]
async fn the_start_of_a_pod_is_a_trace_of_its_steps_and_runtime_calls() {
    let host = FakeHost::start().unwrap();
    let (collected, mut tasks) = (Collected::default(), JoinSet::new());
    let socket = host.directory().join("otel.sock");
    collected.listen(&socket, &mut tasks);
    let tracing =
        format!("tracing: {{endpoint: \"unix://{}\", samplingRatePerMillion: 1000000}}\n", socket.display());
    let daemon = host.start_hostlet(&tracing).await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let of_start = |spans: &[Span]| {
        let started = spans.iter().find(|span| span.name == "runtime.v1.RuntimeService/StartContainer")?;
        let root = spans.iter().find(|span| span.span_id == started.parent_span_id)?;
        let parts = spans.iter().filter(|span| span.parent_span_id == root.span_id);
        Some((root.clone(), parts.cloned().collect::<Vec<_>>()))
    };
    let (root, parts) = wait_for("the trace", SOON, async || {
        let spans = collected.spans();
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        Ok(of_start(&spans).map_or_else(|| Look::NotYet(format!("{names:?}")), Look::Done))
    })
    .await
    .unwrap();
    assert_eq!((&*root.name, root.parent_span_id.len()), ("syncPod", 0));
    let pod = texts(&root.attributes);
    assert_eq!(
        (&*pod["k8s.namespace.name"], &*pod["k8s.pod.name"]),
        ("default", &*format!("web-{}", host.node()))
    );
    let names: Vec<&str> = parts.iter().map(|span| span.name.as_str()).collect();
    for name in [
        "sandbox",
        "create",
        "start",
        "runtime.v1.RuntimeService/RunPodSandbox",
        "runtime.v1.RuntimeService/CreateContainer",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for part in &parts {
        assert_eq!(part.trace_id, root.trace_id, "{part:?}");
        assert!(part.start_time_unix_nano <= part.end_time_unix_nano, "{part:?}");
    }
    assert_eq!(collected.resource()["service.name"], "kubelet");
    assert_eq!(collected.resource()["host.name"], host.node());
}

#[tokio::test]
async fn without_a_sampling_rate_nothing_is_sent() {
    let host = FakeHost::start().unwrap();
    let (collected, mut tasks) = (Collected::default(), JoinSet::new());
    let socket = host.directory().join("otel.sock");
    collected.listen(&socket, &mut tasks);
    let daemon = host
        .start_hostlet(&format!("tracing: {{endpoint: \"unix://{}\"}}\n", socket.display()))
        .await
        .unwrap();
    write_pods(&host, &["web"]).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    // The last spans are sent before the daemon ends.
    daemon.stop().await.unwrap();
    assert!(collected.spans().is_empty(), "{:?}", collected.spans());
}
