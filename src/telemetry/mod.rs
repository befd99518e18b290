//! Logging: `tracing` to stderr or journald, text or JSON.
