//! Logging (`tracing` to stderr or the journal, as text or JSON) and the metrics registry. Never decides what to log or measure.

mod changed;
mod init;
mod journal;
mod metrics;

pub use changed::Changed;
pub use init::{LogFormat, LogTarget, TelemetryConfig, TelemetryError, init};
pub use metrics::{DEFAULT_BUCKETS, Metrics, OPENMETRICS, Reading};
