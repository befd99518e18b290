//! All pods of this node by UID, each with its worker.

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod cut_short_tests;
#[cfg(test)]
mod fault_tests;
mod lives;
#[cfg(test)]
mod objects_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod status_tests;
mod sweep;
#[cfg(test)]
mod sweep_tests;
mod task;
#[cfg(test)]
mod testing;
mod workers;

pub use lives::{Effect, LifeView, Lives};
pub use task::{Janitor, PodTable, WantedPods};
