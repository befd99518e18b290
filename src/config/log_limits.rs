//! When the logs of containers are rotated.

use std::time::Duration;

use super::settings::{count, time};
use super::wire::KubeletConfiguration;
use crate::types::Quantity;

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

impl LogLimits {
    /// The limits of a valid configuration; `None` if the size is negative, which means no rotation.
    pub(super) fn new(kubelet: &KubeletConfiguration) -> Option<Self> {
        let size = Quantity::parse(kubelet.container_log_max_size.as_deref().unwrap_or_default()).ok()?;
        Some(Self {
            max_size: u64::try_from(size.value()).ok()?,
            max_files: count(kubelet.container_log_max_files),
            workers: count(kubelet.container_log_max_workers),
            interval: time(kubelet.container_log_monitor_interval),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GoDuration;

    #[test]
    fn a_negative_size_means_no_rotation() {
        let limits = |size: &str| {
            LogLimits::new(&KubeletConfiguration {
                container_log_max_size: Some(size.to_owned()),
                container_log_max_files: Some(5),
                container_log_max_workers: Some(1),
                container_log_monitor_interval: Some(GoDuration::from_secs(10)),
                ..KubeletConfiguration::default()
            })
        };
        let interval = Duration::from_secs(10);
        let expected = LogLimits { max_size: 10 << 20, max_files: 5, workers: 1, interval };
        assert_eq!(limits("10Mi"), Some(expected));
        assert_eq!(limits("-1"), None);
    }
}
