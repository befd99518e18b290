//! When images that nothing uses are removed. `image` applies it.

use std::time::Duration;

/// When the garbage collection of images removes unused ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// From which use of the image filesystem on images are removed, percent (`imageGCHighThresholdPercent`).
    pub high_percent: u8,
    /// Down to which use, percent; below the other (`imageGCLowThresholdPercent`).
    pub low_percent: u8,
    /// How long an image is kept from its first detection on, whatever the disk needs (`imageMinimumGCAge`).
    pub minimum_age: Duration,
    /// How long an image may be unused, whatever the disk has; `None` for any time (`imageMaximumGCAge`).
    pub maximum_age: Option<Duration>,
}

impl ImageGcPolicy {
    /// Whether anything is removed without a request: upstream's rule is that a threshold of 100 % switches it off.
    pub fn is_on(&self) -> bool {
        self.high_percent < 100 || self.maximum_age.is_some()
    }
}
