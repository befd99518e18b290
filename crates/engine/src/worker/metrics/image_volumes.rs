//! Metrics of image volumes. The names are upstream's.

use prometheus_client::metrics::counter::Counter;

use hostlet_runtime::cri::CriError;
use hostlet_telemetry::Metrics;

/// The start of a runtime's message if it cannot mount an image (CRI API, package `errors`).
const MOUNT_FAILED: &str = "ImageVolumeMountFailed";

/// The metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::worker) struct ImageVolumeMetrics {
    requested: Counter,
    mounted: Counter,
    failed: Counter,
}

impl ImageVolumeMetrics {
    /// Registers them.
    pub(super) fn register(&self, metrics: &Metrics) {
        let all = [
            ("kubelet_image_volume_requested", "Number of requested image volumes", &self.requested),
            (
                "kubelet_image_volume_mounted_succeed",
                "Number of successful image volume mounts",
                &self.mounted,
            ),
            ("kubelet_image_volume_mounted_errors", "Number of failed image volume mounts", &self.failed),
        ];
        for (name, help, counter) in all {
            metrics.register(name, help, counter.clone());
        }
    }

    /// Counts the images of a container that is to be created with them.
    pub(in crate::worker) fn requested(&self, images: usize) {
        self.requested.inc_by(images as u64);
    }

    /// Counts the mounts of images of a container. Unlike upstream's, those of a container that could not be created for another
    /// reason are neither.
    pub(in crate::worker) fn created<T>(&self, mounts: usize, created: &Result<T, CriError>) {
        match created {
            Ok(_) => {
                self.mounted.inc_by(mounts as u64);
            }
            Err(error) if error.to_string().starts_with(MOUNT_FAILED) => {
                self.failed.inc_by(mounts as u64);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_runtime::cri::Operation;

    #[test]
    fn mounts_are_counted_by_their_result() {
        let (metrics, volumes) = (Metrics::default(), ImageVolumeMetrics::default());
        volumes.register(&metrics);
        volumes.requested(3);
        volumes.created(4, &Ok(()));
        for message in ["ImageVolumeMountFailed: no space left", "no such handler"] {
            let error =
                CriError::Failed { operation: Operation::CreateContainer, message: message.to_owned() };
            volumes.created::<()>(2, &Err(error));
        }
        let text = metrics.encode();
        for line in ["requested_total 3", "mounted_succeed_total 4", "mounted_errors_total 2"] {
            assert!(text.contains(&format!("\nkubelet_image_volume_{line}\n")), "{line}: {text}");
        }
    }
}
