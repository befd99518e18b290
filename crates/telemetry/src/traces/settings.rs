//! Where traces go, and how many.

use super::Collector;

/// The settings of traces (`tracing` in KubeletConfiguration).
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// Where they go (`tracing.endpoint`).
    pub collector: Collector,
    /// How many of a million traces are recorded (`tracing.samplingRatePerMillion`).
    pub per_million: u32,
}
