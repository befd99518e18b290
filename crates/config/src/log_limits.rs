//! The limits of the logs of containers, from the configuration.

use hostlet_base::Quantity;
use hostlet_base::settings::LogLimits;

use super::values::{count, time};
use super::wire::KubeletConfiguration;

/// The limits of a valid configuration; `None` if the size is negative, which means no rotation.
pub(super) fn log_limits(kubelet: &KubeletConfiguration) -> Option<LogLimits> {
    let size = Quantity::parse(kubelet.container_log_max_size.as_deref().unwrap_or_default()).ok()?;
    Some(LogLimits {
        max_size: u64::try_from(size.value()).ok()?,
        max_files: count(kubelet.container_log_max_files),
        workers: count(kubelet.container_log_max_workers),
        interval: time(kubelet.container_log_monitor_interval),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hostlet_base::GoDuration;

    #[test]
    fn a_negative_size_means_no_rotation() {
        let limits = |size: &str| {
            log_limits(&KubeletConfiguration {
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
