//! The pod lifecycle event generator: relists the runtime, compares, and is the only writer of the observed state. Never
//! starts or stops anything.

mod at_work;
mod cache;
mod changes;
mod diff;
mod hints;
#[cfg(test)]
mod history_tests;
mod inspect;
mod lists;
#[cfg(test)]
mod lists_tests;
mod metrics;
mod records;
#[cfg(test)]
mod records_tests;
mod running;
mod status;
mod task;

pub use at_work::AtWork;
pub use cache::{Cache, Observed};
pub use changes::{ChangeQueue, PodChange};
pub use diff::{LifecycleEvent, ObjectId};
pub use status::PodStatus;
pub use task::{Health, Pleg, PlegHandle, RELIST_THRESHOLD};
