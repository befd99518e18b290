//! Pod lifecycle event generator: relists the runtime, diffs, and is the only writer of the observed state. Never starts or stops anything.

mod status;

pub use status::PodStatus;
