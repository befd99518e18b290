//! The gates in front of the runtime: how many pods start at the same time and in which order, and how many are stopped.
//! Knows pods by UID and rank; never calls the runtime.

mod metrics;
mod start;
mod stop;

pub use start::{Permit, StartGate, StartPriority};
pub use stop::{PendingStop, StopGate, Urgency};
