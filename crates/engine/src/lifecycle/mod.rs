//! All pods of this node by UID, each with its worker.

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod claims_tests;
#[cfg(test)]
mod clock_tests;
#[cfg(test)]
mod cut_short_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod image_volume_tests;
mod janitor;
#[cfg(test)]
mod kill_tests;
mod kills;
#[cfg(test)]
mod life_tests;
mod lifecycles;
mod metrics;
#[cfg(test)]
mod metrics_tests;
#[cfg(test)]
mod objects_tests;
#[cfg(test)]
mod pull_tests;
#[cfg(test)]
mod resize_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod sandbox_tests;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod status_tests;
mod sweep;
#[cfg(test)]
mod sweep_tests;
mod task;
#[cfg(test)]
mod termination_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod users_tests;
mod workers;

pub(crate) use janitor::{Janitor, KnownPods};
pub(crate) use lifecycles::Effect;
pub(crate) use state::KillRequest;
pub(crate) use task::{PodTable, PodTableDeps};
