//! The metrics of workers. Their names are upstream's.

mod hooks;
mod image_volumes;
mod resizes;
mod starts;
mod work;

use hooks::HookMetrics;
use image_volumes::ImageVolumeMetrics;
use resizes::ResizeTimes;
use starts::StartMetrics;
pub(super) use work::WorkKind;
use work::WorkMetrics;

use hostlet_telemetry::Metrics;

/// The metrics of all workers. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerMetrics {
    pub(super) hooks: HookMetrics,
    pub(super) image_volumes: ImageVolumeMetrics,
    pub(super) resizes: ResizeTimes,
    pub(super) starts: StartMetrics,
    pub(super) work: WorkMetrics,
}

impl WorkerMetrics {
    /// Registers them.
    pub(crate) fn register(&self, metrics: &Metrics) {
        self.hooks.register(metrics);
        self.image_volumes.register(metrics);
        self.resizes.register(metrics);
        self.starts.register(metrics);
        self.work.register(metrics);
    }
}
