//! Events on the API server, as shown by `kubectl describe`. Best effort by upstream's rules: repeated events are aggregated,
//! events of a noisy object are rate-limited, and events that the server does not accept are dropped.

mod correlate;
#[cfg(test)]
mod correlate_tests;
mod object;
mod record;
#[cfg(test)]
mod record_tests;

pub use correlate::EventRecord;
pub use record::{EventRecorder, EventSink, recorder};
