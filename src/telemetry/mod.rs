//! Logging: `tracing` to stderr or the journal, text or JSON. Never decides what is worth a line.

mod changed;
mod init;
mod journal;

pub use changed::Changed;
pub use init::{LogFormat, LogTarget, TelemetryConfig, TelemetryError, init};
