//! Events on the API server: what `kubectl describe` shows of an object. Best effort by upstream's rules: told together
//! when they repeat, cut off when one object has too many, given up when the server does not take them.

mod correlate;
#[cfg(test)]
mod correlate_tests;
mod record;
#[cfg(test)]
mod record_tests;

pub use correlate::EventRecord;
pub use record::{EventRecorder, EventSink, recorder};
