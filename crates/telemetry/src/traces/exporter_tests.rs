//! Spans arrive at a collector, or are dropped without delaying anybody.

use std::net::SocketAddr;
use std::time::Duration;

use futures::stream;
use http::Uri;
use hyper_util::rt::TokioIo;
use opentelemetry::trace::Tracer;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tower::{BoxError, ServiceExt, service_fn};

use super::{Collector, CollectorDialer, TraceExporter, TraceSettings};

/// Limit of a wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector that passes on what it gets.
struct Received(mpsc::Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Connects to this address, whatever is dialed.
fn dialer_to(address: SocketAddr) -> CollectorDialer {
    let dial =
        move |_: Uri| async move { Ok::<_, BoxError>(TokioIo::new(TcpStream::connect(address).await?)) };
    service_fn(dial).boxed()
}

/// A dialer that nothing uses.
fn unused() -> CollectorDialer {
    service_fn(|_: Uri| async { Err(BoxError::from("nothing is dialed over TCP")) }).boxed()
}

struct Bench {
    dir: TempDir,
    tcp: SocketAddr,
    tasks: JoinSet<()>,
    received: mpsc::Receiver<ExportTraceServiceRequest>,
    cancel: CancellationToken,
}

impl Bench {
    /// A collector at a Unix socket and at a port.
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let (sender, received) = mpsc::channel(16);
        let unix = UnixListener::bind(dir.path().join("otel")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let server = || Server::builder().add_service(TraceServiceServer::new(Received(sender.clone())));
        let (on_unix, on_tcp) = (server(), server());
        let incoming = stream::unfold(unix, |listener| async move {
            let accepted = listener.accept().await.map(|(connection, _)| connection);
            Some((accepted, listener))
        });
        tasks.spawn(async move { on_unix.serve_with_incoming(incoming).await.unwrap() });
        let incoming = stream::unfold(tcp, |listener| async move {
            let accepted = listener.accept().await.map(|(connection, _)| connection);
            Some((accepted, listener))
        });
        tasks.spawn(async move { on_tcp.serve_with_incoming(incoming).await.unwrap() });
        Self { dir, tcp: address, tasks, received, cancel: CancellationToken::new() }
    }

    fn settings(&self, per_million: u32) -> TraceSettings {
        TraceSettings { collector: Collector::Unix(self.dir.path().join("otel")), per_million }
    }

    /// The spans of the next request, by name, with the attributes of their resource.
    async fn next(&mut self) -> (Vec<String>, Vec<String>) {
        let request = timeout(PATIENCE, self.received.recv()).await.unwrap().unwrap();
        let resource = &request.resource_spans[0];
        let attributes = resource.resource.iter().flat_map(|resource| &resource.attributes);
        let spans = resource.scope_spans.iter().flat_map(|scope| &scope.spans);
        let mut keys: Vec<String> = attributes.map(|attribute| attribute.key.clone()).collect();
        keys.sort();
        (spans.map(|span| span.name.clone()).collect(), keys)
    }
}

#[tokio::test]
async fn spans_are_sent_together_and_the_last_ones_when_the_daemon_ends() {
    let mut bench = Bench::new().await;
    let (tracer, exporter) = TraceExporter::new(&bench.settings(1_000_000), "host1", unused());
    for name in ["a", "b"] {
        drop(tracer.start(name));
    }
    bench.tasks.spawn(exporter.run(bench.cancel.clone()));
    let (spans, resource) = bench.next().await;
    assert_eq!(spans, ["a", "b"]);
    assert_eq!(resource, ["host.name", "service.name"]);
    drop(tracer.start("c"));
    bench.cancel.cancel();
    assert_eq!(bench.next().await.0, ["c"]);
}

#[tokio::test]
async fn the_name_of_a_collector_is_resolved_by_the_given_dialer() {
    let mut bench = Bench::new().await;
    let collector = "collector.invalid:4317".parse().unwrap();
    let settings = TraceSettings { collector, per_million: 1_000_000 };
    let (tracer, exporter) = TraceExporter::new(&settings, "host1", dialer_to(bench.tcp));
    drop(tracer.start("a"));
    bench.tasks.spawn(exporter.run(bench.cancel.clone()));
    assert_eq!(bench.next().await.0, ["a"]);
}

#[tokio::test]
async fn nothing_is_recorded_of_traces_that_are_not_sampled() {
    let bench = Bench::new().await;
    let (tracer, mut exporter) = TraceExporter::new(&bench.settings(0), "host1", unused());
    drop(tracer.start("a"));
    assert!(exporter.spans.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn without_a_collector_spans_are_dropped_and_counted() {
    let missing = Collector::Unix("/nonexistent/otel".into());
    let (tracer, exporter) =
        TraceExporter::new(&TraceSettings { collector: missing, per_million: 1_000_000 }, "host1", unused());
    let dropped = exporter.dropped.clone();
    let count = || dropped.load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..3000 {
        drop(tracer.start("a"));
    }
    // More than the queue takes.
    assert_eq!(count(), 3000 - 2048);
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(exporter.run(cancel.clone()));
    timeout(PATIENCE, async {
        while count() < 3000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .unwrap();
    cancel.cancel();
    timeout(PATIENCE, tasks.join_next()).await.unwrap().unwrap().unwrap();
}
