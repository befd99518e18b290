//! Traces: spans of the work on pods, sent to a collector over OTLP/gRPC as `tracing` in KubeletConfiguration says. Without it nothing is
//! recorded. A slow or missing collector costs spans, never time.

mod collector;
mod exporter;
#[cfg(test)]
mod exporter_tests;
mod settings;
mod span;

pub use collector::{Collector, CollectorError};
pub use exporter::{CollectorDialer, TraceExporter};
pub use settings::TraceSettings;
pub use span::{Span, in_present_span, record};
