//! Logging (`tracing` to stderr or the journal, as text or JSON), the metrics registry, traces, and the heartbeats of the main loops. Never
//! decides what to log or measure.

mod changed;
mod heartbeat;
mod init;
mod journal;
mod metrics;
mod prometheus_text;
mod traces;

pub use changed::Changed;
pub use heartbeat::{ANSWER_LIMIT, Heartbeat, Heartbeats};
pub use init::{LogControl, LogFormat, LogTarget, TelemetryConfig, TelemetryError, init};
pub use metrics::{DEFAULT_BUCKETS, Figure, Metrics, POD_START_BUCKETS, PlainCounter, Reading};
pub use prometheus_text::PROMETHEUS_TEXT;
pub use traces::{
    Collector, CollectorDialer, CollectorError, Span, TraceExporter, TraceSettings, in_present_span,
    record as record_span,
};
