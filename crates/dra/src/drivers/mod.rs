//! The DRA drivers that are registered on this node: which instance of each prepares claims, and which reports the health of devices.

mod handler;
mod health_task;
#[cfg(test)]
mod health_task_tests;
mod shared;

pub use handler::DraHandler;
pub use health_task::HealthTask;
pub(crate) use shared::Services;
