//! Logging (`tracing` to stderr or the journal, text or JSON) and the registry of metrics. Never decides what is worth a line or a
//! metric.

mod changed;
mod init;
mod journal;
mod metrics;

pub use changed::Changed;
pub use init::{LogFormat, LogTarget, TelemetryConfig, TelemetryError, init};
pub use metrics::{DEFAULT_BUCKETS, Metrics, OPENMETRICS, Reading};
