//! All pods of this node by UID, each with its worker.

mod lives;
mod task;
mod workers;

pub use lives::{Effect, LifeView, Lives};
pub use task::{Janitor, PodTable, TableHandle, WantedPods};
