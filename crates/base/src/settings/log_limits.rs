//! When the logs of containers are rotated. `engine::container_logs` applies it.

use std::time::Duration;

/// When the logs of containers are rotated, and what remains of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Size in bytes from which a log is rotated (`containerLogMaxSize`).
    pub max_size: u64,
    /// Maximum files of a log, with the current one (`containerLogMaxFiles`).
    pub max_files: usize,
    /// How many logs are rotated at the same time (`containerLogMaxWorkers`).
    pub workers: usize,
    /// How often sizes are read (`containerLogMonitorInterval`).
    pub interval: Duration,
}
