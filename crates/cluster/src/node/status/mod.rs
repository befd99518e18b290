//! The Node's status: one setter per file, each a pure function of the facts and the current status.

mod addresses;
mod allocatable;
mod capacity;
mod conditions;
mod events;
mod images;
mod info;
mod kernel;
mod ready;
mod runtime;
#[cfg(test)]
mod tests;
mod update;

pub use allocatable::{absent_cpus, overdrawn};
pub(super) use allocatable::{allocatable, limited_together, unreserved};
pub(super) use capacity::capacity;
#[cfg(test)]
use conditions::aggregate;
pub(super) use events::status_event;
pub(super) use ready::is_ready;
pub(super) use update::{set_heartbeats, update};
