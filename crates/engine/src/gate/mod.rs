//! The gates in front of the runtime: they bound how many starts and stops of pods it works on at once, and order those
//! that wait. Knows pods by UID and priority only; never calls the runtime.

mod metrics;
mod start;
mod stop;
mod wait_times;

pub(crate) use start::{PendingStart, Permit, StartGate, StartPriority};
pub(crate) use stop::{PendingStop, StopGate, Urgency};
