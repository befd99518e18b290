//! Sends spans to the collector, many at a time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use http::Uri;
use hyper_util::rt::TokioIo;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::BoxError;
use tower::util::BoxService;

use super::span::record_with;
use super::{Collector, TraceSettings};
use crate::Metrics;

/// Spans that wait to be sent; more are dropped (the default of `OTEL_BSP_MAX_QUEUE_SIZE`).
const QUEUE: usize = 2048;
/// Spans sent together (the default of `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
const BATCH: usize = 512;
/// How long a span waits for others (the default of `OTEL_BSP_SCHEDULE_DELAY`).
const DELAY: Duration = Duration::from_secs(5);
/// Time limit of a request (the default of `OTEL_EXPORTER_OTLP_TIMEOUT`).
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of the last request, when the daemon ends.
const LAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of the service, as upstream's.
const SERVICE: &str = "kubelet";
/// Who records the spans.
const SCOPE: &str = "hostlet";

/// Makes a TCP connection to the host and port of a URI. Resolving a name must not take threads that others need: a collector whose name
/// server does not answer is tried again and again.
pub type CollectorDialer = BoxService<Uri, TokioIo<TcpStream>, BoxError>;

/// Takes the spans that ended.
struct Queue {
    spans: mpsc::Sender<SpanData>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends spans.
pub struct TraceExporter {
    pub(super) spans: mpsc::Receiver<SpanData>,
    /// Spans that no collector got.
    pub(super) dropped: Arc<AtomicU64>,
    client: TraceServiceClient<Channel>,
    resource: ResourceAttributesWithSchema,
    /// Whether the last request failed, which is said once.
    has_failed: bool,
}

impl TraceExporter {
    /// Lets spans be recorded from now on. `host` is the name of this host. Connects with the first span.
    pub fn start(settings: &TraceSettings, host: &str, dialer: CollectorDialer, metrics: &Metrics) -> Self {
        let (tracer, exporter) = Self::new(settings, host, dialer);
        let dropped = exporter.dropped.clone();
        metrics.register_counter(
            "hostlet_trace_spans_dropped",
            "Number of spans that were recorded but not sent, because the collector was too slow or did not answer",
            move || vec![(Vec::new(), dropped.load(Ordering::Relaxed))],
        );
        record_with(tracer);
        exporter
    }

    pub(super) fn new(settings: &TraceSettings, host: &str, dialer: CollectorDialer) -> (SdkTracer, Self) {
        let (queue, spans) = mpsc::channel(QUEUE);
        let dropped: Arc<AtomicU64> = Arc::default();
        let rate = f64::from(settings.per_million) / 1_000_000.0;
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(rate))))
            .with_span_processor(Queue { spans: queue, dropped: dropped.clone() })
            .build();
        let tracer = provider.tracer_with_scope(InstrumentationScope::builder(SCOPE).build());
        let resource = Resource::builder_empty()
            .with_detector(Box::new(EnvResourceDetector::new()))
            .with_service_name(SERVICE)
            .with_attribute(KeyValue::new("host.name", host.to_owned()))
            .build();
        let exporter = Self {
            spans,
            dropped,
            client: TraceServiceClient::new(connect(&settings.collector, dialer)),
            resource: ResourceAttributesWithSchema::from(&resource),
            has_failed: false,
        };
        (tracer, exporter)
    }

    /// Sends spans until cancelled, then those that are left.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => break,
                // Cancel-safe: spans are kept in the batch.
                () = collect(&mut self.spans, &mut batch) => {}
            }
            let mut sent = pin!(self.send(&mut batch, TIMEOUT));
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => {
                    // A collector that does not answer must not delay the end; the batch is lost.
                    let _ = timeout(LAST_TIMEOUT, sent).await;
                    break;
                }
                // Cancel-safe: pinned outside, and goes on above.
                () = &mut sent => {}
            }
        }
        while batch.len() < QUEUE
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
        if !batch.is_empty() && !self.has_failed {
            self.send(&mut batch, LAST_TIMEOUT).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<SpanData>, limit: Duration) {
        let spans = std::mem::take(batch);
        let count = spans.len() as u64;
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(spans, &self.resource),
        };
        let sent = timeout(limit, self.client.export(request)).await;
        match sent.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time"))) {
            Ok(_) => {
                if std::mem::take(&mut self.has_failed) {
                    tracing::info!("traces are sent again");
                }
            }
            Err(status) => {
                self.dropped.fetch_add(count, Ordering::Relaxed);
                if !std::mem::replace(&mut self.has_failed, true) {
                    let error = status.message();
                    tracing::warn!(error, "cannot send traces; they are dropped until the collector answers");
                }
            }
        }
    }
}

/// Waits for a span, then for others, but not for long. Cancel-safe: what came is in the batch.
async fn collect(spans: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    if batch.is_empty() && spans.recv_many(batch, BATCH).await == 0 {
        // Never: the tracer lives as long as the process.
        return std::future::pending().await;
    }
    let end = Instant::now() + DELAY;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        tokio::select! {
            // Cancel-safe, both: spans are taken only into the batch.
            received = spans.recv_many(batch, room) => if received == 0 { return },
            () = sleep_until(end) => return,
        }
    }
}

/// A connection that is made with the first request, and again after each loss.
fn connect(collector: &Collector, dialer: CollectorDialer) -> Channel {
    match collector {
        Collector::Tcp(uri) => {
            Endpoint::from(uri.clone()).connect_timeout(TIMEOUT).connect_with_connector_lazy(dialer)
        }
        Collector::Unix(path) => {
            let path = path.clone();
            // The URI is never dialed: the connector connects to the socket.
            Endpoint::from_static("http://collector.invalid").connect_with_connector_lazy(tower::service_fn(
                move |_| {
                    let path = path.clone();
                    async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
                },
            ))
        }
    }
}
